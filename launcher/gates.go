package launcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Gates are those of Karpenter's feature gates that have an effect here.
type Gates struct {
	// NodeRepair replaces nodes that have been unhealthy for long. Off by default.
	NodeRepair bool
	// SpotToSpotConsolidation allows replacing a spot node by a cheaper spot node. Off by default.
	SpotToSpotConsolidation bool
	// StaticCapacity keeps the number of nodes of NodePools with spec.replicas. Off by default.
	StaticCapacity bool
	// CapacityBuffer keeps room for the pods of CapacityBuffers. Off by default.
	CapacityBuffer bool
	// NodeOverlay applies NodeOverlays to prices and capacities. Off by default.
	NodeOverlay bool
	// OpenReservations lets EC2 run instances in open capacity reservations that their class does not select. Off by default: the gate ReservedCapacity
	// is on.
	OpenReservations bool
}

// The names of Karpenter's feature gates.
const (
	gateNodeRepair = "NodeRepair"
	gateSpotToSpot = "SpotToSpotConsolidation"
	gateStatic     = "StaticCapacity"
	gateBuffer     = "CapacityBuffer"
	gateOverlay    = "NodeOverlay"
	gateReserved   = "ReservedCapacity"
)

// elsewhere returns Karpenter's gates without an effect here: their features are always on, or do not exist. A Deployment made for Karpenter
// may name them.
func elsewhere() []string {
	return []string{"nodeClassCEL"}
}

// ParseGates parses Karpenter's format of feature gates, such as NodeRepair=true,SpotToSpotConsolidation=false.
func ParseGates(text string) (Gates, error) {
	var out Gates
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		on, err := strconv.ParseBool(value)
		if !ok || err != nil {
			return Gates{}, fmt.Errorf("featureGates: %q is not of the form Name=true or Name=false", part)
		}
		switch {
		case name == gateNodeRepair:
			out.NodeRepair = on
		case name == gateSpotToSpot:
			out.SpotToSpotConsolidation = on
		case name == gateStatic:
			out.StaticCapacity = on
		case name == gateBuffer:
			out.CapacityBuffer = on
		case name == gateOverlay:
			out.NodeOverlay = on
		case name == gateReserved:
			out.OpenReservations = !on
		case !slices.Contains(elsewhere(), name):
			return Gates{}, fmt.Errorf("featureGates: %q is not one of Karpenter's gates: %s, %s, %s, %s, %s, %s, %s", name, gateNodeRepair, gateSpotToSpot, gateStatic, gateBuffer, gateOverlay, gateReserved, strings.Join(elsewhere(), ", "))
		}
	}
	return out, nil
}

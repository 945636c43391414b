package launcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Gates are Karpenter's feature gates, as far as they switch something here.
type Gates struct {
	// NodeRepair replaces nodes whose conditions say for long that they do not work. Off by default.
	NodeRepair bool
	// SpotToSpotConsolidation lets a spot node be replaced by a cheaper one of spot capacity. Off by default.
	SpotToSpotConsolidation bool
}

// The names of Karpenter's feature gates.
const (
	gateNodeRepair = "NodeRepair"
	gateSpotToSpot = "SpotToSpotConsolidation"
)

// elsewhere are gates of Karpenter's that switch nothing here: what they are for is always on, or not there. A Deployment that was
// Karpenter's may name them.
func elsewhere() []string {
	return []string{"ReservedCapacity", "NodeOverlay", "StaticCapacity", "CapacityBuffer", "nodeClassCEL"}
}

// ParseGates reads Karpenter's way to write feature gates, such as NodeRepair=true,SpotToSpotConsolidation=false.
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
		case !slices.Contains(elsewhere(), name):
			return Gates{}, fmt.Errorf("featureGates: %q is none of Karpenter's gates: %s, %s, %s", name, gateNodeRepair, gateSpotToSpot, strings.Join(elsewhere(), ", "))
		}
	}
	return out, nil
}

package plan

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Label keys that are not constants of k8s.io/api.
const (
	labelCapacityType = "karpenter.sh/capacity-type"
	labelNodePool     = "karpenter.sh/nodepool"
	labelRegistered   = "karpenter.sh/registered"
	labelInitialized  = "karpenter.sh/initialized"
)

// RegionOf derives the region from the name of a zone.
func RegionOf(zone string) string { return regionOf(zone) }

// regionOf derives the region from the name of a zone: us-east-1 of us-east-1a and of us-east-1-bos-1a.
func regionOf(zone string) string {
	parts := strings.Split(zone, "-")
	for i, p := range parts {
		if p != "" && p[0] >= '0' && p[0] <= '9' {
			parts[i] = strings.TrimRight(p, "abcdefghijklmnopqrstuvwxyz")
			return strings.Join(parts[:i+1], "-")
		}
	}
	return zone
}

// ofReservation says that the label is one of nodes in a capacity reservation.
func ofReservation(key string) bool {
	return key == catalog.LabelReservationID || key == catalog.LabelReservationType || key == catalog.LabelReservationInterruptible
}

// isHost says that the label distinguishes nodes.
func isHost(key string) bool { return key == corev1.LabelHostname }

// CertainLabels returns the labels that the node of a claim has whichever offering EC2 picks, as the launcher has them until EC2 has answered: those of
// its NodePool, and those of which the requirements leave one value.
func (c Claim) CertainLabels(pool catalog.NodePool) map[string]string {
	out := map[string]string{labelNodePool: c.NodePool, catalog.LabelNodeClass: pool.NodeClass}
	maps.Copy(out, pool.Labels)
	for _, r := range c.Requirements {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			out[r.Key] = r.Values[0]
		}
	}
	return out
}

package view

import (
	"cmp"
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/clip"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Decision is something that slipway did about nodes, and why.
type Decision struct {
	// At is when it was.
	At time.Time `json:"at"`
	// What it was.
	What What `json:"what"`
	// NodeClaims that it is about, by name; at most 5.
	NodeClaims []string `json:"nodeClaims"`
	// More is how many NodeClaims more there are.
	More int `json:"more,omitempty"`
	// NodePool of the first of them.
	NodePool string `json:"nodePool,omitempty"`
	// Why it was done; for a termination, the reason of the NodeClaim's condition DisruptionReason, such as Expired or Drifted.
	Why string `json:"why,omitempty"`
	// Pods that waited for the node that was launched; 0 for what was launched in place of another node.
	Pods int `json:"pods,omitempty"`
	// InstanceType of the first of them.
	InstanceType string `json:"instanceType,omitempty"`
	// Zone of the first of them.
	Zone string `json:"zone,omitempty"`
	// CapacityType of the first of them.
	CapacityType string `json:"capacityType,omitempty"`
	// Price of the first of them, in USD per hour; 0 where unknown.
	Price float64 `json:"usdPerHour,omitempty"`
	// Saving of a consolidation, in USD per hour.
	Saving float64 `json:"savedUSDPerHour,omitempty"`
	// Evictions that a consolidation makes.
	Evictions int `json:"evictions,omitempty"`
}

// What is what a Decision was.
type What string

// What decisions are.
const (
	// Launched means that EC2 launched the node.
	Launched What = "launch"
	// Refused means that the node was given up before it was ready: EC2 did not launch it, or it did not join.
	Refused What = "refusal"
	// Consolidated means that the nodes' pods are moved because that saves money.
	Consolidated What = "consolidation"
	// Terminated means that the node is drained and terminated.
	Terminated What = "termination"
)

// mostNames bounds the NodeClaims that a Decision names, and mostWhy the bytes of its reason.
const mostNames, mostWhy = 5, 400

// NewDecision returns a decision about NodeClaims, of which there is at least one.
func NewDecision(what What, at time.Time, why string, claims ...*karpv1.NodeClaim) Decision {
	row := newRow(claims[0], nil)
	out := Decision{
		At: at.UTC().Truncate(time.Second), What: what, NodePool: row.NodePool, Why: clip.Text(why, mostWhy), InstanceType: row.InstanceType, Zone: row.Zone, CapacityType: row.CapacityType,
		Price: row.Price, More: max(0, len(claims)-mostNames),
	}
	for _, c := range claims[:min(len(claims), mostNames)] {
		out.NodeClaims = append(out.NodeClaims, c.Name)
	}
	return out
}

// DecisionsOf returns what a NodeClaim's status says was decided: its launch and its termination.
func DecisionsOf(claim *karpv1.NodeClaim) []Decision {
	var out []Decision
	if c := conditions.Claim(claim, karpv1.ConditionTypeLaunched); c.IsTrue() && claim.Status.ProviderID != "" {
		d := NewDecision(Launched, c.LastTransitionTime.Time, whyLaunched(claim), claim)
		if pods, _ := record.Pods(claim); len(record.Replaces(claim)) == 0 { // Without the annotation there are none.
			d.Pods = len(pods)
		}
		out = append(out, d)
	}
	if claim.DeletionTimestamp != nil {
		out = append(out, NewDecision(Terminated, claim.DeletionTimestamp.Time, cmp.Or(whyTerminating(claim), "Deleted"), claim))
	}
	return out
}

// whyLaunched returns what a NodeClaim was launched for.
func whyLaunched(claim *karpv1.NodeClaim) string {
	pods, _ := record.Pods(claim) // Without the annotation there are none.
	switch nodes := record.Replaces(claim); {
	case len(nodes) == 1:
		return fmt.Sprintf("for %s of node %s", catalog.CountText(len(pods), "pod"), nodes[0])
	case len(nodes) > 1:
		return fmt.Sprintf("for %s of %d nodes", catalog.CountText(len(pods), "pod"), len(nodes))
	case len(pods) > 0:
		return "for " + catalog.CountText(len(pods), "pod")
	}
	return ""
}

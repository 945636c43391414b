package view

import (
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// fewBoots is how many boots of an instance type and AMI are enough to judge by them alone.
const fewBoots = 3

// mostBoots bounds the boots that are kept for each instance type and AMI, and for all together.
const mostBoots = 1000

// Estimate is when a node will be ready, by the boots of the nodes that the cluster has: from the launch until the node is initialized.
type Estimate struct {
	// Half is when half of those boots that are not over by now would be over.
	Half time.Time `json:"p50"`
	// Most is the same for nine of ten.
	Most time.Time `json:"p90"`
	// Boots is how many the estimate is made of.
	Boots int `json:"boots"`
	// Of is what they have in common with the node: its instance type and AMI, or nothing, where too few nodes have.
	Of string `json:"of,omitempty"`
	// Late means that it takes longer than each of them; Half and Most are of all of them.
	Late bool `json:"late,omitempty"`
}

// boots are durations from launch to initialized, sorted.
type boots struct {
	of  map[string][]time.Duration
	all []time.Duration
}

// bootKey names what boots alike; empty while it is not known.
func bootKey(claim *karpv1.NodeClaim) string {
	kind := claim.Labels[corev1.LabelInstanceTypeStable]
	if kind == "" {
		kind = ParseExpected(claim.Annotations[catalog.ExpectedAnnotation]).InstanceType
	}
	if kind == "" || claim.Status.ImageID == "" {
		return kind
	}
	return kind + ", " + claim.Status.ImageID
}

// bootsOf returns the boots of NodeClaims, the latest ones where there are many. NodeClaims keep the times of their conditions: what was learned
// is there after a restart, and while a node that it was learned from is.
func bootsOf(claims []*karpv1.NodeClaim) boots {
	type boot struct {
		key  string
		at   time.Time
		took time.Duration
	}
	var list []boot
	for _, claim := range claims {
		launched, initialized := conditions.Claim(claim, karpv1.ConditionTypeLaunched), conditions.Claim(claim, karpv1.ConditionTypeInitialized)
		if provider.OthersClaim(claim) || !launched.IsTrue() || !initialized.IsTrue() || launched.LastTransitionTime.IsZero() || record.StandbyOf(claim).Buffer != "" {
			continue // One of a standby buffer slept in between.
		}
		took := initialized.LastTransitionTime.Sub(launched.LastTransitionTime.Time)
		if took <= 0 {
			continue // The node is older than its conditions.
		}
		list = append(list, boot{bootKey(claim), launched.LastTransitionTime.Time, took})
	}
	slices.SortFunc(list, func(a, b boot) int { return b.at.Compare(a.at) })
	out := boots{of: map[string][]time.Duration{}}
	for _, b := range list {
		if len(out.of[b.key]) < mostBoots {
			out.of[b.key] = append(out.of[b.key], b.took)
		}
		if len(out.all) < mostBoots {
			out.all = append(out.all, b.took)
		}
	}
	for _, took := range out.of {
		slices.Sort(took)
	}
	slices.Sort(out.all)
	return out
}

// estimate returns when the node of a NodeClaim will be ready; nil for one that is or terminates, and where no node has booted yet. now is the
// time at which it is not ready; zero returns nil.
func (b boots) estimate(claim *karpv1.NodeClaim, now time.Time) *Estimate {
	if now.IsZero() || !claim.DeletionTimestamp.IsZero() || conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) || len(b.all) == 0 || record.StandbyOf(claim).Off() {
		return nil
	}
	start := record.StartedAt(claim)
	if start.IsZero() {
		start = claim.CreationTimestamp.Time
	}
	if start.IsZero() {
		return nil
	}
	out := &Estimate{Of: bootKey(claim)}
	took := b.of[out.Of]
	if len(took) < fewBoots {
		out.Of, took = "", b.all
	}
	out.Boots = len(took)
	over, _ := slices.BinarySearch(took, now.Sub(start))
	if out.Late = over == len(took); !out.Late {
		took = took[over:]
	}
	out.Half, out.Most = start.Add(took[(len(took)-1)*50/100]), start.Add(took[(len(took)-1)*90/100])
	return out
}

// ReadyOf returns when the node of a NodeClaim will be ready; nil for one that is or terminates, and where no node has booted yet.
func ReadyOf(claim *karpv1.NodeClaim, in Objects) *Estimate {
	if conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) {
		return nil
	}
	return bootsOf(in.NodeClaims).estimate(claim, in.Now)
}

// Text returns the estimate in one line.
func (e *Estimate) Text(now time.Time) string {
	of := "all"
	if e.Of != "" {
		of = e.Of
	}
	if e.Late {
		return fmt.Sprintf("its boot takes longer than the %s known (%s)", catalog.CountText(e.Boots, "boot"), of)
	}
	return fmt.Sprintf("ready in about %s, at most %s in 9 of 10 cases (%s known, %s)", in(now, e.Half), in(now, e.Most), catalog.CountText(e.Boots, "boot"), of)
}

// in returns the time until at, in whole seconds.
func in(now, at time.Time) string { return max(0, at.Sub(now)).Round(time.Second).String() }

// StateText returns the state, and in how long the node will be ready where that is known.
func (n NodeRow) StateText(now time.Time) string {
	switch {
	case n.Ready == nil || now.IsZero():
		return string(n.State)
	case n.Ready.Late:
		return string(n.State) + " (late)"
	}
	return fmt.Sprintf("%s (~%s)", n.State, in(now, n.Ready.Half))
}

// writeEstimate prints when a NodeClaim's node will be ready, if that is known.
func writeEstimate(w io.Writer, claim *karpv1.NodeClaim, claims []*karpv1.NodeClaim, now time.Time) {
	if e := ReadyOf(claim, Objects{NodeClaims: claims, Now: now}); e != nil {
		fmt.Fprintf(w, "  %s\n", e.Text(now))
	}
}

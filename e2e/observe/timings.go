package observe

import (
	"math"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Timings are the seconds that each stage from pod to running container took, over all pods or nodes that passed it.
type Timings struct {
	// PendingToPlan is from the pod's creation to that of the NodeClaim that has a promise for it.
	PendingToPlan Distribution `json:"pendingToPlan"`
	// PlanToCall is from the NodeClaim's creation to the arrival of its CreateFleet request at AWS.
	PlanToCall Distribution `json:"planToCall"`
	// CallToNode is from that request to the Node object.
	CallToNode Distribution `json:"callToNode"`
	// CallToReady is from that request to the Node's Ready=True.
	CallToReady Distribution `json:"callToReady"`
	// ReadyToBound is from Ready=True to the binding, for pods that were bound after it.
	ReadyToBound Distribution `json:"readyToBound"`
	// BoundToRunning is from the binding to the pod's phase Running.
	BoundToRunning Distribution `json:"boundToRunning"`
}

// Distribution summarizes values in seconds.
type Distribution struct {
	// P50 and P99 are percentiles by nearest rank; 0 where N is 0.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// N is the number of values.
	N int `json:"n"`
}

// Measure computes the timings of the histories. calls is when the CreateFleet request of each launch id arrived.
func Measure(pods []Pod, nodes []Node, claims []Claim, calls map[string]time.Time) Timings {
	byUID, ready, promise := map[string]Pod{}, map[string]Node{}, map[string]Claim{}
	for _, p := range pods {
		byUID[string(p.Object.UID)] = p
	}
	for _, n := range nodes {
		ready[n.Object.Name] = n
	}
	var pendingToPlan, planToCall, callToNode, callToReady, readyToBound, boundToRunning []float64
	for _, c := range claims {
		for _, uid := range PromisedTo(c) {
			promise[uid] = c
		}
		call, called := calls[c.Object.Annotations[catalog.LaunchAnnotation]]
		if !called {
			continue
		}
		planToCall = span(planToCall, c.Created, Moment{At: call})
		node := ready[c.Object.Status.NodeName]
		callToNode = span(callToNode, Moment{At: call}, node.Created)
		callToReady = span(callToReady, Moment{At: call}, node.Ready)
	}
	for uid, p := range byUID {
		if c, ok := promise[uid]; ok {
			pendingToPlan = span(pendingToPlan, p.Created, c.Created)
		}
		if n := ready[p.Object.Spec.NodeName]; n.Ready.Before(p.Bound) {
			readyToBound = span(readyToBound, n.Ready, p.Bound)
		}
		boundToRunning = span(boundToRunning, p.Bound, p.Running)
	}
	return Timings{
		PendingToPlan: Distribute(pendingToPlan), PlanToCall: Distribute(planToCall), CallToNode: Distribute(callToNode),
		CallToReady: Distribute(callToReady), ReadyToBound: Distribute(readyToBound), BoundToRunning: Distribute(boundToRunning),
	}
}

// PromisedTo returns the UIDs of the pods promised to a claim.
func PromisedTo(c Claim) []string {
	var out []string
	for uid := range view.Promises([]*karpv1.NodeClaim{c.Object}) {
		out = append(out, uid)
	}
	return out
}

func span(list []float64, from, to Moment) []float64 {
	if !from.Seen() || !to.Seen() {
		return list
	}
	// Two watches may deliver events of the same millisecond in either order.
	return append(list, math.Max(0, to.At.Sub(from.At).Seconds()))
}

// Distribute computes the percentiles of seconds.
func Distribute(seconds []float64) Distribution {
	if len(seconds) == 0 {
		return Distribution{}
	}
	sorted := slices.Sorted(slices.Values(seconds))
	rank := func(p float64) float64 { return sorted[int(math.Ceil(p*float64(len(sorted))))-1] }
	return Distribution{P50: rank(0.50), P99: rank(0.99), N: len(sorted)}
}

package plugin

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
)

// nominationRest is how long a pod of a gang that gets no node may keep a nomination: a preemption's victims are terminating by then.
const nominationRest = 5 * time.Second

// nominations removes the nominations that the scheduler has left on pods of gangs which were rejected at Permit. The scheduler notes on a
// pod that waits there which node it waits for (KEP-5278). When the pod is rejected it clears what its informer shows: a note that the
// informer shows later stays for good, and keeps the room from all pods of the same priority or a lower one. The planner's goroutine alone
// uses it.
type nominations struct {
	queue    *queue
	unplaced *pending.Pods
	snapshot *snapshot
	status   *podstatus.Writer

	// seen are the nominations of the gangs' pods that have no node.
	seen map[types.UID]nomination
}

// nomination is a node that the API server shows as a pod's nominated one, since when it was seen.
type nomination struct {
	node  string
	since time.Time
}

// tidy removes the nominations that are older than nominationRest, unless victims are still terminating on the node.
func (n *nominations) tidy(now time.Time) {
	seen := map[types.UID]nomination{}
	n.unplaced.Each(func(e intake.Entry) {
		if e.Gang.Name == "" {
			return
		}
		ref := catalog.PodRefOf(e.Pod)
		pod := n.queue.objects.pod(ref)
		if pod == nil || pod.Status.NominatedNodeName == "" || n.queue.profiles.gathering(pod) == "" || n.queue.assumed(pod) {
			return
		}
		node := pod.Status.NominatedNodeName
		last := n.seen[pod.UID]
		switch {
		case last.node != node || n.snapshot.victimsLeave(pod):
			last = nomination{node: node, since: now}
		case now.Sub(last.since) >= nominationRest:
			n.status.Report(podstatus.Note{Pod: ref, NotNominated: node})
			last.since = now
		}
		seen[pod.UID] = last
	})
	n.seen = seen
}

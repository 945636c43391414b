package plugin

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

const (
	// adoptEvery is how often the pods of other schedulers are looked through at most.
	adoptEvery = 100 * time.Millisecond
	// adoptAtLeastEvery is how often they are looked through where none has changed.
	adoptAtLeastEvery = time.Second
	// nominateEvery is how often a pod's nominatedNodeName is written at most: its scheduler may clear it.
	nominateEvery = time.Second
	// theirTurn is how long a pod is left to its scheduler when its node is there, before it is planned again.
	theirTurn = 30 * time.Second
	// retryEvery is how often held pods are planned again where nothing shows that this may help. kube-scheduler tries a pod again after as long, and
	// writes nothing if it finds the same.
	retryEvery = 5 * time.Minute
)

// adoption is what the planner remembers of a pod that another scheduler found no node for.
type adoption struct {
	// written is when its nominatedNodeName was written last.
	written time.Time
	// rest is until when the pod is left to its scheduler. nominated is the node that it is left for, empty for none.
	rest      time.Time
	nominated string
	// version is the pod's resourceVersion when it was collected last.
	version string
}

// adopterConfig is what an adopter needs. All fields are required.
type adopterConfig struct {
	queue     *queue
	collected *intake.Collector
	batch     *intake.Batch
	unplaced  *pending.Pods
	promises  *promise.Table
	status    *podstatus.Writer
	// leads reports whether scheduling cycles run in this process. A standby has the same pods and promises, but its launcher launches nothing.
	leads func() bool
}

// adopter collects the pods that other schedulers find no node for. The planner's goroutine alone uses it, podChanged excepted.
type adopter struct {
	adopterConfig

	pods map[types.UID]*adoption
	// looked is when they were looked through last.
	looked time.Time
	// retried is when those that are held were planned again last, or since when there are any.
	retried time.Time
	// changed means that a pod of an adopted scheduler has changed since.
	changed atomic.Bool
}

// podChanged notes that a pod of another scheduler may need a node. It is safe for concurrent use.
func (a *adopter) podChanged(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" && a.queue.profiles.adopts(pod.Spec.SchedulerName) {
		a.changed.Store(true)
		a.collected.Notify()
	}
}

// knows reports whether the pod is another scheduler's, and without a node.
func (a *adopter) knows(uid types.UID) bool { return a.pods[uid] != nil }

// nextLook returns when the pods are looked through again because one has changed. Zero if none has, or in a standby.
func (a *adopter) nextLook() time.Time {
	if !a.changed.Load() || !a.leads() {
		return time.Time{}
	}
	return a.looked.Add(adoptEvery)
}

// due reports whether to look through the pods now.
func (a *adopter) due(now time.Time) bool {
	if len(a.queue.profiles.adopted) == 0 || !a.leads() {
		return false
	}
	wait := adoptAtLeastEvery
	if a.changed.Load() {
		wait = adoptEvery
	}
	return !now.Before(a.looked.Add(wait))
}

// adopt collects the pods that other schedulers found no node for, and keeps nominatedNodeName on those that have a promise: it
// shows their scheduler and other autoscalers that the pod is taken. A standby does neither.
func (a *adopter) adopt(now time.Time) {
	if !a.due(now) {
		return
	}
	a.changed.Store(false)
	a.looked = now
	pods, err := a.queue.objects.pods.List(labels.Everything())
	if err != nil {
		return
	}
	seen, held := map[types.UID]*adoption{}, false
	for _, pod := range pods {
		if !a.queue.profiles.adopts(pod.Spec.SchedulerName) || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		known := a.pods[pod.UID]
		if known == nil {
			known = &adoption{}
		}
		seen[pod.UID] = known
		if promise, ok := a.promises.Get(pod.UID); ok {
			a.nominate(pod, known, cmp.Or(promise.NodeName, promise.NodeClaim), now)
			continue
		}
		held = held || a.unplaced.Knows(pod.UID)
		if a.adoptable(pod, known, now) {
			known.version = pod.ResourceVersion
			a.collected.Add(intake.Entry{Pod: a.queue.profiles.ours(pod), At: now, Nominated: pod.Status.NominatedNodeName, Verdict: podstatus.Message(pod), Adopted: true})
		}
	}
	a.pods = seen
	switch {
	case !held:
		a.retried = now
	case now.Sub(a.retried) >= retryEvery:
		a.retried = now
		a.unplaced.PlanBy(now)
	}
}

// waits reports whether the pod is held or set aside. One that is held and has changed since it was collected does not wait: its user has edited it, or its
// scheduler has found something new, such as a volume that is bound. The scheduling queue collects slipway's own pods again, and has none of these.
func (a *adopter) waits(pod *corev1.Pod, known *adoption, now time.Time) bool {
	return a.unplaced.Waits(pod.UID, now) && (pod.ResourceVersion == known.version || a.unplaced.IsAside(pod.UID, now))
}

// nominate has a promised pod's nominatedNodeName name its node.
func (a *adopter) nominate(pod *corev1.Pod, known *adoption, node string, now time.Time) {
	known.nominated = "" // The turn of its scheduler begins when the promise ends.
	if pod.Status.NominatedNodeName != node && !now.Before(known.written.Add(nominateEvery)) {
		known.written = now
		a.status.Report(podstatus.Note{Pod: catalog.PodRefOf(pod), NominatedNode: node})
	}
}

// adoptable reports whether a pod of another scheduler waits for a node that no other autoscaler launches.
func (a *adopter) adoptable(pod *corev1.Pod, known *adoption, now time.Time) bool {
	if a.batch.Has(pod.UID) || a.waits(pod, known, now) || now.Before(known.rest) || !unschedulable(pod) {
		return false
	}
	nominated := pod.Status.NominatedNodeName
	if nominated == "" {
		return true
	}
	node := a.queue.objects.node(nominated)
	switch {
	case node == nil:
		return true // The claim that it was promised has ended.
	case nodeClaimOf(node) == "":
		return false // It preempts, or is another autoscaler's.
	}
	// It was promised the node, before a restart as well, or preempts there: the plan leaves it out while its victims terminate.
	rested := nominated == known.nominated
	known.nominated, known.rest = nominated, now.Add(theirTurn)
	return rested
}

// leaveBe leaves an adopted pod to its scheduler for a moment.
func (a *adopter) leaveBe(uid types.UID, now time.Time) {
	if known := a.pods[uid]; known != nil {
		known.rest = now.Add(theirTurn)
	}
}

// unschedulable reports whether the pod's scheduler has looked for a node and found none.
func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

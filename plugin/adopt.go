package plugin

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
)

const (
	// adoptEvery is how often the pods of other schedulers are looked through at most.
	adoptEvery = 100 * time.Millisecond
	// nominateEvery is how often a pod's nominatedNodeName is written at most: its scheduler may clear it.
	nominateEvery = time.Second
	// theirTurn is how long a pod is left to its scheduler when its node is there, before it is planned again.
	theirTurn = 30 * time.Second
)

// adoption is what the planner remembers of a pod that another scheduler found no node for.
type adoption struct {
	// nominated is what its nominatedNodeName was written to be, at written.
	nominated string
	written   time.Time
	// rest is until when the pod is left to its scheduler.
	rest time.Time
}

// adopted are the pods of other schedulers. The planner's goroutine owns it.
type adopted struct {
	pods map[types.UID]*adoption
	// looked is when they were looked through last.
	looked time.Time
}

// adopts says whether pods of that scheduler are served when it finds no node for them.
func (p *Plugin) adopts(scheduler string) bool { return slices.Contains(p.args.Adopt, scheduler) }

// ours is an adopted pod as one of our default profile, which judges the nodes that are planned for it.
func (p *Plugin) ours(pod *corev1.Pod) *corev1.Pod {
	if !p.adopts(pod.Spec.SchedulerName) {
		return pod
	}
	out := *pod
	out.Spec.SchedulerName = p.anyHandle().ProfileName()
	return &out
}

// adoptedPod says whether the pod, which may stand as one of ours already, is another scheduler's.
func (p *Plugin) adoptedPod(ref catalog.PodRef) bool {
	if len(p.args.Adopt) == 0 {
		return false
	}
	pod := p.pod(ref)
	return pod != nil && p.adopts(pod.Spec.SchedulerName)
}

// foreignChanged notes that a pod of another scheduler may want a node.
func (p *Plugin) foreignChanged(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" && p.adopts(pod.Spec.SchedulerName) {
		p.foreign.Store(true)
		p.collected.Notify()
	}
}

// adopt collects the pods that other schedulers found no node for, and keeps nominatedNodeName on those that have a promise: it
// tells their scheduler and other autoscalers that the pod is somebody's.
func (p *planner) adopt(now time.Time) {
	if len(p.args.Adopt) == 0 {
		return
	}
	due := p.adopted.looked.Add(housekeeping)
	if p.foreign.Load() {
		due = p.adopted.looked.Add(adoptEvery)
	}
	if now.Before(due) {
		return
	}
	p.foreign.Store(false)
	p.adopted.looked = now
	pods, err := p.informer.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return
	}
	seen := map[types.UID]*adoption{}
	for _, pod := range pods {
		if !p.adopts(pod.Spec.SchedulerName) || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		a := p.adopted.pods[pod.UID]
		if a == nil {
			a = &adoption{}
		}
		seen[pod.UID] = a
		if promise, ok := p.promises.Get(pod.UID); ok {
			want := promise.NodeName
			if want == "" {
				want = promise.NodeClaim
			}
			if pod.Status.NominatedNodeName != want && !now.Before(a.written.Add(nominateEvery)) {
				a.nominated, a.written = want, now
				p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(pod), NominatedNode: want})
			}
			continue
		}
		if p.adoptable(pod, a, now) {
			p.collected.Add(intake.Entry{Pod: p.ours(pod), At: now, Nominated: pod.Status.NominatedNodeName, Verdict: podstatus.Message(pod)})
		}
	}
	p.adopted.pods = seen
}

// adoptable says whether a pod of another scheduler waits for a node that nobody brings.
func (p *planner) adoptable(pod *corev1.Pod, a *adoption, now time.Time) bool {
	if p.batch.Has(pod.UID) {
		return false
	}
	if _, ok := p.unplaced[pod.UID]; ok {
		return false
	}
	if p.aside.holds(pod.UID, now) || now.Before(a.rest) || !unschedulable(pod) {
		return false
	}
	nominated := pod.Status.NominatedNodeName
	if nominated == "" {
		return true
	}
	_, err := p.informer.Core().V1().Nodes().Lister().Get(nominated)
	switch {
	case apierrors.IsNotFound(err):
		return true // The claim that it was promised has ended.
	case nominated != a.nominated:
		return false // It preempts, or is another autoscaler's.
	case a.rest.IsZero():
		a.rest = now.Add(theirTurn)
		return false
	}
	return true
}

// leaveBe leaves an adopted pod to its scheduler for a moment.
func (p *planner) leaveBe(uid types.UID, now time.Time) {
	if a := p.adopted.pods[uid]; a != nil {
		a.rest = now.Add(theirTurn)
	}
}

// unschedulable says that the pod's scheduler has looked for a node, and found none.
func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

package plugin

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/backoff"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
)

// tidyDelaysEvery is how often launches that were of use are forgotten.
const tidyDelaysEvery = 10 * time.Second

// delays keep further nodes from being launched for pods whose launches came to nothing. Only tidied is the planner's own.
type delays struct {
	*backoff.Launches
	// gangs are delayed as a whole.
	gangs   *backoff.Gangs
	metrics *metrics
	tidied  time.Time
}

func newDelays(m *metrics) *delays {
	return &delays{Launches: backoff.New(), gangs: backoff.NewGangs(), metrics: m}
}

// delayedPod returns the pod as the delays count it.
func delayedPod(pod *corev1.Pod) backoff.Pod {
	return backoff.Pod{UID: pod.UID, Owner: cmp.Or(intake.ControllerOf(pod).String(), string(pod.UID))}
}

// observe records the state of a pod, which an informer shows.
func (d *delays) observe(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		d.Observe(pod, time.Now())
		if pod.Spec.NodeName != "" {
			d.gangs.Bound(plan.GangOf(pod).Name)
		}
	}
}

// launched records a claim that the launcher has recorded.
func (d *delays) launched(claim string, members []plan.Member, pod func(catalog.PodRef) *corev1.Pod, now time.Time) {
	for _, m := range members {
		d.launchedFor(claim, m.Pods, pod, now)
	}
}

// launchedFor records that a claim was launched for the pods.
func (d *delays) launchedFor(claim string, refs []catalog.PodRef, pod func(catalog.PodRef) *corev1.Pod, now time.Time) {
	var list []backoff.Pod
	for _, ref := range refs {
		if found := pod(ref); found != nil {
			list = append(list, delayedPod(found))
		}
	}
	d.Launched(claim, list, now)
}

// ended records how an in-flight node ended.
func (d *delays) ended(e link.End) {
	switch e.Outcome {
	case api.Outcome_OUTCOME_INITIALIZED:
		d.Initialized(e.Node.NodeClaim, e.Node.NodeName)
	case api.Outcome_OUTCOME_FAILED:
		if e.Reason == api.ReasonInstanceTerminated { // It says nothing about other pods of the NodePool, and nothing else is delayed for it.
			d.ClaimDeleted(e.Node.NodeClaim)
			return
		}
		d.Forget(e.Node.NodeClaim)
	case api.Outcome_OUTCOME_DELETED, api.Outcome_OUTCOME_UNSPECIFIED:
		d.ClaimDeleted(e.Node.NodeClaim)
	}
}

// tidy forgets what is over.
func (d *delays) tidy(now time.Time) {
	if now.Sub(d.tidied) >= tidyDelaysEvery {
		d.tidied = now
		d.metrics.delayedOwners.Set(float64(d.Tidy(now) + d.gangs.Tidy(now)))
	}
}

// looksUp reports whether it is being looked up how another pod of the pod's owner ended. Displaced pods do not wait for that.
func (d *delays) looksUp(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && d.Awaits(delayedPod(pod).Owner)
}

// check reports whether the pod has to wait because its owner's last launches came to nothing, until when, and with what note.
// Displaced pods run, and do not wait.
func (d *delays) check(ctx context.Context, e intake.Entry, pod *corev1.Pod) (until time.Time, note podstatus.Note, waits bool) {
	if pod.Spec.NodeName != "" {
		return time.Time{}, podstatus.Note{}, false
	}
	delay, waits, found := d.Check(delayedPod(pod), e.Refusal, time.Now())
	for _, claim := range found {
		d.metrics.uselessLaunches.Inc()
		klog.FromContext(ctx).Info("None of the pods that a node was launched for ran on it", "nodeClaim", claim, "pod", klog.KObj(pod),
			"reason", delay.Reason, "nextLaunchAfter", delay.Until)
	}
	if !waits {
		return time.Time{}, podstatus.Note{}, false
	}
	return delay.Until, d.note(pod, explain.Delayed(delay.NodeClaim, delay.Reason, delay.Until, e.Verdict)), true
}

// note counts a pod that has to wait, and returns what to write for it.
func (d *delays) note(pod *corev1.Pod, m explain.Message) podstatus.Note {
	d.metrics.pods.WithLabelValues(outcomeDelayed).Inc()
	return podstatus.Note{Pod: catalog.PodRefOf(pod), Message: m, EventReason: "LaunchDelayed", Warning: true}
}

// refusal returns why the node that was launched for the pod does not run it, by the scheduler's filters. Empty where no node was
// launched, or the filters give no reason.
func (d *delays) refusal(uid types.UID, statuses fwk.NodeToStatusReader) string {
	node := d.NodeOf(uid)
	if node == "" || statuses == nil {
		return ""
	}
	return statuses.Get(node).Message()
}

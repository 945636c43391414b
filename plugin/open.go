package plugin

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
)

const (
	// openAfter is how long the scheduler's cache must have shown that a node takes pods before those that are promised it are
	// tried: the launcher has bound most of them a moment before, which the scheduler may hear of later.
	openAfter = 200 * time.Millisecond
	// openEvery is how often nodes are looked at that are Ready and do not take pods yet.
	openEvery = 100 * time.Millisecond
	// shortestToleration of a NoExecute taint is that below which a pod waits for the taint to go: it might be evicted.
	shortestToleration = time.Minute
)

// open lets the scheduler try the pods that are promised a Ready node, as soon as its cache shows that the node takes them. What is
// called initialized may come seconds later: kube-controller-manager looks at its NoExecute taints every five, which pods tolerate.
func (p *planner) open(ctx context.Context, now time.Time) {
	if p.view.Ready() == 0 {
		return
	}
	p.refresh(ctx)
	for _, n := range p.view.TakingPods(now, openAfter, p.sees) {
		info, err := p.snapshot.Get(n.Name)
		if err != nil {
			continue
		}
		var taken []types.UID
		left := 0
		for _, held := range p.promises.OfClaim(n.NodeClaim) {
			pod := p.pod(held.Pod)
			switch {
			case held.Open || pod == nil || p.adopts(pod.Spec.SchedulerName):
			case takes(info.Node(), pod):
				taken = append(taken, pod.UID)
			default:
				left++
			}
		}
		p.promises.Open(taken...)
		if left == 0 {
			p.view.Tried(n.NodeClaim)
		}
	}
	p.waiting()
}

// takes says whether nothing on the node itself keeps the pod off: it tolerates the taints for long enough, and whatever it asks for
// is there, devices too.
func takes(node *corev1.Node, pod *corev1.Pod) bool {
	for _, taint := range node.Spec.Taints {
		tolerated := taint.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &taint, false) &&
				(taint.Effect != corev1.TaintEffectNoExecute || t.TolerationSeconds == nil || time.Duration(*t.TolerationSeconds)*time.Second >= shortestToleration)
		})
		if !tolerated {
			return false
		}
	}
	for name, wanted := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if have := node.Status.Allocatable[name]; have.Cmp(wanted) < 0 {
			return false
		}
	}
	return true
}

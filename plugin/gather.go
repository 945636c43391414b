package plugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Permit keeps the pods of a gang of a stated size from being bound until as many of them have a node. Those that wait keep the room that
// the scheduler chose, gangTimeout while pods of the gang are missing, promiseTimeout while these wait for their nodes, or as long as the launcher
// gives these nodes. Once the gang is complete all of them are bound.
func (n *nodeLaunch) Permit(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) (status *fwk.Status, wait time.Duration) {
	defer n.guard.recovered(pointPermit, &status)
	n.guard.injected(pointPermit, pod)
	g := plan.GangOf(pod)
	if g.Size <= 1 {
		return nil, 0
	}
	placed, others := n.gathered(g.Name)
	if placed >= g.Size {
		n.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
			if plan.GangOf(w.GetPod()).Name == g.Name {
				w.Allow(NodeLaunchName)
			}
		})
		return nil, 0
	}
	wait = n.args.GangTimeout.Duration
	if placed+len(others) >= g.Size {
		wait = n.untilPromised(others, time.Now())
		n.wake(ctx, others)
	}
	klog.FromContext(ctx).V(4).Info("Pod waits for its gang", "pod", klog.KObj(pod), "node", nodeName, "gang", g.Name, "placed", placed,
		"size", g.Size, "atMost", wait)
	return fwk.NewStatus(fwk.Wait, fmt.Sprintf("gang %s: %d of %d pods have a node", g.Name, placed, g.Size)), wait
}

// untilPromised returns how long the pods of a gang may wait for the others' nodes: bare metal boots for longer than promiseTimeout.
func (n *nodeLaunch) untilPromised(others []*corev1.Pod, now time.Time) time.Duration {
	wait := n.args.PromiseTimeout.Duration
	for _, pod := range others {
		if p, promised := n.promises.Get(pod.UID); promised {
			wait = max(wait, p.Deadline.Sub(now))
		}
	}
	return wait
}

// wake has the scheduler try the pods again that gave their room back while their gang was incomplete. Promised ones stay gated.
func (n *nodeLaunch) wake(ctx context.Context, pods []*corev1.Pod) {
	out := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		if _, promised := n.promises.Get(pod.UID); !promised {
			out[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(out) > 0 {
		n.handle.Activate(klog.FromContext(ctx), out)
	}
}

// Reserve reserves nothing.
func (n *nodeLaunch) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

// Unreserve keeps the room of a pod on the node that it is promised: the launcher may have bound it there, which the scheduler sees later, or it is
// tried again. It hands a pod of a gang to the planner whose gang did not come together: nothing else tries the pod again, and the gang is planned
// as a whole.
func (n *nodeLaunch) Unreserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) {
	var status *fwk.Status
	defer n.guard.recovered(pointUnreserve, &status)
	if p, promised := n.promises.Get(pod.UID); promised && p.NodeName == nodeName {
		n.nominate(ctx, p.Pod, nodeName)
	}
	if plan.GangOf(pod).Size <= 1 {
		return
	}
	free := pod.DeepCopy() // The scheduler has entered its node.
	free.Spec.NodeName = ""
	n.collected.Add(intake.Entry{Pod: free, At: time.Now()})
}

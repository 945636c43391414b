package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// withdrawAgain is when a gang is planned again whose promises could not be taken back.
const withdrawAgain = 2 * time.Second

// gangs give back what was found for some pods of a gang when others of it get no node: the gang runs whole or not at all. The planner's
// goroutine alone uses it. All fields are required.
type gangs struct {
	queue    *queue
	link     *link.Link
	promises *promise.Table
	unplaced *pending.Pods
	delays   *delays
	status   *podstatus.Writer
	metrics  *metrics
	// waiting calls its argument for each pod that waits at Permit.
	waiting func(func(fwk.WaitingPod))
	// beside makes a call in a goroutine of its own and reads what the launcher reports until it is over.
	beside func(ctx context.Context, call func())
}

// giveUp looks at the gangs of the batch's pods that got no node. Of one that lacks them it
//
//  1. takes back the promises on nodes in flight: the launcher deletes the NodeClaims that keep none;
//  2. rejects the pods that wait on nodes that exist, which frees the room.
//
// A gang of which a pod is bound was complete before, and keeps what it has.
func (g *gangs) giveUp(ctx context.Context, w *work) {
	if !w.pending() || w.result.Plan.CutShort {
		return
	}
	lacking := map[string]plan.Unplaced{}
	for _, u := range w.result.Plan.Unplaced {
		for _, ref := range u.Pods {
			e := w.byUID[types.UID(ref.UID)]
			if e.Pod != nil && g.queue.profiles.gathering(e.Pod) != "" && len(lacking[e.Gang.Name].Pods) == 0 {
				lacking[e.Gang.Name] = plan.Unplaced{Pods: []catalog.PodRef{ref}, Reasons: u.Reasons}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		g.take(ctx, name, lacking[name], w.result.Plan.Placements)
	}
}

// take gives back what the gang has, unless it is complete without the pods that lack a node.
func (g *gangs) take(ctx context.Context, name string, lacks plan.Unplaced, placements []plan.Placement) {
	pods := g.queue.objects.owners.PodsOfGang(name)
	size, placed := 0, g.queue.objects.owners.Finished(pods)
	promised := map[string][]promise.Promise{}
	for _, pod := range pods {
		size = max(size, plan.GangOf(pod).Size)
		p, ok := g.promises.Get(pod.UID)
		switch {
		case pod.Spec.NodeName != "":
			return
		case ok:
			promised[p.NodeClaim] = append(promised[p.NodeClaim], p)
			placed++
		case g.queue.assumed(pod):
			placed++
		}
	}
	if placed+g.placedNow(name, placements) >= size {
		return
	}
	why := fmt.Sprintf("gang %s runs with all %d or none, and pod %s gets no node", name, size, lacks.Pods[0].Name)
	if len(lacks.Reasons) > 0 {
		why += ": " + lacks.Reasons[0].Message
	}
	if len(promised) > 0 {
		g.withdraw(ctx, name, promised, why)
	}
	g.reject(ctx, name, why)
}

// reject rejects the pods of the gang that wait on nodes that exist, which frees the room.
func (g *gangs) reject(ctx context.Context, name, why string) {
	g.waiting(func(w fwk.WaitingPod) {
		if plan.GangOf(w.GetPod()).Name == name && w.Reject(NodeLaunchName, why) {
			klog.FromContext(ctx).V(2).Info("Pod of a gang gives its room back", "pod", klog.KObj(w.GetPod()), "why", why)
		}
	})
}

// delayed reports whether the pod has to wait because its gang gave nodes back, until when, and with what note. Pods of the gang that wait on
// nodes that exist give their room back meanwhile: the pod has none there. Displaced pods run, and do not wait.
func (g *gangs) delayed(ctx context.Context, e intake.Entry, pod *corev1.Pod) (until time.Time, note podstatus.Note, waits bool) {
	if pod.Spec.NodeName != "" {
		return time.Time{}, podstatus.Note{}, false
	}
	of, waits := g.delays.gangs.Check(e.Gang.Name, time.Now())
	if !waits {
		return time.Time{}, podstatus.Note{}, false
	}
	g.reject(ctx, e.Gang.Name, of.Reason)
	return of.Until, g.delays.note(pod, explain.GangDelayed(of.Reason, of.Until, e.Verdict)), true
}

// placedNow returns how many pods of the gang a plan places on nodes that exist.
func (g *gangs) placedNow(name string, placements []plan.Placement) int {
	n := 0
	for _, pl := range placements {
		if pl.InFlight {
			continue
		}
		for _, m := range pl.Members {
			for _, ref := range m.Pods {
				if pod := g.queue.objects.pod(ref); pod != nil && !g.queue.assumed(pod) && plan.GangOf(pod).Name == name {
					n++
				}
			}
		}
	}
	return n
}

// withdraw takes the promises back, and releases the pods: they come back through the queue, and are planned with the rest of their gang. Where
// nodes were launched for them, that waits: EC2 may lack a part of the gang's nodes for long.
func (g *gangs) withdraw(ctx context.Context, name string, promised map[string][]promise.Promise, why string) {
	req := &api.WithdrawRequest{Message: why}
	for _, claim := range slices.Sorted(maps.Keys(promised)) {
		p := &api.InFlightPlacement{NodeClaim: claim}
		for _, held := range promised[claim] {
			p.Pods = append(p.Pods, &api.PodRef{Namespace: held.Pod.Namespace, Name: held.Pod.Name, Uid: held.Pod.UID})
		}
		req.Promises = append(req.Promises, p)
	}
	var deleted []string
	var err error
	g.beside(ctx, func() {
		within, cancel := context.WithTimeout(ctx, launchTimeout)
		defer cancel()
		deleted, err = g.link.Withdraw(within, req)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Promises of a gang were not taken back, will try again", "why", why)
		g.unplaced.PlanBy(time.Now().Add(withdrawAgain))
		return
	}
	klog.FromContext(ctx).Info("Gang gives its nodes back", "nodeClaims", slices.Sorted(maps.Keys(promised)), "deleted", deleted, "why", why)
	for _, claim := range deleted {
		g.delays.Forget(claim) // The delay of the gang counts instead of one of its pods' owner.
	}
	if len(deleted) > 0 {
		g.delays.gangs.GaveBack(name, why, time.Now())
	}
	for _, list := range promised {
		uids := make([]types.UID, len(list))
		for i, held := range list {
			uids[i] = types.UID(held.Pod.UID)
			u := plan.Unplaced{Pods: []catalog.PodRef{held.Pod}, Reasons: []plan.Reason{{Code: "GangIncomplete", Message: why}}}
			g.status.Report(podstatus.Note{Pod: held.Pod, Message: explain.Unplaced(u, ""), EventReason: "FailedScheduling", Warning: true})
		}
		g.metrics.release("gang", g.promises.Release(uids...), g.promises)
	}
}

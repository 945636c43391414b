package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// disruptedTaint is Karpenter's, on nodes that are about to go.
	disruptedTaint = "karpenter.sh/disrupted"
	// busyWithin is how long an answer about a node may wait for the scheduler's cache.
	busyWithin = 5 * time.Second
	busyPoll   = 10 * time.Millisecond
)

// answerQuestions answers what the launcher asks about nodes, until the context ends.
func (p *Plugin) answerQuestions(ctx context.Context) {
	for {
		q, more := p.inbox.takeQuestion()
		if more {
			// Another answerer may start with it.
			select {
			case p.inbox.questions <- struct{}{}:
			default:
			}
		}
		if q == nil {
			select {
			case <-ctx.Done():
				return
			case <-p.inbox.questions:
			}
			continue
		}
		if b := q.GetNodeBusy(); b != nil {
			p.reply(ctx, &api.Answer{Id: q.GetId(), Kind: &api.Answer_NodeBusy{NodeBusy: p.busy.safe(ctx, b.GetNodeName())}})
		}
	}
}

func (p *Plugin) reply(ctx context.Context, a *api.Answer) {
	if err := p.link.Reply(a); err != nil {
		klog.FromContext(ctx).V(2).Info("The answer did not reach the launcher", "err", err)
	}
}

// busyView answers whether the scheduler has anything on a node, or could still put something there.
type busyView struct {
	*Plugin
	mu       sync.Mutex
	snapshot *internalcache.Snapshot
}

func newBusyView(p *Plugin) *busyView {
	return &busyView{Plugin: p, snapshot: internalcache.NewEmptySnapshot()}
}

// safe answers busy if our code fails: no answer and a wrong one must both keep the node.
func (b *busyView) safe(ctx context.Context, node string) (answer *api.NodeBusyAnswer) {
	defer func() {
		if cause := recover(); cause != nil {
			b.metrics.panics.WithLabelValues("NodeBusy").Inc()
			answer = &api.NodeBusyAnswer{Busy: true, Reason: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	reason, busy := b.ask(ctx, node)
	return &api.NodeBusyAnswer{Busy: busy, Reason: reason}
}

// ask waits until no scheduling cycle can choose the node any more, and then looks at what has chosen it:
//
//  1. the scheduler's cache shows the disruption taint: cycles that start from now on keep off the node;
//  2. the pods whose cycles may have started before are done with, or assumed on a node;
//  3. nothing is assumed, nominated or promised there.
func (b *busyView) ask(ctx context.Context, node string) (reason string, busy bool) {
	ctx, cancel := context.WithTimeout(ctx, busyWithin)
	defer cancel()
	if !b.until(ctx, func() bool { return b.tainted(ctx, node) }) {
		return "the scheduler's cache does not show the taint " + disruptedTaint, true
	}
	before := map[types.UID]*corev1.Pod{}
	for _, pod := range b.sched.SchedulingQueue.InFlightPods() {
		before[pod.UID] = pod
	}
	if !b.until(ctx, func() bool { return b.cyclesOver(before) }) {
		return "scheduling cycles that may choose the node have not ended", true
	}
	return b.chosen(ctx, node)
}

func (b *busyView) until(ctx context.Context, done func() bool) bool {
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(busyPoll):
		}
	}
	return true
}

// tainted looks at the cache as the next scheduling cycle will see it. A node that is gone from it is as good.
func (b *busyView) tainted(ctx context.Context, node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), b.snapshot); err != nil {
		return false
	}
	info, err := b.snapshot.Get(node)
	return err != nil || slices.ContainsFunc(info.Node().Spec.Taints, func(t corev1.Taint) bool { return t.Key == disruptedTaint })
}

// cyclesOver says whether each of the pods has left the scheduling cycle that it was in. One that waits in Permit or
// is being bound is still in flight, but assumed.
func (b *busyView) cyclesOver(before map[types.UID]*corev1.Pod) bool {
	if len(before) == 0 {
		return true
	}
	for _, pod := range b.sched.SchedulingQueue.InFlightPods() {
		if before[pod.UID] == nil {
			continue
		}
		if assumed, err := b.sched.Cache.IsAssumedPod(pod); err != nil || !assumed {
			return false
		}
	}
	return true
}

func (b *busyView) chosen(ctx context.Context, node string) (reason string, busy bool) {
	if nominated := b.sched.SchedulingQueue.NominatedPodsForNode(node); len(nominated) > 0 {
		return fmt.Sprintf("pod %s is nominated to it", klog.KObj(nominated[0].GetPod())), true
	}
	if b.promises.OnNode(node) {
		return "pods are promised to it", true
	}
	if b.reserved.Board().On(node) {
		return "room is kept on it for pods of another node that goes", true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), b.snapshot); err != nil {
		return err.Error(), true
	}
	info, err := b.snapshot.Get(node)
	if err != nil {
		return "", false
	}
	for _, p := range info.GetPods() {
		if assumed, err := b.sched.Cache.IsAssumedPod(p.GetPod()); err == nil && assumed {
			return fmt.Sprintf("pod %s is assumed on it", klog.KObj(p.GetPod())), true
		}
	}
	return "", false
}

// goingAway plans room for the pods of nodes that will go, of all that wait together in one plan, and launches what is missing.
// Asked again about one, it plans for those whose room was lost since; the rest have theirs.
func (p *planner) goingAway(ctx context.Context, all []goingRequest, now time.Time) {
	answers := make([]api.NodeGoingAnswer, len(all))
	defer func() {
		cause := recover()
		if cause != nil {
			p.metrics.panics.WithLabelValues("NodeGoing").Inc()
		}
		p.publish()
		for i, g := range all {
			answer := &answers[i]
			if cause != nil {
				answer = &api.NodeGoingAnswer{Message: fmt.Sprintf("panic: %v", cause)}
			}
			p.reply(ctx, &api.Answer{Id: g.question.GetId(), Kind: &api.Answer_NodeGoing{NodeGoing: answer}})
		}
	}()
	if !p.view.Synced() {
		for i := range answers {
			answers[i].Message = "the catalog is not known yet"
		}
		return
	}
	p.reserved.Tidy(now)
	cat := p.view.State(nil, now)
	var entries []intake.Entry
	leaves, nodes, leaving := map[types.UID]string{}, map[string]bool{}, map[string]bool{}
	for i, g := range all {
		own, err := p.podsOf(ctx, g, cat, now)
		if err != nil {
			answers[i].Message = err.Error()
			continue
		}
		nodes[g.node] = true
		for _, name := range g.question.GetLeaving() {
			leaving[name] = true
		}
		for _, e := range own {
			if leaves[e.Pod.UID] == "" { // A node may be asked about twice.
				entries = append(entries, e)
			}
			leaves[e.Pod.UID] = g.node
		}
	}
	of := purpose{leaving: slices.Sorted(maps.Keys(nodes)), avoid: leaving}
	missing := roomless(p.plan(ctx, entries, of).unplaced, leaves)
	cat = p.view.State(nil, now)
	names := slices.Sorted(maps.Keys(cat.InFlight))
	for i, g := range all {
		answer := &answers[i]
		for _, name := range names {
			if cat.InFlight[name].ReplacesNode(g.node) {
				answer.NodeClaims = append(answer.NodeClaims, name)
			}
		}
		answer.Message = cmp.Or(answer.GetMessage(), missing[g.node])
		klog.FromContext(ctx).V(1).Info("Planned for a node that goes", "node", g.node, "reason", g.reason, "pods", len(entries),
			"nodes", len(nodes), "nodeClaims", answer.GetNodeClaims(), "message", answer.GetMessage())
	}
}

// podsOf returns the pods that have to move when the node goes and have no room elsewhere yet.
func (p *planner) podsOf(ctx context.Context, g goingRequest, cat catalog.State, now time.Time) ([]intake.Entry, error) {
	node, provided := g.node, p.roomed(g.node, cat)
	asked := map[types.UID]bool{}
	for _, uid := range g.question.GetNodeGoing().GetPods() {
		asked[types.UID(uid)] = true
	}
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return nil, err
	}
	info, err := p.snapshot.Get(node)
	if err != nil {
		return nil, fmt.Errorf("node %s is not in the scheduler's cache", node)
	}
	var out []intake.Entry
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		if mirror || ownedByDaemonSet(pod) || pod.DeletionTimestamp != nil || !p.serves(pod.Spec.SchedulerName) && !p.adopts(pod.Spec.SchedulerName) {
			continue
		}
		if provided[pod.UID] || len(asked) > 0 && !asked[pod.UID] {
			continue
		}
		out = append(out, intake.Entry{Pod: pod, At: now})
	}
	return out, nil
}

// roomed are the pods that room is kept for, and those that nodes in flight were launched for because of the node.
func (p *planner) roomed(node string, cat catalog.State) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, n := range cat.InFlight {
		for _, ref := range n.Pods {
			if n.ReplacesNode(node) {
				out[types.UID(ref.UID)] = true
			}
		}
	}
	for _, uid := range p.reserved.Displaced() {
		out[uid] = true
	}
	return out
}

// roomless returns by node why its pods have no room elsewhere. leaves is the node of each pod.
func roomless(unplaced []plan.Unplaced, leaves map[types.UID]string) map[string]string {
	messages := map[string]string{}
	for _, u := range unplaced {
		said := map[string]bool{}
		for _, ref := range u.Pods {
			if node := leaves[types.UID(ref.UID)]; !said[node] {
				said[node] = true
				messages[node] = strings.TrimPrefix(messages[node]+"; "+explain.Unplaced(u, ""), "; ")
			}
		}
	}
	return messages
}

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

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// terminates reports whether a node is cordoned to terminate, or gone: as the informers show it.
func (p *Plugin) terminates(node string) bool {
	n, err := p.informer.Core().V1().Nodes().Lister().Get(node)
	return err != nil || n.DeletionTimestamp != nil ||
		slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disruptedTaint })
}

const (
	// moveTries is how often room is planned anew for those whose slot was taken while it was planned.
	moveTries = 3
	// cyclesAtMost is how long the planner waits for the scheduling cycles under way to end: one takes milliseconds.
	cyclesAtMost = 250 * time.Millisecond
)

// move plans room for the pods of nodes that go together, launches what is missing, and keeps the room as long as the nodes
// are cordoned. Where a pod finds none, or not within the bound, it launches nothing.
func (p *planner) move(ctx context.Context, q *api.Question, now time.Time) {
	answer := &api.MoveAnswer{}
	defer func() {
		if cause := recover(); cause != nil {
			p.metrics.panics.WithLabelValues("Move").Inc()
			answer = &api.MoveAnswer{Refused: fmt.Sprintf("panic: %v", cause)}
		}
		p.publish()
		p.reply(ctx, &api.Answer{Id: q.GetId(), Kind: &api.Answer_Move{Move: answer}})
	}()
	if !p.view.Synced() {
		answer.Refused = "the catalog is not known yet"
		return
	}
	m := q.GetMove()
	cat := p.view.State(nil, now)
	for _, name := range slices.Sorted(maps.Keys(cat.InFlight)) {
		if n := cat.InFlight[name]; slices.ContainsFunc(m.GetNodeNames(), n.ReplacesNode) {
			answer.NodeClaims = append(answer.NodeClaims, name)
		}
	}
	p.reserved.Tidy(now)
	answer.Refused = p.roomForAll(ctx, m, slices.Concat(q.GetLeaving(), m.GetAvoid()), answer)
	klog.FromContext(ctx).V(1).Info("Planned a move", "nodes", m.GetNodeNames(), "reason", m.GetReason(), "pods", len(m.GetPods()),
		"nodeClaims", answer.GetNodeClaims(), "costPerHour", answer.GetPerHour(), "mostPerHour", m.GetMostPerHour(), "refused", answer.GetRefused())
}

// roomForAll plans until every pod has room that nobody has taken: what was planned is kept from the moment when it is
// published, and pods may be placed until then. It returns why a pod has none.
func (p *planner) roomForAll(ctx context.Context, m *api.Move, avoid []string, answer *api.MoveAnswer) string {
	for range moveTries {
		now := time.Now()
		d, err := p.ofMove(ctx, m, p.view.State(nil, now), now)
		if err != nil {
			return err.Error()
		}
		if len(d.entries) == 0 {
			return ""
		}
		d.avoid = setOf(avoid)
		if why := p.makeRoom(ctx, m, d, answer); why != "" {
			return why
		}
		p.publish()
		p.cyclesEnd(ctx)
	}
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return err.Error()
	}
	if taken := p.reserved.DropTaken(p.snapshot.Get); taken != "" {
		return fmt.Sprintf("the room that is planned for pod %s is taken by others again and again", taken)
	}
	return ""
}

// cyclesEnd waits until the scheduling cycles that began before now are over.
func (p *planner) cyclesEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cyclesAtMost)
	defer cancel()
	before := map[types.UID]*corev1.Pod{}
	for _, pod := range p.sched.SchedulingQueue.InFlightPods() {
		before[pod.UID] = pod
	}
	p.busy.until(ctx, func() bool { return p.busy.cyclesOver(before) })
}

// displaced are the pods of a move that have no room elsewhere yet.
type displaced struct {
	purpose
	entries []intake.Entry
	// offers are what the nodes that leave were bought as.
	offers []consolidate.Offer
}

// ofMove returns the pods that the move displaces.
func (p *planner) ofMove(ctx context.Context, m *api.Move, cat catalog.State, now time.Time) (displaced, error) {
	d := displaced{purpose: purpose{leaving: slices.Sorted(slices.Values(m.GetNodeNames())), move: true}}
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return d, err
	}
	p.reserved.DropTaken(p.snapshot.Get)
	asked := make(map[types.UID]bool, len(m.GetPods()))
	for _, uid := range m.GetPods() {
		asked[types.UID(uid)] = true
	}
	for _, name := range m.GetNodeNames() {
		info, err := p.snapshot.Get(name)
		switch {
		case err != nil:
			return d, fmt.Errorf("node %s is not in the scheduler's cache", name)
		case len(p.reserved.On("", name)) > 0:
			return d, fmt.Errorf("room is kept on node %s for pods of another that goes", name)
		}
		d.offers = append(d.offers, offerOf(info.Node()))
		provided := p.roomed(name, cat)
		for _, pi := range info.GetPods() {
			pod := pi.GetPod()
			switch {
			case !asked[pod.UID] || pod.DeletionTimestamp != nil || provided[pod.UID]:
			case !p.serves(pod.Spec.SchedulerName) && !p.adopts(pod.Spec.SchedulerName):
				return d, fmt.Errorf("pod %s is another scheduler's (%s)", klog.KObj(pod), pod.Spec.SchedulerName)
			default:
				d.entries = append(d.entries, intake.Entry{Pod: pod, At: now})
			}
		}
	}
	return d, nil
}

// makeRoom plans, checks the bound and launches. It returns why it did not.
func (p *planner) makeRoom(ctx context.Context, m *api.Move, d displaced, answer *api.MoveAnswer) string {
	planned := p.pending(ctx, d.entries, d.purpose)
	if why := p.leftOut(d.entries, planned); why != "" {
		return why
	}
	if len(planned) == 0 {
		return ""
	}
	start := time.Now()
	w, err := p.attempt(ctx, planned, d.purpose)
	p.metrics.planSeconds.Observe(time.Since(start).Seconds())
	switch {
	case err != nil:
		return err.Error()
	case len(w.result.Plan.Unplaced) > 0:
		u := w.result.Plan.Unplaced[0]
		return fmt.Sprintf("pod %s would find no other node: %s", refNames(u.Pods), explain.Unplaced(u, ""))
	}
	if m.GetBounded() {
		b := movebound.Bound{
			Most: m.GetMostPerHour() - answer.GetPerHour(), Going: d.offers, SpotToSpot: m.GetSpotToSpot(), Catalog: w.result.Input.Catalog,
		}
		if why := b.Keep(w.result.Plan.Claims); why != "" {
			return why
		}
	}
	for _, c := range w.result.Plan.Claims {
		answer.PerHour += c.Expected.Price
	}
	names := p.launch(ctx, w).claims
	answer.NodeClaims = append(answer.NodeClaims, names...)
	if lacking := len(w.result.Plan.Claims) - len(names); lacking > 0 {
		return fmt.Sprintf("%d of %d NodeClaims were not recorded", lacking, len(w.result.Plan.Claims))
	}
	return p.roomless(w)
}

// leftOut says which of the pods no plan could be made for: one that has to stay where it is.
func (p *planner) leftOut(entries, planned []intake.Entry) string {
	have := make(map[types.UID]bool, len(planned))
	for _, e := range planned {
		have[e.Pod.UID] = true
	}
	for _, e := range entries {
		if pod := p.pod(catalog.PodRefOf(e.Pod)); !have[e.Pod.UID] && pod != nil && pod.DeletionTimestamp == nil {
			return fmt.Sprintf("pod %s can run nowhere else: %s", klog.KObj(pod), p.pinned(pod))
		}
	}
	return ""
}

// roomless names a pod for which no room was kept after all.
func (p *planner) roomless(w *work) string {
	for _, e := range w.entries {
		if !p.reserved.Has(e.Pod.UID) && p.pod(catalog.PodRefOf(e.Pod)) != nil {
			return fmt.Sprintf("no room was kept for pod %s", klog.KObj(e.Pod))
		}
	}
	return ""
}

func refNames(refs []catalog.PodRef) string {
	if len(refs) == 0 {
		return ""
	}
	name := refs[0].Namespace + "/" + refs[0].Name
	if more := len(refs) - 1; more > 0 {
		name += fmt.Sprintf(" (and %d more)", more)
	}
	return name
}

// offerOf is what a node says that it was bought as.
func offerOf(n *corev1.Node) consolidate.Offer {
	return consolidate.Offer{
		NodePool: n.Labels[nodePoolLabel], InstanceType: n.Labels[corev1.LabelInstanceTypeStable],
		Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels[clusterview.LabelCapacityType],
	}
}

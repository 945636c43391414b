package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// leaving says whether a node is cordoned, or gone: as the informers show it.
func (p *planner) leaving(node string) bool {
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
		p.publishKept()
		p.reply(ctx, &api.Answer{Id: q.GetId(), Kind: &api.Answer_Move{Move: answer}})
	}()
	if !p.view.synced {
		answer.Refused = "the catalog is not known yet"
		return
	}
	m := q.GetMove()
	cat := p.view.state(nil, now)
	for _, name := range slices.Sorted(maps.Keys(cat.InFlight)) {
		if n := cat.InFlight[name]; slices.ContainsFunc(m.GetNodeNames(), n.ReplacesNode) {
			answer.NodeClaims = append(answer.NodeClaims, name)
		}
	}
	p.kept.tidy(now, p.pod, p.leaving)
	answer.Refused = p.roomForAll(ctx, m, slices.Concat(q.GetLeaving(), m.GetAvoid()), answer)
	klog.FromContext(ctx).V(1).Info("Planned a move", "nodes", m.GetNodeNames(), "reason", m.GetReason(), "pods", len(m.GetPods()),
		"nodeClaims", answer.GetNodeClaims(), "costPerHour", answer.GetPerHour(), "mostPerHour", m.GetMostPerHour(), "refused", answer.GetRefused())
}

// roomForAll plans until every pod has room that nobody has taken: what was planned is kept from the moment when it is
// published, and pods may be placed until then. It returns why a pod has none.
func (p *planner) roomForAll(ctx context.Context, m *api.Move, avoid []string, answer *api.MoveAnswer) string {
	for range moveTries {
		p.avoid = setOf(avoid)
		now := time.Now()
		entries, offers, err := p.ofMove(ctx, m, p.view.state(nil, now), now)
		if err != nil {
			return err.Error()
		}
		if len(entries) == 0 {
			return ""
		}
		if why := p.makeRoom(ctx, m, entries, offers, answer); why != "" {
			return why
		}
		p.publishKept()
		p.cyclesEnd(ctx)
	}
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return err.Error()
	}
	if taken := p.dropTaken(); taken != "" {
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

// ofMove are the pods of the move that have no room elsewhere yet, and what its nodes were bought as.
func (p *planner) ofMove(ctx context.Context, m *api.Move, cat catalog.State, now time.Time) ([]entry, []consolidate.Offer, error) {
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return nil, nil, err
	}
	p.dropTaken()
	asked := make(map[types.UID]bool, len(m.GetPods()))
	for _, uid := range m.GetPods() {
		asked[types.UID(uid)] = true
	}
	var entries []entry
	var offers []consolidate.Offer
	for _, name := range m.GetNodeNames() {
		info, err := p.snapshot.Get(name)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("node %s is not in the scheduler's cache", name)
		case len(p.kept.on("", name)) > 0:
			return nil, nil, fmt.Errorf("room is kept on node %s for pods of another that goes", name)
		}
		offers = append(offers, offerOf(info.Node()))
		provided := p.roomed(name, cat)
		for _, pi := range info.GetPods() {
			pod := pi.GetPod()
			switch {
			case !asked[pod.UID] || pod.DeletionTimestamp != nil || provided[pod.UID]:
			case !p.serves(pod.Spec.SchedulerName) && !p.adopts(pod.Spec.SchedulerName):
				return nil, nil, fmt.Errorf("pod %s is another scheduler's (%s)", klog.KObj(pod), pod.Spec.SchedulerName)
			default:
				entries = append(entries, entry{pod: pod, at: now})
			}
		}
	}
	return entries, offers, nil
}

// makeRoom plans, checks the bound and launches. It returns why it did not.
func (p *planner) makeRoom(ctx context.Context, m *api.Move, entries []entry, offers []consolidate.Offer, answer *api.MoveAnswer) string {
	replaces := strings.Join(m.GetNodeNames(), ",")
	planned := p.pending(ctx, entries, replaces)
	if why := p.leftOut(entries, planned); why != "" {
		return why
	}
	if len(planned) == 0 {
		return ""
	}
	start := time.Now()
	w, err := p.attempt(ctx, planned, replaces)
	p.metrics.planSeconds.Observe(time.Since(start).Seconds())
	switch {
	case err != nil:
		return err.Error()
	case len(w.result.Unplaced) > 0:
		u := w.result.Unplaced[0]
		return fmt.Sprintf("pod %s would find no other node: %s", refNames(u.Pods), explain.Unplaced(u, ""))
	}
	if m.GetBounded() {
		b := bound{most: m.GetMostPerHour() - answer.GetPerHour(), going: offers, spotToSpot: m.GetSpotToSpot(), catalog: w.input.Catalog}
		if why := b.keep(w.result.Claims); why != "" {
			return why
		}
	}
	w.move, p.missing = true, nil
	for _, c := range w.result.Claims {
		answer.PerHour += c.Expected.Price
	}
	names := p.launch(ctx, w)
	answer.NodeClaims = append(answer.NodeClaims, names...)
	if lacking := len(w.result.Claims) - len(names); lacking > 0 {
		return fmt.Sprintf("%d of %d NodeClaims were not recorded", lacking, len(w.result.Claims))
	}
	return p.roomless(w)
}

// leftOut says which of the pods no plan could be made for: one that has to stay where it is.
func (p *planner) leftOut(entries, planned []entry) string {
	have := make(map[types.UID]bool, len(planned))
	for _, e := range planned {
		have[e.pod.UID] = true
	}
	for _, e := range entries {
		if pod := p.pod(refOf(e.pod)); !have[e.pod.UID] && pod != nil && pod.DeletionTimestamp == nil {
			return fmt.Sprintf("pod %s can run nowhere else: %s", klog.KObj(pod), p.pinned(pod))
		}
	}
	return ""
}

// roomless names a pod for which no room was kept after all.
func (p *planner) roomless(w *work) string {
	for _, e := range w.entries {
		if _, ok := p.kept[e.pod.UID]; !ok && p.pod(refOf(e.pod)) != nil {
			return fmt.Sprintf("no room was kept for pod %s", klog.KObj(e.pod))
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
		Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels[capacityTypeLabel],
	}
}

// bound is what may be launched in a move.
type bound struct {
	// most is what all that is launched may cost, in USD per hour.
	most       float64
	going      []consolidate.Offer
	spotToSpot bool
	catalog    catalog.State
}

const (
	capacityTypeLabel = "karpenter.sh/capacity-type"
	spot              = "spot"
	// spotTypes is how many cheaper instance types a single spot node that replaces a single one must have: with fewer, EC2 would
	// soon take it back, and the next one be bought (Karpenter's docs, "Spot consolidation").
	spotTypes = 15
)

// keep takes from the claims what would break the bound, whichever alternative EC2 picks, and says why that is not possible.
func (b bound) keep(claims []plan.Claim) string {
	total := 0.0
	for i := range claims {
		e := claims[i].Expected
		total += e.Price
		switch {
		case b.equal(claims[i].NodePool, e.InstanceType, e.CapacityType):
			return fmt.Sprintf("an equal node (%s, %s) would be bought for its pods", e.InstanceType, e.CapacityType)
		case e.CapacityType == spot && b.allSpot() && !b.spotToSpot:
			return "spot nodes are replaced by other spot nodes only where that is allowed (SpotToSpotConsolidation)"
		}
	}
	if total > b.most*(1+1e-9) {
		return fmt.Sprintf("room for its pods costs %.4f USD/h now, and is worth %.4f at most", total, b.most)
	}
	for i := range claims {
		b.trim(&claims[i], claims[i].Expected.Price+(b.most-total)/float64(len(claims)))
	}
	if len(claims) == 1 && len(b.going) == 1 && claims[0].Expected.CapacityType == spot && b.allSpot() {
		if n := len(claims[0].Alternatives); n < spotTypes {
			return fmt.Sprintf("%d instance types are cheaper, a spot node is replaced by another one only where there are %d", n, spotTypes)
		}
		claims[0].Alternatives = claims[0].Alternatives[:spotTypes]
		narrow(&claims[0])
	}
	return ""
}

func (b bound) equal(pool, instanceType, capacityType string) bool {
	return slices.ContainsFunc(b.going, func(o consolidate.Offer) bool {
		return o.NodePool == pool && o.InstanceType == instanceType && o.CapacityType == capacityType
	})
}

func (b bound) allSpot() bool {
	return !slices.ContainsFunc(b.going, func(o consolidate.Offer) bool { return o.CapacityType != spot })
}

// trim leaves of the claim's alternatives, zones and capacity types those that cost no more than limit wherever EC2 may launch them.
// The expected instance type in its zone and capacity type stays.
func (b bound) trim(c *plan.Claim, limit float64) {
	types := b.catalog.InstanceTypes[b.catalog.NodePools[c.NodePool].NodeClass]
	offerings := func(name string) []catalog.Offering {
		if at := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == name }); at >= 0 {
			return types[at].Offerings
		}
		return nil
	}
	c.Requirements = slices.Clone(c.Requirements)
	b.trimCapacity(c, limit, offerings(c.Expected.InstanceType))
	capacity := allowed(c, capacityTypeLabel)
	for i, r := range c.Requirements {
		if r.Key != corev1.LabelTopologyZone || r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		c.Requirements[i].Values = slices.DeleteFunc(slices.Clone(r.Values), func(zone string) bool {
			return zone != c.Expected.Zone && slices.ContainsFunc(offerings(c.Expected.InstanceType), func(o catalog.Offering) bool {
				return o.Zone == zone && capacity(o.CapacityType) && o.Price > limit*(1+1e-9)
			})
		})
	}
	zones := allowed(c, corev1.LabelTopologyZone)
	c.Alternatives = slices.DeleteFunc(slices.Clone(c.Alternatives), func(name string) bool {
		return name != c.Expected.InstanceType && slices.ContainsFunc(offerings(name), func(o catalog.Offering) bool {
			return zones(o.Zone) && capacity(o.CapacityType) &&
				(o.Price > limit*(1+1e-9) || b.equal(c.NodePool, name, o.CapacityType))
		})
	})
	narrow(c)
}

// trimCapacity leaves of the claim's capacity types those in which the expected instance type may be launched in its zone.
func (b bound) trimCapacity(c *plan.Claim, limit float64, offerings []catalog.Offering) {
	for i, r := range c.Requirements {
		if r.Key != capacityTypeLabel || r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		c.Requirements[i].Values = slices.DeleteFunc(slices.Clone(r.Values), func(kind string) bool {
			return kind != c.Expected.CapacityType && slices.ContainsFunc(offerings, func(o catalog.Offering) bool {
				return o.Zone == c.Expected.Zone && o.CapacityType == kind &&
					(o.Price > limit*(1+1e-9) || b.equal(c.NodePool, c.Expected.InstanceType, kind))
			})
		})
	}
}

// allowed says which values the claim's requirement on the key leaves; all where there is none.
func allowed(c *plan.Claim, key string) func(string) bool {
	for _, r := range c.Requirements {
		if r.Key == key && r.Operator == corev1.NodeSelectorOpIn {
			return func(v string) bool { return slices.Contains(r.Values, v) }
		}
	}
	return func(string) bool { return true }
}

// narrow puts the alternatives into the claim's requirement on the instance type.
func narrow(c *plan.Claim) {
	for i, r := range c.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn {
			c.Requirements[i].Values = slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return !slices.Contains(c.Alternatives, v) })
		}
	}
}

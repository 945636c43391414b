package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

const (
	// moveTries is how often room is planned anew for those whose slot was taken while it was planned.
	moveTries = 3
	// cyclesAtMost is how long the planner waits for the scheduling cycles under way to end: one takes milliseconds.
	cyclesAtMost = 250 * time.Millisecond
)

// displacerConfig is what a displacer needs. All fields are required.
type displacerConfig struct {
	provisioner *provisioner
	view        *catalogview.View
	reserved    *reservations.Table
	queue       *queue
	snapshot    *snapshot
	link        *link.Link
	metrics     *metrics
	// publish makes the reservations visible to the scheduler.
	publish func()
}

// displacer plans room for the pods of nodes that terminate, as the launcher asks. The planner's goroutine alone uses it.
type displacer struct{ displacerConfig }

// reply sends the answer to a question of the launcher.
func reply(ctx context.Context, to *link.Link, a *api.Answer) {
	if err := to.Reply(a); err != nil {
		klog.FromContext(ctx).V(2).Info("The answer did not reach the launcher", "err", err)
	}
}

// move plans room for the pods of nodes that terminate together, launches what is missing, and keeps the room as long as the nodes
// are cordoned. Where a pod finds none, or not within the bound, it launches nothing.
func (d *displacer) move(ctx context.Context, q *api.Question, now time.Time) {
	answer := &api.MoveAnswer{}
	defer func() {
		if cause := recover(); cause != nil {
			d.metrics.panics.WithLabelValues("Move").Inc()
			answer = &api.MoveAnswer{Refused: fmt.Sprintf("panic: %v", cause)}
		}
		d.publish()
		reply(ctx, d.link, &api.Answer{Id: q.GetId(), Kind: &api.Answer_Move{Move: answer}})
	}()
	if !d.view.Synced() {
		answer.Refused = "the catalog is not known yet"
		return
	}
	m := q.GetMove()
	cat := d.view.State(nil, now)
	for _, name := range slices.Sorted(maps.Keys(cat.InFlight)) {
		if n := cat.InFlight[name]; slices.ContainsFunc(m.GetNodeNames(), n.ReplacesNode) {
			answer.NodeClaims = append(answer.NodeClaims, name)
		}
	}
	d.reserved.Tidy(now)
	answer.Refused = d.roomForAll(ctx, m, slices.Concat(q.GetLeaving(), m.GetAvoid()), answer)
	klog.FromContext(ctx).V(1).Info("Planned a move", "nodes", m.GetNodeNames(), "reason", m.GetReason(), "pods", len(m.GetPods()),
		"nodeClaims", answer.GetNodeClaims(), "costPerHour", answer.GetPerHour(), "mostPerHour", m.GetMostPerHour(), "refused", answer.GetRefused())
}

// roomForAll plans until every pod has room that no other pod has taken: what was planned is reserved from the moment when it is
// published, and pods may be placed until then. It returns why a pod has none.
func (d *displacer) roomForAll(ctx context.Context, m *api.Move, soon []string, answer *api.MoveAnswer) string {
	for range moveTries {
		now := time.Now()
		of, err := d.ofMove(ctx, m, d.view.State(nil, now), now)
		if err != nil {
			return err.Error()
		}
		if len(of.entries) == 0 {
			return ""
		}
		of.soon = setOf(soon)
		if why := d.makeRoom(ctx, m, of, answer); why != "" {
			return why
		}
		d.publish()
		d.cyclesEnd(ctx)
	}
	if err := d.snapshot.update(ctx); err != nil {
		return err.Error()
	}
	if taken := d.reserved.DropTaken(d.snapshot.Get); taken != "" {
		return fmt.Sprintf("the room that is planned for pod %s is taken by others again and again", taken)
	}
	return ""
}

// cyclesEnd waits until the scheduling cycles that began before now are over.
func (d *displacer) cyclesEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cyclesAtMost)
	defer cancel()
	before := d.queue.cycles()
	waitUntil(ctx, func() bool { return d.queue.cyclesOver(before) })
}

// displaced are the pods of a move that have no room elsewhere yet.
type displaced struct {
	purpose
	entries []intake.Entry
	// offers are what the nodes that terminate were bought as.
	offers []consolidate.Offer
}

// ofMove returns the pods that the move displaces.
func (d *displacer) ofMove(ctx context.Context, m *api.Move, cat catalog.State, now time.Time) (displaced, error) {
	out := displaced{purpose: purpose{kind: api.Purpose_PURPOSE_MOVE, terminating: slices.Sorted(slices.Values(m.GetNodeNames()))}}
	if err := d.snapshot.update(ctx); err != nil {
		return out, err
	}
	d.reserved.DropTaken(d.snapshot.Get)
	asked := make(map[types.UID]bool, len(m.GetPods()))
	for _, uid := range m.GetPods() {
		asked[types.UID(uid)] = true
	}
	for _, name := range m.GetNodeNames() {
		info, err := d.snapshot.Get(name)
		switch {
		case err != nil:
			return out, fmt.Errorf("node %s is not in the scheduler's cache", name)
		case len(d.reserved.On("", name)) > 0:
			return out, fmt.Errorf("room is kept on node %s for pods of another that goes", name)
		}
		out.offers = append(out.offers, offerOf(info.Node()))
		provided := d.provided(name, cat)
		for _, pi := range info.GetPods() {
			pod := pi.GetPod()
			switch {
			case !asked[pod.UID] || pod.DeletionTimestamp != nil || provided[pod.UID]:
			case !d.queue.profiles.plans(pod):
				return out, fmt.Errorf("pod %s is another scheduler's (%s)", klog.KObj(pod), pod.Spec.SchedulerName)
			default:
				out.entries = append(out.entries, intake.Entry{Pod: pod, At: now})
			}
		}
	}
	return out, nil
}

// makeRoom plans, checks the bound and launches. It returns why it did not.
func (d *displacer) makeRoom(ctx context.Context, m *api.Move, of displaced, answer *api.MoveAnswer) string {
	planned := d.provisioner.candidates.choose(ctx, of.entries, of.purpose)
	if why := d.leftOut(of.entries, planned); why != "" {
		return why
	}
	if len(planned) == 0 {
		return ""
	}
	w, err := d.provisioner.attempt(ctx, planned, of.purpose)
	switch {
	case err != nil:
		return err.Error()
	case len(w.result.Plan.Unplaced) > 0:
		u := w.result.Plan.Unplaced[0]
		return fmt.Sprintf("pod %s would find no other node: %s", refNames(u.Pods), explain.Unplaced(u, ""))
	}
	if m.GetBounded() {
		b := movebound.Bound{
			Most: m.GetMostPerHour() - answer.GetPerHour(), Going: of.offers, SpotToSpot: m.GetSpotToSpot(), Catalog: w.result.Input.Catalog,
		}
		if why := b.Keep(w.result.Plan.Claims); why != "" {
			return why
		}
	}
	for _, c := range w.result.Plan.Claims {
		answer.PerHour += c.Expected.Price
	}
	names := d.provisioner.sender.launch(ctx, w).claims
	answer.NodeClaims = append(answer.NodeClaims, names...)
	if lacking := len(w.result.Plan.Claims) - len(names); lacking > 0 {
		return fmt.Sprintf("%d of %d NodeClaims were not recorded", lacking, len(w.result.Plan.Claims))
	}
	return d.withoutRoom(w)
}

// leftOut names one of the pods that no plan could be made for: one that has to stay where it is.
func (d *displacer) leftOut(entries, planned []intake.Entry) string {
	have := make(map[types.UID]bool, len(planned))
	for _, e := range planned {
		have[e.Pod.UID] = true
	}
	for _, e := range entries {
		if pod := d.queue.objects.current(e.Pod); !have[e.Pod.UID] && pod != nil && pod.DeletionTimestamp == nil {
			return fmt.Sprintf("pod %s can run nowhere else: %s", klog.KObj(pod), pinned(pod))
		}
	}
	return ""
}

// withoutRoom names a pod for which no room was reserved after all.
func (d *displacer) withoutRoom(w *work) string {
	for _, e := range w.entries {
		if !d.reserved.Has(e.Pod.UID) && d.queue.objects.current(e.Pod) != nil {
			return fmt.Sprintf("no room was kept for pod %s", klog.KObj(e.Pod))
		}
	}
	return ""
}

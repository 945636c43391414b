package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

const (
	// moveTries is how often room is planned again for those whose slot was taken while it was planned.
	moveTries = 3
	// cyclesAtMost is how long the planner waits for the scheduling cycles under way to end: one takes milliseconds.
	cyclesAtMost = 250 * time.Millisecond
)

// roomForAll plans until every pod of a move has room that no other pod has taken: what was planned is reserved from the moment when
// it is published, and pods may be placed until then. It returns why a pod has none, and launches nothing for a part of the pods.
func (d *displacer) roomForAll(ctx context.Context, r *roomRequest) string {
	for range moveTries {
		m, refused := d.moveOf(ctx, r, time.Now())
		if refused != "" {
			return refused
		}
		if len(m.entries)+len(m.buffers) == 0 {
			return ""
		}
		if why := d.launchMove(ctx, r, m); why != "" {
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

// move are the pods of a move that have no room elsewhere yet.
type move struct {
	purpose
	entries []intake.Entry
	// buffers are pods of capacity buffers that have room on the nodes: they move as well.
	buffers []intake.Entry
	// offers are what the nodes that terminate were bought as.
	offers []consolidate.Offer
}

// moveOf returns the pods that the move displaces, or why it cannot have room for all of them.
func (d *displacer) moveOf(ctx context.Context, r *roomRequest, now time.Time) (m move, refused string) {
	m.purpose = purpose{
		kind: api.Purpose_PURPOSE_MOVE, terminating: slices.Sorted(slices.Values(r.asked.GetNodeNames())), avoid: setOf(r.asked.GetAvoid()),
	}
	if err := d.snapshot.update(ctx); err != nil {
		return m, err.Error()
	}
	d.reserved.DropTaken(d.snapshot.Get)
	for _, name := range r.asked.GetNodeNames() {
		if len(d.reserved.On("", name)) > 0 {
			return m, fmt.Sprintf("room on node %s is reserved for pods of another node that terminates", name)
		}
		if info, err := d.snapshot.Get(name); err == nil {
			m.offers = append(m.offers, offerOf(info.Node()))
		}
	}
	var problems []string
	m.entries, problems = d.displaced(r, d.view.State(nil, now), now)
	for _, name := range r.asked.GetNodeNames() {
		for _, pod := range d.buffers.On("", name) {
			m.buffers = append(m.buffers, intake.Entry{Pod: pod, At: now})
		}
	}
	return m, strings.Join(problems, "; ")
}

// launchMove plans, checks the bound and launches. It returns why it did not.
func (d *displacer) launchMove(ctx context.Context, r *roomRequest, m move) string {
	planned := d.provisioner.candidates.choose(ctx, m.entries, m.purpose)
	if why := d.leftOut(m.entries, planned); why != "" {
		return why
	}
	planned = append(planned, m.buffers...)
	if len(planned) == 0 {
		return ""
	}
	w, err := d.provisioner.attempt(ctx, planned, m.purpose)
	switch {
	case err != nil:
		return err.Error()
	case len(w.result.Plan.Unplaced) > 0:
		u := w.result.Plan.Unplaced[0]
		return fmt.Sprintf("pod %s would find no other node: %s", refNames(u.Pods), explain.Unplaced(u, "").Text())
	}
	if bound := r.asked.GetBound(); bound != nil {
		b := movebound.Bound{
			Most: bound.GetMostPerHour() - r.answer.GetPerHour(), Going: m.offers, SpotToSpot: bound.GetSpotToSpot(), Catalog: w.result.Input.Catalog,
			MinValuesBestEffort: w.result.Input.MinValuesBestEffort,
		}
		if why := b.Keep(w.result.Plan.Claims); why != "" {
			return why
		}
	}
	for _, c := range w.result.Plan.Claims {
		r.answer.PerHour += c.Expected.Price
	}
	names := d.provisioner.sender.launch(ctx, w).claims
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
			return fmt.Sprintf("pod %s can run nowhere else: %s", klog.KObj(pod), pinned(pod, false))
		}
	}
	return ""
}

// withoutRoom names a pod for which no room was reserved after all.
func (d *displacer) withoutRoom(w *work) string {
	for _, e := range w.entries {
		if !d.reserved.Has(e.Pod.UID) && d.queue.objects.current(e.Pod) != nil {
			return fmt.Sprintf("no room was reserved for pod %s", klog.KObj(e.Pod))
		}
	}
	return ""
}

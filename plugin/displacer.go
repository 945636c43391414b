package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// displacerConfig is what a displacer needs. All fields are required.
type displacerConfig struct {
	provisioner *provisioner
	view        *catalogview.View
	reserved    *reservations.Table
	buffers     *buffers.Table
	queue       *queue
	snapshot    *snapshot
	link        *link.Link
	metrics     *metrics
	// sleep holds back the pods of namespaces that sleep.
	sleep *sleepers
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

// roomRequest is a question of the launcher for room, with its answer as far as it is known.
type roomRequest struct {
	id     string
	asked  *api.MakeRoom
	answer *api.MakeRoomAnswer
	// pods that have to move, by UID.
	pods map[types.UID]bool
}

func newRoomRequest(q *api.Question) *roomRequest {
	r := &roomRequest{id: q.GetId(), asked: q.GetMakeRoom(), answer: &api.MakeRoomAnswer{}, pods: map[types.UID]bool{}}
	for _, uid := range r.asked.GetPods() {
		r.pods[types.UID(uid)] = true
	}
	return r
}

// makeRoom answers the questions for room: those about terminations by one plan, each about a move by a plan of its own.
func (d *displacer) makeRoom(ctx context.Context, questions []*api.Question, now time.Time) {
	var terminations []*roomRequest
	var apart [][]*roomRequest
	for _, q := range questions {
		if r := newRoomRequest(q); r.asked.GetPurpose() == api.Purpose_PURPOSE_TERMINATION {
			terminations = append(terminations, r)
		} else {
			apart = append(apart, []*roomRequest{r})
		}
	}
	if len(terminations) > 0 {
		apart = slices.Insert(apart, 0, terminations)
	}
	for _, requests := range apart {
		d.answer(ctx, requests, now)
	}
}

// answer plans room for requests of one purpose, and answers them. A panic is an answer too.
func (d *displacer) answer(ctx context.Context, requests []*roomRequest, now time.Time) {
	defer func() {
		cause := recover()
		if cause != nil {
			d.metrics.panicked(klog.FromContext(ctx), pointMakeRoom, cause)
		}
		d.publish()
		for _, r := range requests {
			if cause != nil {
				r.answer = &api.MakeRoomAnswer{NoRoom: fmt.Sprintf("panic: %v", cause)}
			}
			reply(ctx, d.link, &api.Answer{Id: r.id, Kind: &api.Answer_MakeRoom{MakeRoom: r.answer}})
		}
	}()
	if !d.view.Synced() {
		for _, r := range requests {
			r.answer.NoRoom = "the catalog is not known yet"
		}
		return
	}
	d.reserved.Tidy(now)
	switch first := requests[0]; first.asked.GetPurpose() {
	case api.Purpose_PURPOSE_TERMINATION:
		d.roomForMost(ctx, requests, now)
	case api.Purpose_PURPOSE_MOVE:
		first.answer.NoRoom = d.roomForAll(ctx, first)
	default:
		first.answer.NoRoom = fmt.Sprintf("nodes do not terminate for purpose %s", first.asked.GetPurpose())
	}
	inFlight := d.view.State(nil, now).InFlight
	for _, r := range requests {
		for _, name := range slices.Sorted(maps.Keys(inFlight)) {
			if n := inFlight[name]; slices.ContainsFunc(r.asked.GetNodeNames(), n.ReplacesNode) && (!n.Stalled() || len(d.reserved.On(name, "")) > 0) {
				r.answer.NodeClaims = append(r.answer.NodeClaims, name)
			}
		}
		klog.FromContext(ctx).V(1).Info("Planned room for pods of nodes that terminate", "nodes", r.asked.GetNodeNames(), "reason", r.asked.GetReason(),
			"purpose", r.asked.GetPurpose(), "pods", len(r.pods), "together", len(requests), "nodeClaims", r.answer.GetNodeClaims(),
			"costPerHour", r.answer.GetPerHour(), "bound", r.asked.GetBound(), "noRoom", r.answer.GetNoRoom())
	}
}

// displaced returns the pods of the request that have no room elsewhere yet, and why others of its pods cannot be planned. It reads
// the snapshot.
func (d *displacer) displaced(r *roomRequest, cat catalog.State, now time.Time) (entries []intake.Entry, problems []string) {
	for _, name := range r.asked.GetNodeNames() {
		info, err := d.snapshot.Get(name)
		if err != nil {
			problems = append(problems, fmt.Sprintf("node %s is not in the scheduler's cache", name))
			continue
		}
		provided := d.provided(name, cat)
		for _, pi := range info.GetPods() {
			pod := pi.GetPod()
			if !r.pods[pod.UID] || disruption.Leaves(pod) || provided[pod.UID] {
				continue
			}
			waits := d.sleep.replacement(pod, now)
			switch {
			case !d.queue.profiles.plans(pod):
				problems = append(problems, fmt.Sprintf("pod %s is another scheduler's (%s)", klog.KObj(pod), pod.Spec.SchedulerName))
			case waits != "" && r.asked.GetPurpose() == api.Purpose_PURPOSE_MOVE:
				problems = append(problems, fmt.Sprintf("the replacement of pod %s would wait: %s", klog.KObj(pod), waits))
			case waits != "": // No room is planned that nothing would take.
			default:
				entries = append(entries, intake.Entry{Pod: pod, At: now})
			}
		}
	}
	return entries, problems
}

// provided returns the pods that room is reserved for, and those that nodes in flight were launched for because of the node. One of a move that was called off
// since it is never initialized is no room any more.
func (d *displacer) provided(node string, cat catalog.State) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, n := range cat.InFlight {
		for _, ref := range n.Pods {
			if n.ReplacesNode(node) && !n.Stalled() {
				out[types.UID(ref.UID)] = true
			}
		}
	}
	for _, uid := range d.reserved.Displaced() {
		out[uid] = true
	}
	return out
}

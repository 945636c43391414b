package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// buffersGiveWay is how long capacity buffers wait for pods that wait for a plan.
	buffersGiveWay = 2 * time.Second
	buffersPoll    = 50 * time.Millisecond
	// buffersShare of planTimeout bounds the planning for the buffers of one namespace, half a second by default, and buffersPerPod is what each pod
	// adds: pods that come meanwhile wait.
	buffersShare  = 10
	buffersPerPod = time.Millisecond
	// buffersAfter is for how long no buffer is planned after a plan for one, as a multiple of the time that it took: buffers take a fifth of
	// the planner's time at most.
	buffersAfter = 4
	// buffersStay is how long pods of buffers stay on a node that is cordoned to terminate. A move asks within that time for room for them and
	// the node's other pods, which one new node may have together. The launcher uncordons an empty node within it that a buffer needs: it waits for
	// the answer for up to seven seconds.
	buffersStay = 20 * time.Second
)

// bufferPlacer finds room for the pods of capacity buffers, as the launcher asks. The planner's goroutine alone uses it.
type bufferPlacer struct {
	// provisioner has a timeout of its own: atMost and what each pod adds.
	provisioner provisioner
	atMost      time.Duration
	inbox       *inbox
	table       *buffers.Table
	templates   bufferTemplates
	parts       *plannerParts
	// publish makes the room visible outside the planner's goroutine.
	publish func()
	todo    []*api.Question
	// since is when the first question began to wait, rest when it may be planned.
	since, rest time.Time
	// cordoned is since when nodes with room for pods of buffers are cordoned to terminate, by name.
	cordoned map[string]time.Time
}

func newBufferPlacer(p *plannerParts, from *provisioner, publish func()) *bufferPlacer {
	own := *from
	own.shown = true
	return &bufferPlacer{
		provisioner: own, atMost: from.timeout / buffersShare, inbox: p.inbox, table: p.buffers, parts: p, publish: publish, cordoned: map[string]time.Time{},
		templates: bufferTemplates{rules: p.objects.rules, known: map[string]map[string]bufferTemplate{}},
	}
}

// step answers one question, unless pods wait for a plan, and returns when to look again; zero for nothing to do.
func (b *bufferPlacer) step(ctx context.Context, waiting bool, now time.Time) time.Time {
	if len(b.todo) == 0 {
		b.since = now
	}
	b.todo = append(b.todo, b.inbox.takeBuffers()...)
	switch {
	case len(b.todo) == 0:
		return time.Time{}
	case now.Before(b.rest):
		return b.rest
	case waiting && now.Sub(b.since) < buffersGiveWay:
		return now.Add(buffersPoll)
	}
	q := b.todo[0]
	b.todo, b.since = b.todo[1:], now
	published := b.parts.bufferBoard.begin()
	answer := b.safe(ctx, q.GetPlaceBuffers())
	b.publish() // Before the launcher knows it: it may ask at once whether a node is free.
	published()
	b.rest = time.Now().Add(buffersAfter * time.Since(now))
	reply(ctx, b.parts.link, &api.Answer{Id: q.GetId(), Kind: &api.Answer_PlaceBuffers{PlaceBuffers: answer}})
	if len(b.todo) > 0 {
		return b.rest
	}
	return time.Time{}
}

// safe answers also where our code fails.
func (b *bufferPlacer) safe(ctx context.Context, asked *api.PlaceBuffers) (answer *api.PlaceBuffersAnswer) {
	defer func() {
		if cause := recover(); cause != nil {
			b.parts.metrics.panicked(klog.Background(), pointPlaceBuffers, cause)
			answer = &api.PlaceBuffersAnswer{Message: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	if _, lost := b.parts.connection.lost(); lost || !b.parts.view.Synced() {
		return &api.PlaceBuffersAnswer{Message: "the catalog is not known yet"}
	}
	return b.place(ctx, asked)
}

// watchCordons notes since when nodes are cordoned to terminate. Asked seldom, it would take two short cordons for a long one.
func (b *bufferPlacer) watchCordons(now time.Time) {
	nodes := b.table.Nodes()
	maps.DeleteFunc(b.cordoned, func(name string, _ time.Time) bool { return !nodes[name] })
	for name := range nodes {
		switch node := b.parts.objects.node(name); {
		case node == nil || !disrupted(node):
			delete(b.cordoned, name)
		case b.cordoned[name].IsZero():
			b.cordoned[name] = now
		}
	}
}

// stays reports whether the pods of buffers stay on the node although it is cordoned to terminate: it may be a move. They also do where the cordon is gone
// and the snapshot, by which they would be planned, shows it still.
func (b *bufferPlacer) stays(node string) bool {
	if node == "" || b.table.Terminates(node) {
		return false
	}
	if since, is := b.cordoned[node]; is {
		return time.Since(since) < buffersStay
	}
	info, err := b.provisioner.snapshot.Get(node)
	return err == nil && disrupted(info.Node())
}

// bufferState is a buffer of a question, with its answer as far as it is known.
type bufferState struct {
	// entries are its pods.
	entries []intake.Entry
	// noLaunch means that no node is launched for them.
	noLaunch bool
	// standby is its UID where it is a standby buffer; empty for all others.
	standby string
	places  *api.BufferPlaces
}

// place plans the buffers of a namespace together. Where that fails it plans each by itself, so that one cannot keep the others from room.
func (b *bufferPlacer) place(ctx context.Context, asked *api.PlaceBuffers) *api.PlaceBuffersAnswer {
	answer := &api.PlaceBuffersAnswer{}
	states, pods, err := b.states(asked)
	if err != nil {
		return &api.PlaceBuffersAnswer{Message: err.Error()}
	}
	b.table.Keep(asked.GetNamespace(), pods, asked.GetNamespaces())
	b.watchCordons(time.Now())
	// What was found once and is not launched again comes first.
	var found, others, standby []*bufferState
	for _, s := range states {
		answer.Buffers = append(answer.Buffers, s.places)
		switch {
		case s.standby != "":
			standby = append(standby, s)
		case s.noLaunch:
			found = append(found, s)
		default:
			others = append(others, s)
		}
	}
	b.planStandby(ctx, standby)
	b.planAll(ctx, found, bookedPods())
	b.planAll(ctx, others, bufferPods())
	return answer
}

// planAll plans the buffers together. Where that fails it plans each by itself.
func (b *bufferPlacer) planAll(ctx context.Context, states []*bufferState, of purpose) {
	err := b.plan(ctx, states, of)
	if err == nil || ctx.Err() != nil {
		return
	}
	klog.FromContext(ctx).Error(err, "Capacity buffers could not be planned together", "buffers", len(states))
	for end := time.Now().Add(divideWithin * b.atMost); len(states) > 0; states = states[1:] {
		s := states[:1]
		if time.Now().Before(end) {
			err = b.plan(ctx, s, of)
		}
		if err != nil {
			b.describe(s, nil)
			s[0].places.NoRoom = "planning failed and is tried again: " + err.Error()
		}
	}
}

// planStandby plans standby buffers, each by itself on nodes of its own. What is not planned in time keeps its room until the launcher asks again.
func (b *bufferPlacer) planStandby(ctx context.Context, states []*bufferState) {
	end := time.Now().Add(b.atMost)
	for _, s := range states {
		one, err := []*bufferState{s}, errors.New("the other buffers of the namespace took all of the time")
		if time.Now().Before(end) {
			of := standbyPods(s.standby)
			of.noLaunch = s.noLaunch
			err = b.plan(ctx, one, of)
		}
		if err != nil {
			b.describe(one, nil)
			s.places.NoRoom = cmp.Or(s.places.NoRoom, "planning failed and is tried again: "+err.Error())
		}
	}
}

// states are the buffers of the question, and the UIDs of all their pods.
func (b *bufferPlacer) states(asked *api.PlaceBuffers) ([]*bufferState, map[types.UID]bool, error) {
	templates, err := b.templates.of(asked)
	if err != nil {
		return nil, nil, err
	}
	var out []*bufferState
	all, now := map[types.UID]bool{}, time.Now()
	reserved := map[string]*buffersize.Matcher{}
	defer func() { b.table.Reserve(asked.GetNamespace(), reserved) }()
	for _, in := range asked.GetBuffers() {
		s := &bufferState{places: &api.BufferPlaces{Uid: in.GetUid()}, noLaunch: in.GetNoLaunch()}
		out = append(out, s)
		template := templates[in.GetUid()]
		if s.places.NoRoom = template.why; template.why != "" {
			continue
		}
		if in.GetTakers() != nil {
			takers, err := buffersize.Takers{Selector: in.GetTakers().GetSelector(), Priority: in.GetTakers().Priority}.Matcher(asked.GetNamespace())
			if err != nil {
				s.places.NoRoom = "reading the selector of its pods: " + err.Error()
				continue
			}
			reserved[in.GetUid()] = takers
		}
		buffer := buffers.Buffer{Namespace: asked.GetNamespace(), Name: in.GetName(), UID: in.GetUid(), Count: int(in.GetPods()), Template: template.out, Whole: in.GetWhole()}
		s.take(&buffer, b.parts.queue.profiles.served[0], now)
		if in.GetStandby() {
			s.standby = in.GetUid()
		}
		for _, e := range s.entries {
			all[e.Pod.UID] = true
		}
	}
	return out, all, nil
}

// take makes the buffer's pods. All are of one class.
func (s *bufferState) take(buffer *buffers.Buffer, scheduler string, now time.Time) {
	pods := buffer.Pods(scheduler)
	if len(pods) == 0 {
		return
	}
	class := plan.ClassKey(pods[0])
	for _, pod := range pods {
		s.entries = append(s.entries, intake.Entry{Pod: pod, Class: class, At: now})
	}
}

// plan plans the pods of the buffers, but those that stay where they are, launches what is missing, and completes the answers. Which pods stay and where there
// is room it takes from one snapshot.
func (b *bufferPlacer) plan(ctx context.Context, states []*bufferState, of purpose) error {
	if err := b.provisioner.snapshot.update(ctx); err != nil {
		return fmt.Errorf("updating the snapshot of the scheduler's cache: %w", err)
	}
	var entries []intake.Entry
	for _, s := range states {
		for _, e := range s.entries {
			if _, node := b.table.Of(e.Pod.UID); !b.stays(node) {
				entries = append(entries, e)
			}
		}
	}
	if len(entries) == 0 {
		b.describe(states, nil)
		return nil
	}
	b.provisioner.timeout = b.atMost + time.Duration(len(entries))*buffersPerPod
	w, err := b.provisioner.attempt(ctx, entries, of)
	if err != nil {
		return err
	}
	if of.noLaunch {
		keepPlacements(&w.result.Plan)
	}
	unplaced := unplacedPods(w.result.Plan)
	for _, e := range entries {
		// Time that ran out says nothing about the room that a pod has.
		if unplaced[e.Pod.UID].text == "" || !w.result.Plan.CutShort {
			b.table.Drop(e.Pod.UID)
		}
	}
	launched := b.provisioner.sender.launch(ctx, w).claims
	b.describe(states, launched)
	for _, s := range states {
		for _, e := range s.entries {
			if claim, node := b.table.Of(e.Pod.UID); s.places.NoRoom == "" && claim+node == "" {
				why := unplaced[e.Pod.UID]
				s.places.NoRoom, s.places.NoRoomReason = cmp.Or(why.text, "no NodeClaim was recorded"), why.code
			}
		}
	}
	klog.FromContext(ctx).V(2).Info("Placed capacity buffers", "pods", len(entries), "unplaced", len(unplaced), "nodeClaims", launched, "cutShort", w.result.Plan.CutShort)
	return nil
}

// noRoom is why a pod has no room: for a human, and the planner's reason. The reason is empty where the planner had too little time.
type noRoom struct{ text, code string }

// unplacedPods returns why pods are not placed, by UID.
func unplacedPods(p plan.Plan) map[types.UID]noRoom {
	out := map[types.UID]noRoom{}
	for _, u := range p.Unplaced {
		why := noRoom{text: explain.Unplaced(u, "").Text()}
		if len(u.Reasons) > 0 && !p.CutShort {
			why.code = u.Reasons[0].Code
		}
		for _, ref := range u.Pods {
			out[types.UID(ref.UID)] = why
		}
	}
	return out
}

// keepPlacements takes out of a plan what would be launched.
func keepPlacements(p *plan.Plan) {
	for _, c := range p.Claims {
		for _, m := range c.Members {
			p.Unplaced = append(p.Unplaced, plan.Unplaced{Class: m.Class, Pods: m.Pods, Reasons: []plan.Reason{{
				Code: "NoRoomLeft", Message: "the room that it had is lost, and no node is launched for it again",
			}}})
		}
	}
	p.Claims = nil
}

// describe writes where the pods of the buffers are.
func (b *bufferPlacer) describe(states []*bufferState, launched []string) {
	for _, s := range states {
		nodes, claims := map[string]bool{}, map[string]bool{}
		s.places.Existing, s.places.InFlight, s.places.Launched = 0, 0, nil
		for _, e := range s.entries {
			switch claim, node := b.table.Of(e.Pod.UID); {
			case claim != "":
				claims[claim] = true
				s.places.InFlight++
			case b.stays(node):
				nodes[node] = true
				s.places.NoRoom = "node " + node + " is cordoned to terminate"
			case node != "":
				nodes[node] = true
				s.places.Existing++
			}
		}
		s.places.NodeNames, s.places.NodeClaims = slices.Sorted(maps.Keys(nodes)), slices.Sorted(maps.Keys(claims))
		for _, name := range launched {
			if claims[name] {
				s.places.Launched = append(s.places.Launched, name)
			}
		}
	}
}

// bufferRank returns in which order nodes take the pods of buffers: those that stay anyway first, then those that have some now, so that other
// nodes are empty and terminate.
func (p *provisioner) bufferRank() func(string) int {
	have := p.buffers.Nodes()
	return func(name string) int {
		info, err := p.snapshot.Get(name)
		switch {
		case err != nil || info.Node() == nil || info.Node().Labels[nodePoolLabel] == "":
			return 0
		case slices.ContainsFunc(info.GetPods(), func(pi fwk.PodInfo) bool { return disruption.Occupies(pi.GetPod()) }):
			return 0
		case have[name]:
			return 1
		}
		return 2
	}
}

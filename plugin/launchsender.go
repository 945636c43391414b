package plugin

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/reservations"
	"github.com/slipway-k8s/slipway/plugin/waking"
)

// unsentAgain is the time after which pods without a place are planned again whose batch was not answered: none of it may have been recorded.
const unsentAgain = time.Second

// launchSenderConfig is what a launchSender needs. All fields are required.
type launchSenderConfig struct {
	link     *link.Link
	updates  *catalogUpdates
	adopter  *adopter
	gangs    *gangs
	view     *catalogview.View
	promises *promise.Table
	reserved *reservations.Table
	buffers  *buffers.Table
	unplaced *pending.Pods
	delays   *delays
	status   *podstatus.Writer
	queue    *queue
	snapshot *snapshot
	metrics  *metrics
	// times learn how long nodes need.
	times *waking.Times
	// promiseTimeout is how long a promise lasts of which the launcher reports nothing.
	promiseTimeout time.Duration
	// beside makes a call in a goroutine of its own and reads what the launcher reports until it is over.
	beside func(ctx context.Context, call func())
	// candidates hold the pods that are dropped and may be back.
	candidates *candidates
}

// launchSender sends plans to the launcher. The planner's goroutine alone uses it.
type launchSender struct {
	launchSenderConfig
	// problems are the mistakes in objects that were logged.
	problems loggedProblems
}

// launch promises the plan's pods their slots and sends the plan. Its order matters:
//
//  1. drop the nodes whose pods have gone or have other room by now, and promise the others', so that the scheduler leaves the pods alone from now on;
//  2. send, until the launcher has answered, and apply meanwhile what it reports of other claims;
//  3. release the pods of what it refused, and keep the rest in view until the catalog shows it;
//  4. nominate pods to existing nodes with room, and report on all pods;
//  5. give back what was found for gangs of which other pods get no node.
func (s *launchSender) launch(ctx context.Context, w *work) planned {
	now := time.Now()
	batchName := "batch-" + rand.String(8)
	if w.pending() {
		// The plan took its time, in which other room may have come, or an owner may have gone.
		w.drop(func(ref catalog.PodRef) bool {
			return s.candidates.needless(w.byUID[types.UID(ref.UID)], w.purpose, now)
		})
		s.hold(w, now)
	} else {
		s.narrow(w)
	}
	for i := range w.result.Plan.Claims {
		w.result.Plan.Claims[i].Standby = w.standby
	}
	req := link.Request(batchName, w.kind, w.result.Plan, w.result.Input.Classes)
	logPlan(ctx, w, req, now)
	var refused map[string]*api.Result
	if len(req.GetClaims())+len(req.GetPlacements()) > 0 {
		s.updates.expect(req)
		defer s.updates.answered(ctx)
		var resp *api.LaunchResponse
		var err error
		s.beside(ctx, func() { resp, err = send(ctx, s.link, req) })
		if err != nil {
			s.unsent(ctx, w, err)
			return planned{unrecorded: w.unrecorded(func(node string) string { return explain.Unanswered(node).Text() })}
		}
		refused = refusals(resp)
		// A full state of a stream that was opened before this answer may lack what the launcher has just recorded.
		now = time.Now()
	}
	names := s.recorded(ctx, w, refused, now)
	s.existing(ctx, w)
	s.reportUnplaced(w)
	s.gangs.giveUp(ctx, w)
	s.sayMistakes(w, s.problems.log(ctx, w.result.Plan.Problems))
	klog.FromContext(ctx).V(1).Info("Batch planned", "batch", batchName, "pods", len(w.entries), "nodeClaims", len(names),
		"placements", len(w.result.Plan.Placements), "unplaced", len(w.result.Plan.Unplaced), "costPerHour", w.result.Plan.CostPerHour,
		"firstFitPerHour", w.result.Plan.FirstFitPerHour)
	if w.pending() {
		return planned{claims: names}
	}
	return planned{claims: names, unplaced: w.result.Plan.Unplaced, unrecorded: w.unrecorded(func(node string) string {
		if r := refused[node]; r != nil {
			return explain.Refused(node, r.GetReason(), r.GetMessage()).Text()
		}
		return ""
	})}
}

// sayMistakes sends an Event about each mistake in an annotation of a planned pod.
func (s *launchSender) sayMistakes(w *work, news []plan.Problem) {
	if len(news) == 0 {
		return
	}
	byObject := map[string]plan.Problem{}
	for _, p := range news {
		byObject[p.Object] = p
	}
	for _, e := range w.entries {
		if p, ok := byObject["Pod "+e.Pod.Namespace+"/"+e.Pod.Name]; ok && strings.HasPrefix(p.Field, "metadata.annotations") {
			s.status.Warn(e.Pod, "InvalidAnnotation", p.Field+": "+p.Message)
		}
	}
}

// narrow has each claim replace those nodes alone whose pods it takes.
func (s *launchSender) narrow(w *work) {
	for i := range w.result.Plan.Claims {
		c, nodes := &w.result.Plan.Claims[i], sets.New[string]()
		for _, m := range c.Members {
			for _, ref := range m.Pods {
				if pod := s.queue.objects.pod(ref); pod != nil && pod.Spec.NodeName != "" {
					nodes.Insert(pod.Spec.NodeName)
				}
			}
		}
		if len(nodes) > 0 {
			c.Replaces = sets.List(nodes)
		}
	}
}

// hold enters the promises.
func (s *launchSender) hold(w *work, now time.Time) {
	var list []promise.Promise
	add := func(members []plan.Member, node string, labels map[string]string, message string) {
		for _, m := range members {
			for _, ref := range m.Pods {
				list = append(list, promise.Promise{
					Pod: ref, NodeClaim: node, NodeName: w.result.Input.Catalog.InFlight[node].NodeName, Labels: labels, Since: now,
					Deadline: now.Add(s.promiseTimeout), Message: message,
				})
			}
		}
	}
	for _, c := range w.result.Plan.Claims {
		add(c.Members, c.Name, clusterview.ClaimLabels(&c), explain.Launching(c).Text())
	}
	for _, pl := range w.result.Plan.Placements {
		if pl.InFlight {
			add(pl.Members, pl.Node, w.result.Input.Catalog.InFlight[pl.Node].Labels, explain.Joining(w.result.Input.Catalog.InFlight[pl.Node]).Text())
		}
	}
	s.promises.Hold(list...)
	s.metrics.promises.Set(float64(s.promises.Len()))
}

// unsent leaves the pods promised until it is known what the launcher has recorded: pods of a recorded claim that were planned again would be
// bound twice. It shows in the full state of a stream that is opened from now on, before which nothing is planned. The batch's other pods need no answer:
// those with room on existing nodes go there, and those without a place are held.
func (s *launchSender) unsent(ctx context.Context, w *work, err error) {
	klog.FromContext(ctx).Error(err, "The launcher did not answer; its full state will show what it has recorded")
	s.view.Distrust(time.Now())
	s.link.Resync()
	if !w.pending() {
		return
	}
	for _, e := range w.entries {
		if p, held := s.promises.Get(e.Pod.UID); held {
			s.updates.doubted = append(s.updates.doubted, e.Pod.UID)
			s.status.Report(podstatus.Note{Pod: p.Pod, Message: explain.Unanswered(p.NodeClaim)})
		}
	}
	s.existing(ctx, w)
	s.reportUnplaced(w)
	s.unplaced.PlanBy(time.Now().Add(unsentAgain))
}

// recorded keeps what was recorded in view, releases the pods of what was refused, and returns the new claims' names.
func (s *launchSender) recorded(ctx context.Context, w *work, refused map[string]*api.Result, now time.Time) []string {
	var names []string
	for _, c := range w.result.Plan.Claims {
		if r := refused[c.Name]; r != nil {
			s.view.Failed(c.Name, c.NodePool, r.GetReason(), failureText(r.GetReason(), r.GetMessage()), now)
			s.refuse(ctx, c.Members, r)
			continue
		}
		names = append(names, c.Name)
		s.promises.Recorded(c.Name, now)
		s.view.Record(c, now)
		s.metrics.expected.Add(float64(expectedPods(c.Expects)))
		if c.Standby == "" { // The node of a standby buffer is stopped instead.
			s.times.Begin(c.Name, waking.Kind{NodePool: c.NodePool, InstanceType: c.Expected.InstanceType}, now)
		}
		s.reserveRoom(w, c.Members, reservations.Place{NodeClaim: c.Name, At: now})
		if w.pending() {
			s.delays.launched(c.Name, c.Members, s.queue.objects.pod, now)
			s.reportMembers(c.Members, explain.Launching(c), outcomeLaunched)
		}
	}
	for _, pl := range w.result.Plan.Placements {
		if !pl.InFlight {
			continue
		}
		if r := refused[pl.Node]; r != nil {
			s.refuse(ctx, pl.Members, r)
			continue
		}
		s.promises.Recorded(pl.Node, now)
		if n := w.result.Input.Catalog.InFlight[pl.Node]; w.pending() && n.Sleeps() {
			s.times.Begin(pl.Node, kindOf(n, true), now)
		}
		s.buffers.Took(pl.Node, w.takes, podsOf(pl.Members))
		s.reserveRoom(w, pl.Members, reservations.Place{NodeClaim: pl.Node, Node: w.result.Input.Catalog.InFlight[pl.Node].NodeName, At: now})
		if w.pending() {
			s.reportMembers(pl.Members, explain.Joining(w.result.Input.Catalog.InFlight[pl.Node]), outcomeInFlight)
		}
	}
	return names
}

// podsOf returns how many pods the members are.
func podsOf(members []plan.Member) (n int) {
	for _, m := range members {
		n += len(m.Pods)
	}
	return n
}

// reserveRoom reserves the room that was found for displaced pods: until they and their replacements have come, no other plan
// counts on it.
func (s *launchSender) reserveRoom(w *work, members []plan.Member, at reservations.Place) {
	if !w.pending() {
		if info, err := s.snapshot.Get(at.Node); at.Node != "" && err == nil {
			at.Beside = info.GetPods()
		}
		at.InMove = w.kind == api.Purpose_PURPOSE_MOVE
		s.reserved.Reserve(members, at)
		for _, m := range members {
			for _, ref := range m.Pods {
				if ref.Virtual() {
					s.buffers.Put(w.byUID[types.UID(ref.UID)].Pod, at.NodeClaim, at.Node)
				}
			}
		}
	}
}

// refuse releases the pods of a claim that was not recorded. They come back through the queue.
func (s *launchSender) refuse(ctx context.Context, members []plan.Member, r *api.Result) {
	klog.FromContext(ctx).V(1).Info("The launcher refused", "nodeClaim", r.GetName(), "reason", r.GetReason(), "message", r.GetMessage())
	for _, m := range members {
		uids := make([]types.UID, len(m.Pods))
		for i, ref := range m.Pods {
			uids[i] = types.UID(ref.UID)
			if ref.Virtual() {
				continue
			}
			s.status.Report(podstatus.Note{Pod: ref, Message: explain.Refused(r.GetName(), r.GetReason(), r.GetMessage())})
		}
		s.metrics.pods.WithLabelValues(outcomeRefused).Add(float64(len(uids)))
		s.metrics.release("refused", s.promises.Release(uids...), s.promises)
	}
}

func (s *launchSender) reportMembers(members []plan.Member, message explain.Message, outcome string) {
	for _, m := range members {
		s.metrics.pods.WithLabelValues(outcome).Add(float64(len(m.Pods)))
		for _, ref := range m.Pods {
			s.status.Report(podstatus.Note{Pod: ref, Message: message, EventReason: "Nominated"})
		}
	}
}

// existing nominates pods to nodes that exist: the room is theirs against pods of their priority or a lower one, and
// the scheduler places them as any other.
func (s *launchSender) existing(ctx context.Context, w *work) {
	for _, pl := range w.result.Plan.Placements {
		if pl.InFlight {
			continue
		}
		if !w.pending() {
			// They run, and go where the scheduler places their replacements.
			s.reserveRoom(w, pl.Members, reservations.Place{Node: pl.Node, At: time.Now()})
			continue
		}
		for _, m := range pl.Members {
			for _, ref := range m.Pods {
				s.queue.nominate(ctx, ref, pl.Node)
				s.adopter.leaveBe(types.UID(ref.UID), time.Now())
				s.unplaced.PlannedToExisting(types.UID(ref.UID), time.Now())
			}
			s.queue.activate(m.Pods)
		}
		s.reportMembers(pl.Members, explain.Existing(pl.Node), outcomeExisting)
	}
}

func (s *launchSender) reportUnplaced(w *work) {
	if !w.pending() {
		return
	}
	if until := s.view.BackoffEnds(time.Now()); !until.IsZero() {
		s.unplaced.PlanBy(until)
	}
	hopeless := 0
	for _, e := range w.entries {
		if e.Hopeless {
			hopeless++
		}
	}
	unfinished := w.result.Plan.CutShort || w.result.Postponed
	for _, u := range w.result.Plan.Unplaced {
		s.metrics.pods.WithLabelValues(outcomeUnplaced).Add(float64(len(u.Pods)))
		starts := s.view.Starting(u, time.Now())
		for _, ref := range u.Pods {
			e := w.byUID[types.UID(ref.UID)]
			if e.Hopeless {
				hopeless--
			}
			e.Hopeless = !unfinished
			s.unplaced.Hold(e)
			if !starts.IsZero() {
				s.unplaced.PlanBy(starts)
				continue
			}
			s.status.Report(podstatus.Note{Pod: ref, Message: explain.Unplaced(u, e.Verdict), EventReason: "FailedScheduling", Warning: true})
		}
	}
	if hopeless > 0 {
		s.unplaced.Placed()
	}
	if unfinished && len(w.result.Plan.Unplaced) > 0 {
		s.unplaced.PlanAfterRest(w.result.PlanTime+w.result.VerifyTime, time.Now())
	}
}

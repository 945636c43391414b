package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// maxRounds is how often a batch is planned until the filters agree; what they still reject then is left out.
const maxRounds = 10

// errTooLong says that a plan took longer than its time.
var errTooLong = errors.New("planning took too long")

// work is one batch on its way to the launcher.
type work struct {
	entries []entry
	byUID   map[types.UID]entry
	// replaces is the node whose pods are planned; empty for pending pods.
	replaces string
	input    plan.Input
	world    *verify.World
	result   plan.Plan
}

// plan plans the entries, launches what is missing, and returns the names of the claims. A batch on which our code
// fails is halved until the one pod is found, which is set aside.
func (p *planner) plan(ctx context.Context, entries []entry, replaces string) []string {
	entries = p.pending(ctx, entries, replaces)
	if len(entries) == 0 {
		return nil
	}
	start := time.Now()
	w, err := p.attempt(ctx, entries, replaces)
	p.metrics.planSeconds.Observe(time.Since(start).Seconds())
	if err == nil {
		return p.launch(ctx, w)
	}
	if ctx.Err() != nil {
		return nil
	}
	if len(entries) > 1 {
		klog.FromContext(ctx).Error(err, "A batch could not be planned and is halved", "pods", len(entries))
		half := len(entries) / 2
		return append(p.plan(ctx, entries[:half], replaces), p.plan(ctx, entries[half:], replaces)...)
	}
	p.setAside(ctx, entries[0], err)
	return nil
}

// attempt makes and verifies one plan. A panic comes back as an error.
func (p *planner) attempt(ctx context.Context, entries []entry, replaces string) (w *work, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.metrics.panics.WithLabelValues(pointPlan).Inc()
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, p.args.PlanTimeout.Duration)
	defer cancel()
	for _, e := range entries {
		p.injected(pointPlan, e.pod)
	}
	w = &work{entries: entries, byUID: map[types.UID]entry{}, replaces: replaces}
	for _, e := range entries {
		w.byUID[e.pod.UID] = e
	}
	if err := p.prepare(ctx, w); err != nil {
		return nil, err
	}
	return w, p.solve(ctx, w)
}

// prepare takes the snapshot and makes the plan's input of it.
func (p *planner) prepare(ctx context.Context, w *work) error {
	logger := klog.FromContext(ctx)
	if err := p.sched.Cache.UpdateSnapshot(logger, p.snapshot); err != nil {
		return fmt.Errorf("snapshot of the scheduler's cache: %w", err)
	}
	now := time.Now()
	cat := p.view.state(p.promises.Claims(), now)
	daemonSets, err := p.daemonSets()
	if err != nil {
		return err
	}
	leave := make(map[types.UID]bool, len(w.entries))
	for uid := range w.byUID {
		leave[uid] = true
	}
	w.world, err = verify.NewWorld(logger, verify.Source{
		Snapshot: p.snapshot, Catalog: cat, DaemonSets: daemonSets, Pod: p.pod, Leave: leave, Going: w.replaces,
		// The scheduler has tried pending pods on every node, but perhaps not on those that came a moment ago; those of
		// a node that goes it has tried nowhere.
		Room: func(name string) bool { return w.replaces != "" || p.view.young(name, now) },
	})
	if err != nil {
		return err
	}
	w.input = plan.Input{
		Now: now, Catalog: cat, Classes: p.classes(w.entries), Nodes: w.world.PlanNodes(), DaemonSets: daemonSets,
		NewName: newNames(cat), Replaces: w.replaces,
	}
	return nil
}

func (p *planner) daemonSets() ([]*appsv1.DaemonSet, error) {
	list, err := p.informer.Apps().V1().DaemonSets().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("DaemonSets: %w", err)
	}
	return list, nil
}

// solve plans until the filters agree. Their rejections go into the next plan; what they still reject after the last
// round, or in spite of being told, is left out with the filter's reason.
func (p *planner) solve(ctx context.Context, w *work) error {
	var told []plan.Rejection
	for round := 1; ; round++ {
		if err := p.bounded(ctx, func() plan.Plan { return plan.Make(w.input) }, &w.result); err != nil {
			return err
		}
		rejected, err := p.verifier.Check(ctx, w.world, w.input.Classes, w.result, w.input.Catalog)
		if err != nil {
			return err
		}
		news := slices.ContainsFunc(rejected, func(r plan.Rejection) bool { return !contains(told, r) })
		if len(rejected) == 0 || round == maxRounds || !news {
			p.metrics.rounds.Observe(float64(round))
			return p.leaveOut(ctx, w, rejected)
		}
		klog.FromContext(ctx).V(4).Info("The filters reject parts of the plan", "round", round, "rejections", len(rejected), "first", rejected[0])
		told = append(told, rejected...)
		w.input.Rejected = told
	}
}

// leaveOut drops the rejected classes from the plan, again until the rest stands: taking pods away can leave others
// without the company that they need.
func (p *planner) leaveOut(ctx context.Context, w *work, rejected []plan.Rejection) error {
	for len(rejected) > 0 {
		w.result = without(w.result, w.input.Classes, rejected)
		var err error
		if rejected, err = p.verifier.Check(ctx, w.world, w.input.Classes, w.result, w.input.Catalog); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func contains(list []plan.Rejection, r plan.Rejection) bool {
	return slices.ContainsFunc(list, func(o plan.Rejection) bool {
		return o.ClassKey == r.ClassKey && o.Node == r.Node && o.NodePool == r.NodePool && o.InstanceType == r.InstanceType &&
			o.Zone == r.Zone && o.CapacityType == r.CapacityType && o.MaxPerNode == r.MaxPerNode && slices.Equal(o.With, r.With)
	})
}

// without returns the plan without the rejected classes, which become unplaced.
func without(in plan.Plan, classes []plan.Class, rejected []plan.Rejection) plan.Plan {
	why := map[string]string{}
	for _, r := range rejected {
		why[r.ClassKey] = r.Reason
	}
	out := in
	out.Claims, out.Placements, out.Unplaced = nil, nil, slices.Clone(in.Unplaced)
	gone := map[int][]catalog.PodRef{}
	keep := func(members []plan.Member) []plan.Member {
		var kept []plan.Member
		for _, m := range members {
			if _, no := why[classes[m.Class].Key]; no {
				gone[m.Class] = append(gone[m.Class], m.Pods...)
				continue
			}
			kept = append(kept, m)
		}
		return kept
	}
	for _, c := range in.Claims {
		if c.Members = keep(c.Members); len(c.Members) > 0 {
			out.Claims = append(out.Claims, c)
		} else {
			out.CostPerHour -= c.Expected.Price
		}
	}
	for _, pl := range in.Placements {
		if pl.Members = keep(pl.Members); len(pl.Members) > 0 {
			out.Placements = append(out.Placements, pl)
		}
	}
	for index := range classes {
		if pods := gone[index]; len(pods) > 0 {
			out.Unplaced = append(out.Unplaced, plan.Unplaced{Class: index, Pods: pods, Reasons: []plan.Reason{{
				Code: "FilterRejected", Message: "the scheduler's filters reject every node that was planned: " + why[classes[index].Key],
			}}})
		}
	}
	return out
}

// classes groups the pods by identical needs, in the order of their first pod.
func (p *planner) classes(entries []entry) []plan.Class {
	var out []plan.Class
	at := map[string]int{}
	for _, e := range entries {
		key := plan.ClassKey(e.pod)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, plan.Class{Key: key, Pod: e.pod})
		}
		ref := refOf(e.pod)
		ref.SchedulerOnly = p.schedulerOnly(e.pod.Spec.SchedulerName)
		out[i].Pods = append(out[i].Pods, ref)
	}
	return out
}

// newNames gives each claim a name that no other claim has: the pool's, cut so that the whole is a label's value.
func newNames(cat catalog.State) func(string) string {
	used := map[string]bool{}
	return func(pool string) string {
		if len(pool) > 57 {
			pool = pool[:57]
		}
		for {
			name := pool + "-" + rand.String(5)
			if _, ok := cat.InFlight[name]; !ok && !used[name] {
				used[name] = true
				return name
			}
		}
	}
}

// setAside keeps a pod from being planned whose planning goes wrong, so that it harms no other.
func (p *planner) setAside(ctx context.Context, e entry, cause error) {
	until := time.Now().Add(asideFor)
	p.aside[e.pod.UID] = until
	p.metrics.pods.WithLabelValues(outcomeAside).Inc()
	klog.FromContext(ctx).Error(cause, "Pod is set aside", "pod", klog.KObj(e.pod), "until", until)
	p.status.tell(note{ref: refOf(e.pod), message: setAsideMessage(cause, until), event: "FailedScheduling", warning: true})
}

func (p *planner) activatePods(pods []*corev1.Pod) {
	refs := make([]catalog.PodRef, len(pods))
	for i, pod := range pods {
		refs[i] = refOf(pod)
	}
	p.activate(refs)
}

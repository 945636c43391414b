package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

const (
	// divideWithin is for how many times planTimeout the parts of a batch are tried on which our code fails.
	divideWithin = 4
	// postponeFor is how long pods wait that could not be planned for no fault of theirs.
	postponeFor = 10 * time.Second
	// restFactor is how long planning rests after a plan that ran out of time, as a multiple of what that took: pods that are
	// always too much work take a fifth of a CPU, and others are planned meanwhile.
	restFactor = 4
)

// work is one batch on its way to the launcher.
type work struct {
	purpose
	entries []intake.Entry
	byUID   map[types.UID]intake.Entry
	result  provision.Result
}

// plan plans the entries, and launches what is missing. A batch on which our code fails is divided, by namespace first,
// until the one pod is found that fails alone, which is set aside.
func (p *planner) plan(ctx context.Context, entries []intake.Entry, of purpose) planned {
	return p.planWithin(ctx, entries, of, time.Now().Add(divideWithin*p.args.PlanTimeout.Duration))
}

// planWithin plans the entries, in parts where that fails, until the time. Each division makes the parts smaller, so that
// no more than twice as many plans are made as there are pods.
func (p *planner) planWithin(ctx context.Context, entries []intake.Entry, of purpose, end time.Time) planned {
	entries = p.pending(ctx, entries, of)
	if len(entries) == 0 {
		return planned{}
	}
	start := time.Now()
	w, err := p.attempt(ctx, entries, of)
	p.metrics.planSeconds.Observe(time.Since(start).Seconds())
	var elsewhere *surroundingsError
	switch {
	case err == nil:
		p.aside.planned(entries)
		return p.launch(ctx, w)
	case ctx.Err() != nil:
		return planned{}
	case errors.As(err, &elsewhere) || time.Now().After(end):
		klog.FromContext(ctx).Error(err, "A batch could not be planned and is tried again", "pods", len(entries))
		return p.postpone(entries, of, err)
	case len(entries) == 1:
		return p.setAside(ctx, entries[0], of, err)
	}
	klog.FromContext(ctx).Error(err, "A batch could not be planned and is divided", "pods", len(entries))
	var out planned
	for _, part := range divide(entries) {
		out = out.with(p.planWithin(ctx, part, of, end))
	}
	return out
}

// surroundingsError is a failure that no pod of the batch has a part in.
type surroundingsError struct{ error }

// Unwrap returns what went wrong.
func (e *surroundingsError) Unwrap() error { return e.error }

// attempt makes and verifies one plan within planTimeout. A plan that is cut short is no error. A panic comes back as one.
func (p *planner) attempt(ctx context.Context, entries []intake.Entry, of purpose) (w *work, err error) {
	defer p.metrics.simulations.begin(of, len(entries))()
	defer func() {
		if cause := recover(); cause != nil {
			p.metrics.panics.WithLabelValues(pointPlan).Inc()
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	w = &work{purpose: of, entries: entries, byUID: make(map[types.UID]intake.Entry, len(entries))}
	for _, e := range entries {
		p.injected(pointPlan, e.Pod)
		w.byUID[e.Pod.UID] = e
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(whole, p.args.PlanTimeout.Duration)
	defer cancel()
	if err := p.provision(ctx, w); err != nil {
		return nil, err
	}
	if len(w.avoid) > 0 && len(w.result.Plan.Unplaced) > 0 && ctx.Err() == nil {
		// Room that goes soon is better than none.
		w.avoid = nil
		if err := p.provision(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, whole.Err()
}

// provision takes a snapshot and plans the pods of the batch on it.
func (p *planner) provision(ctx context.Context, w *work) error {
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return &surroundingsError{fmt.Errorf("updating the snapshot of the scheduler's cache: %w", err)}
	}
	now := time.Now()
	req, err := p.needs.request(p.classes(w.entries), p.view.State(p.promises.Claims(), now))
	if err != nil {
		return &surroundingsError{err}
	}
	req.Now, req.Replaces = now, w.leaving
	req.Cluster.Snapshot, req.Cluster.Pod, req.Cluster.Going, req.Cluster.Kept = p.snapshot, p.pod, setOf(w.leaving), p.reserved.On
	// The scheduler has tried pending pods on every node, but perhaps not on those that came a moment ago; those of a node
	// that leaves it has tried nowhere.
	req.Cluster.Room = func(name string) bool { return !w.pending() && !w.avoid[name] || p.view.Young(name, now) }
	if w.result, err = p.provisioner.Provision(ctx, req); err != nil {
		return err
	}
	p.metrics.rounds.Observe(float64(w.result.Rounds))
	if w.result.Plan.CutShort {
		p.metrics.cutShort.WithLabelValues(controllerOf(w.purpose)).Inc()
	}
	return nil
}

// newProvisioner returns one with filters of its own.
func newProvisioner(ctx context.Context, args *Args, filters verify.Config) (*provision.Provisioner, error) {
	verifier, err := verify.New(ctx, filters)
	if err != nil {
		return nil, err
	}
	return provision.New(provision.Config{Verifier: verifier, Settings: provision.Settings{
		PreferenceShare: share(args.PreferencePercent), MinValuesBestEffort: args.MinValuesPolicy == minValuesBestEffort,
		Plan: plan.Options{
			Budget: float64(*args.PlanBudget), NodeShare: share(args.NodeSharePercent),
			SpotShare: share(args.SpotSharePercent), SpotPremium: share(args.SpotPremiumPercent),
		},
	}})
}

func share(percent *int32) float64 { return float64(*percent) / 100 }

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

// setAside keeps a pod from being planned for a while whose planning failed while it was alone. A pod of a node that
// leaves is asked about again by the launcher: it has no room until then.
func (p *planner) setAside(ctx context.Context, e intake.Entry, of purpose, cause error) planned {
	if !of.pending() {
		return p.postpone([]intake.Entry{e}, of, cause)
	}
	until := p.aside.failed(e, time.Now())
	p.metrics.pods.WithLabelValues(outcomeAside).Inc()
	klog.FromContext(ctx).Error(cause, "Pod is set aside", "pod", klog.KObj(e.Pod), "until", until)
	p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: explain.SetAside(cause.Error(), until), EventReason: "FailedScheduling", Warning: true})
	return planned{}
}

// postpone leaves pods to a later batch, for what no one of them is known to have done.
func (p *planner) postpone(entries []intake.Entry, of purpose, cause error) planned {
	u := plan.Unplaced{Reasons: []plan.Reason{{Code: "PlanningFailed", Message: "planning failed and is tried again: " + cause.Error()}}}
	for _, e := range entries {
		u.Pods = append(u.Pods, catalog.PodRefOf(e.Pod))
	}
	if !of.pending() {
		return planned{unplaced: []plan.Unplaced{u}}
	}
	for _, e := range entries {
		p.unplaced[e.Pod.UID] = e
		p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: explain.Unplaced(u, e.Verdict)})
	}
	p.replan.by(time.Now().Add(postponeFor))
	return planned{}
}

func (p *planner) activatePods(pods []*corev1.Pod) {
	refs := make([]catalog.PodRef, len(pods))
	for i, pod := range pods {
		refs[i] = catalog.PodRefOf(pod)
	}
	p.activate(refs)
}

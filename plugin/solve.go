package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// work is one batch on its way to the launcher.
type work struct {
	purpose
	entries []entry
	byUID   map[types.UID]entry
	result  provision.Result
}

// plan plans the entries, and launches what is missing. A batch on which our code fails is halved until the one pod is
// found, which is set aside.
func (p *planner) plan(ctx context.Context, entries []entry, of purpose) planned {
	entries = p.pending(ctx, entries, of)
	if len(entries) == 0 {
		return planned{}
	}
	start := time.Now()
	w, err := p.attempt(ctx, entries, of)
	p.metrics.planSeconds.Observe(time.Since(start).Seconds())
	if err == nil {
		return p.launch(ctx, w)
	}
	if ctx.Err() != nil {
		return planned{}
	}
	if len(entries) > 1 {
		klog.FromContext(ctx).Error(err, "A batch could not be planned and is halved", "pods", len(entries))
		entries, half := halves(entries)
		return p.plan(ctx, entries[:half], of).with(p.plan(ctx, entries[half:], of))
	}
	p.setAside(ctx, entries[0], err)
	return planned{}
}

// attempt makes and verifies one plan. A panic comes back as an error.
func (p *planner) attempt(ctx context.Context, entries []entry, of purpose) (w *work, err error) {
	defer p.metrics.simulations.begin(of, len(entries))()
	defer func() {
		if cause := recover(); cause != nil {
			p.metrics.panics.WithLabelValues(pointPlan).Inc()
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, p.args.PlanTimeout.Duration)
	defer cancel()
	w = &work{purpose: of, entries: entries, byUID: make(map[types.UID]entry, len(entries))}
	for _, e := range entries {
		p.injected(pointPlan, e.pod)
		w.byUID[e.pod.UID] = e
	}
	if err := p.provision(ctx, w); err != nil || len(w.avoid) == 0 || len(w.result.Plan.Unplaced) == 0 {
		return w, err
	}
	// Room that goes soon is better than none.
	w.avoid = nil
	return w, p.provision(ctx, w)
}

// provision takes a snapshot and plans the pods of the batch on it.
func (p *planner) provision(ctx context.Context, w *work) error {
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		return fmt.Errorf("updating the snapshot of the scheduler's cache: %w", err)
	}
	now := time.Now()
	req, err := p.needs.request(p.classes(w.entries), p.view.state(p.promises.Claims(), now))
	if err != nil {
		return err
	}
	req.Now, req.Replaces = now, w.leaving
	req.Cluster.Snapshot, req.Cluster.Pod, req.Cluster.Going, req.Cluster.Kept = p.snapshot, p.pod, setOf(w.leaving), p.kept.on
	// The scheduler has tried pending pods on every node, but perhaps not on those that came a moment ago; those of a node
	// that leaves it has tried nowhere.
	req.Cluster.Room = func(name string) bool { return !w.pending() && !w.avoid[name] || p.view.young(name, now) }
	if w.result, err = p.provisioner.Provision(ctx, req); err != nil {
		return err
	}
	p.metrics.rounds.Observe(float64(w.result.Rounds))
	return ctx.Err()
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

// halves sorts the entries so that the pods of a gang are side by side, and returns where to cut: between two gangs if that
// leaves something on both sides.
func halves(entries []entry) ([]entry, int) {
	first := map[string]int{}
	for i, e := range entries {
		if _, ok := first[e.gang.Name]; !ok && e.gang.Name != "" {
			first[e.gang.Name] = i
		}
	}
	at := map[types.UID]int{}
	for i, e := range entries {
		at[e.pod.UID] = i
		if e.gang.Name != "" {
			at[e.pod.UID] = first[e.gang.Name]
		}
	}
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(at[a.pod.UID], at[b.pod.UID]) })
	half := len(out) / 2
	whole := func(i int) bool { return out[i].gang.Name == "" || out[i].gang.Name != out[i-1].gang.Name }
	for d := range half {
		if whole(half - d) {
			return out, half - d
		}
		if half+d < len(out) && whole(half+d) {
			return out, half + d
		}
	}
	return out, half
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

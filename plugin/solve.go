package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// errTooLong says that a plan took longer than its time.
var errTooLong = errors.New("planning took too long")

// work is one batch on its way to the launcher.
type work struct {
	entries []entry
	byUID   map[types.UID]entry
	// replaces is the node whose pods are planned, several separated by commas; empty for pending pods.
	replaces string
	// move says that the nodes go in a move.
	move   bool
	input  plan.Input
	world  *verify.World
	result plan.Plan
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
		entries, half := halves(entries)
		return append(p.plan(ctx, entries[:half], replaces), p.plan(ctx, entries[half:], replaces)...)
	}
	p.setAside(ctx, entries[0], err)
	return nil
}

// attempt makes and verifies one plan. A panic comes back as an error.
func (p *planner) attempt(ctx context.Context, entries []entry, replaces string) (w *work, err error) {
	defer p.metrics.simulations.begin(replaces != "", len(entries))()
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
	if err := p.solve(ctx, w); err != nil || w.replaces == "" || len(p.avoid) == 0 || len(w.result.Unplaced) == 0 {
		return w, err
	}
	// Room that goes soon is better than none.
	p.avoid = nil
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
		Snapshot: p.snapshot, Catalog: cat, DaemonSets: daemonSets, Pod: p.pod, Leave: leave, Going: namesOf(w.replaces),
		// The scheduler has tried pending pods on every node, but perhaps not on those that came a moment ago; those of
		// a node that goes it has tried nowhere.
		Kept: p.kept.on,
		Room: func(name string) bool { return w.replaces != "" && !p.avoid[name] || p.view.young(name, now) },
	})
	if err != nil {
		return err
	}
	namespaces, err := p.needs.namespaceLabels()
	if err != nil {
		return err
	}
	w.input = plan.Input{
		Now: now, Catalog: cat, Classes: p.classes(w.entries), Nodes: w.world.PlanNodes(), DaemonSets: daemonSets,
		NewName: newNames(cat), Replaces: w.replaces, Namespaces: namespaces,
		PreferenceShare: share(p.args.PreferencePercent), MinValuesBestEffort: p.args.MinValuesPolicy == minValuesBestEffort,
		Options: plan.Options{
			Budget: float64(*p.args.PlanBudget), NodeShare: share(p.args.NodeSharePercent),
			SpotShare: share(p.args.SpotSharePercent), SpotPremium: share(p.args.SpotPremiumPercent),
		},
	}
	return nil
}

// setOf is a set of the names.
func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// namesOf are the names in a list that is separated by commas.
func namesOf(list string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			out[name] = true
		}
	}
	return out
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

func (p *planner) daemonSets() ([]*appsv1.DaemonSet, error) {
	list, err := p.informer.Apps().V1().DaemonSets().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("DaemonSets: %w", err)
	}
	return list, nil
}

// solve plans until the filters agree.
func (p *planner) solve(ctx context.Context, w *work) error {
	solution, err := p.verifier.Solve(ctx, w.world, w.input, p.make)
	if err != nil {
		return err
	}
	w.result = solution.Plan
	p.metrics.rounds.Observe(float64(solution.Rounds))
	return ctx.Err()
}

// make plans with the catalogue that the last plan compiled, where it is the same, and gives up when the context ends.
func (p *planner) make(ctx context.Context, in plan.Input) (plan.Plan, error) {
	var out plan.Plan
	maker := p.maker // A plan that is given up goes on with its own.
	err := p.bounded(ctx, func() plan.Plan { return maker.Make(ctx, in) }, &out)
	if err == nil {
		p.maker = maker
	}
	return out, err
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

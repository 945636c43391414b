package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// How many plans are made to find out which preferences can be kept: fewer where a plan takes long.
const (
	preferencePlans     = 3
	manyPods            = 2000
	preferencePlansMany = 2
	// spentShare is how much of what preferences may cost is spent well enough to leave it at that, where a plan takes long; keptShare
	// how much of all preferences.
	spentShare = 0.75
	keptShare  = 0.9
	// packingNoise is how much two packings of nearly equal pods may differ: the bill of a batch says no more about the preferences of a
	// few of its pods.
	packingNoise = 0.003
)

// Make plans the pods of the input for as few USD per hour as it finds, with as many of their preferences kept as cost at
// most Input.PreferenceShare more than the pods that have them cost without. The same input gives the same plan,
// in whatever order its classes, nodes and instance types come.
//
// The steps: (1) plan without preferences, which says what may be spent on them; (2) list the preferences, each with a
// guess of what it costs, the cheapest per pod and weight first; (3) plan with as many of them as seem to be within the
// share, and with fewer or more as the bills come in; (4) say which are not kept.
func Make(ctx context.Context, in Input) Plan {
	var was []int
	in.Classes, was = Ordered(in.Classes)
	if in.maker == nil {
		in.maker = &Maker{} // A plan is made of several.
	}
	if in.budget == nil {
		in.budget = in.Options.budget(ctx)
	}
	out := byPriority(in, nil) // 1
	if in.PreferenceShare > 0 {
		out = withPreferences(in, out)
	}
	out.CutShort = in.budget.Cancelled()
	addPriorities(in, &out)
	out.Problems = problems(in, out.oversized)
	out.nameClaims(in.NewName)
	out.Restore(was)
	return out
}

func withPreferences(in Input, plain Plan) Plan {
	if plain.CostPerHour == 0 || !prefers(in) {
		return plain // Room that is there costs nothing: a tenth more of that is no node.
	}
	m := compile(in, nil, newLessons())
	budget := newSpending(m, &plain, in.PreferenceShare)
	ranking := newPreferenceCosts(m).rank(budget) // 2
	in.sketch = true
	best, lo, hi := plain, 0, len(ranking.preferences)+1
	plans := preferencePlans
	if podsOf(in) > manyPods {
		plans = preferencePlansMany
	}
	for range plans { // 3: lo preferences are known to be affordable, hi are known not to be
		if hi-lo <= 1 || in.over() {
			break
		}
		n := (lo + hi) / 2
		if lo == 0 && hi > len(ranking.preferences) {
			n = ranking.promising
		}
		limit := plain.CostPerHour*(1+packingNoise) + budget.within(ranking.preferences[:n])
		p := byPriority(in, ranking.wants(m, n))
		if hurt := worse(in, &plain, &p); len(hurt) > 0 && ranking.drop(hurt, n) {
			// Without the preferences of those that would find no node.
			hi = min(hi, len(ranking.preferences)+1)
			continue
		} else if len(hurt) > 0 || p.CostPerHour > limit {
			hi = n
			continue
		}
		best, lo = p, n
		best.kept = ranking.kept(n)
		if plans == preferencePlansMany && ranking.enough(n, p.CostPerHour-plain.CostPerHour, limit-plain.CostPerHour) {
			break
		}
	}
	best.PlainCostPerHour, best.FirstFitPerHour, best.proofs = plain.CostPerHour, plain.FirstFitPerHour, plain.proofs
	best.Ignored = ranking.ignored(lo, in.PreferenceShare) // 4
	best.reasonAs(&plain)
	return best
}

// reasonAs takes over why pods find no node from the plan without preferences: they find none there either, and preferences are no reason.
func (p *Plan) reasonAs(plain *Plan) {
	for i := range p.Unplaced {
		u := &p.Unplaced[i]
		if at := slices.IndexFunc(plain.Unplaced, func(o Unplaced) bool { return o.Class == u.Class }); at >= 0 {
			u.Reasons = plain.Unplaced[at].Reasons
		}
	}
}

// prefers says that any pod or pool may have a preference.
func prefers(in Input) bool {
	soft := func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != corev1.DoNotSchedule }
	for i := range in.Classes {
		spec := &in.Classes[i].Pod.Spec
		if slices.ContainsFunc(spec.TopologySpreadConstraints, soft) || slices.ContainsFunc(in.Classes[i].DefaultSpread, soft) {
			return true
		}
		a := spec.Affinity
		if a == nil {
			continue
		}
		if a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	for _, np := range in.Catalog.NodePools {
		if slices.ContainsFunc(np.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }) {
			return true
		}
	}
	return false
}

func podsOf(in Input) int {
	n := 0
	for _, c := range in.Classes {
		n += len(c.Pods)
	}
	return n
}

// maxPreferences is how many preferences of a pod count, the heaviest: the price of each is a question of its own, and the API server takes
// thousands of them.
const maxPreferences = 32

// requiredOnly returns a copy of the pod that has its required constraints alone.
func requiredOnly(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Spec.TopologySpreadConstraints = nil
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
			out.Spec.TopologySpreadConstraints = append(out.Spec.TopologySpreadConstraints, *c)
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		out.Spec.Affinity = &corev1.Affinity{}
		if a.NodeAffinity != nil {
			out.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
		}
		if a.PodAffinity != nil {
			out.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
		}
		if a.PodAntiAffinity != nil {
			out.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
		}
	}
	return out.DeepCopy()
}

// worse are the classes of which b places fewer pods than a.
func worse(in Input, a, b *Plan) []int {
	left := make([]int, len(in.Classes))
	for _, u := range a.Unplaced {
		left[u.Class] -= len(u.Pods)
	}
	for _, u := range b.Unplaced {
		left[u.Class] += len(u.Pods)
	}
	var out []int
	for ci, n := range left {
		if n > 0 {
			out = append(out, ci)
		}
	}
	return out
}

// ranking is the preferences of all classes in the order in which they are kept, and those that cannot be.
type ranking struct {
	all         []preference
	preferences []preference
	// promising is how many of the first preferences seem to be affordable together.
	promising int
	// omitted are the preferences that do not count.
	omitted []IgnoredPreference
	// hopeless is why a preference is not among those to be kept, by its place in all.
	hopeless map[int]string
}

// rank orders the preferences by what they seem to cost per pod and weight. Those that alone cost more than the budget, or
// that no node can meet, stay out.
func (pc *preferenceCosts) rank(budget spending) *ranking {
	r := &ranking{hopeless: map[int]string{}}
	for ci := range pc.classes {
		c := &pc.classes[ci]
		if c.broken != nil || len(c.refs) == 0 {
			continue
		}
		preferences := pc.preferences(ci)
		if len(preferences) == 0 {
			continue
		}
		if more := len(preferences) - maxPreferences; more > 0 {
			r.omitted = append(r.omitted, IgnoredPreference{
				Class: ci, Preference: catalog.CountText(more, "more preference"), Reason: fmt.Sprintf("only the %d heaviest preferences of a pod count", maxPreferences),
			})
			preferences = preferences[:maxPreferences]
		}
		kept := want{pod: requiredOnly(c.pod)}
		for _, w := range preferences {
			if pc.in.budget.Cancelled() {
				return r
			}
			w.id = len(r.all)
			r.all = append(r.all, w)
			levels, why := pc.price(&kept, w, budget)
			if why != "" {
				r.hopeless[w.id] = why
			}
			r.preferences = append(r.preferences, levels...)
		}
	}
	perPod := func(w *preference) float64 {
		return w.cost / (float64(w.weight) * float64(len(pc.classes[w.class].refs)))
	}
	slices.SortStableFunc(r.preferences, func(a, b preference) int {
		return cmp.Or(cmp.Compare(perPod(&a), perPod(&b)), cmp.Compare(b.weight, a.weight), cmp.Compare(a.class, b.class), cmp.Compare(b.skew, a.skew))
	})
	for sum := make([]float64, len(pc.classes)); r.promising < len(r.preferences); r.promising++ {
		w := &r.preferences[r.promising]
		if sum[w.class] += w.cost; sum[w.class] > budget.more[w.class] {
			break
		}
	}
	r.promising = max(r.promising, min(1, len(r.preferences)))
	return r
}

// enough reports whether the first n preferences, for which so much of what may be spent is, are worth no further plan.
func (r *ranking) enough(n int, spent, most float64) bool {
	return spent >= spentShare*most || float64(n) >= keptShare*float64(len(r.preferences))
}

// kept lists the first n preferences.
func (r *ranking) kept(n int) []keptPreference {
	var out []keptPreference
	for _, w := range r.preferences[:n] {
		out = append(out, keptPreference{w.id, w.skew})
	}
	return out
}

// keptWants returns what the classes are held to by the preferences that a plan keeps.
func (m *model) keptWants(kept []keptPreference) wants {
	r := newPreferenceCosts(m).rank(spending{more: make([]float64, len(m.classes))})
	r.preferences = nil
	for _, k := range kept {
		w := r.all[k.id]
		w.skew = k.skew
		r.preferences = append(r.preferences, w)
	}
	return r.wants(m, len(r.preferences))
}

// wants are the first n preferences.
func (r *ranking) wants(m *model, n int) wants {
	out := make(wants, len(m.classes))
	for _, w := range r.preferences[:n] {
		o := &out[w.class]
		if o.pod == nil {
			o.pod = requiredOnly(m.classes[w.class].pod)
		}
		w.grant(o)
	}
	return out
}

// drop takes the preferences of the classes out of the first n, and says whether there were any.
func (r *ranking) drop(classes []int, n int) bool {
	before := len(r.preferences)
	first := slices.DeleteFunc(slices.Clone(r.preferences[:n]), func(w preference) bool {
		if !slices.Contains(classes, w.class) {
			return false
		}
		r.hopeless[w.id] = "pods would find no node with it"
		return true
	})
	rest := slices.DeleteFunc(slices.Clone(r.preferences[n:]), func(w preference) bool { return slices.Contains(classes, w.class) })
	r.preferences, r.promising = slices.Concat(first, rest), len(first)
	return len(r.preferences) < before
}

// ignored are the preferences that are not among the first n, or only in part.
func (r *ranking) ignored(n int, share float64) []IgnoredPreference {
	skew := map[int]int{}
	for _, w := range r.preferences[:n] {
		if have, ok := skew[w.id]; !ok || w.skew < have {
			skew[w.id] = w.skew
		}
	}
	var out []IgnoredPreference
	for _, w := range r.all {
		got, ok := skew[w.id]
		why := r.hopeless[w.id]
		switch {
		case ok && (w.host == nil || got == w.host.MaxSkew):
			continue
		case ok:
			why = fmt.Sprintf("kept as at most %s per node: fewer would cost more than %s above what the pods cost without preferences", catalog.CountText(int(got), "pod"), percent(share))
		case why == "":
			why = fmt.Sprintf("it would cost more than %s above what the pods cost without preferences", percent(share))
		}
		out = append(out, IgnoredPreference{Class: w.class, Preference: w.text, Reason: why})
	}
	return append(out, r.omitted...)
}

func percent(share float64) string { return trimZeros(fmt.Sprintf("%.2f", share*100)) + "%" }

// Make plans the pods of the input.
func (k *Maker) Make(ctx context.Context, in Input) Plan {
	in.maker = k
	return Make(ctx, in)
}

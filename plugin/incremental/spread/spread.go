// Package spread is kube-scheduler's plugin PodTopologySpread with a memory. For each pod, PodTopologySpread looks at every pod of every node: once to filter
// where the pod has hard constraints, and once to score where it has others, as the pods of Services and Deployments have by default. Most pods are like the
// one before: this plugin remembers how many pods each topology has, and brings that up to date with the pods that came onto nodes and left them since.
// The answers are the same, which a test holds against PodTopologySpread.
package spread

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/plugin/incremental/check"
	"github.com/slipway-k8s/slipway/plugin/incremental/memory"
)

const (
	// Name of the plugin. A profile enables it in place of PodTopologySpread.
	Name = "IncrementalTopologySpread"
	// filtered and scored are where it keeps in a cycle what it filters and scores by.
	filtered fwk.StateKey = "PreFilter" + Name
	scored   fwk.StateKey = "PreScore" + Name
	// classes bounds the memory. By default each ReplicaSet and each Service is a class, of a few zones.
	classes = 128
)

// Plugin is PodTopologySpread for pods that it has no memory of. All other extension points are PodTopologySpread's.
type Plugin struct {
	*podtopologyspread.PodTopologySpread
	lister   fwk.SharedLister
	defaults defaults
	// remembers is false where a feature of Kubernetes is off that says which nodes count, or which pods.
	remembers bool

	memory *memory.Memory[class]
	check  check.Check
}

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
)

// New returns the factory of the plugin. It takes no args: those of PodTopologySpread have their defaults. tripped is called when the plugin stops to remember
// for a while.
func New(tripped func(name string, cause any)) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if obj != nil {
			return nil, fmt.Errorf("profile %s: %s takes no args", h.ProfileName(), Name)
		}
		features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
		made, err := podtopologyspread.New(ctx, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, h, features)
		if err != nil {
			return nil, err
		}
		stock, ok := made.(*podtopologyspread.PodTopologySpread)
		if !ok {
			return nil, fmt.Errorf("profile %s: %s is a %T", h.ProfileName(), podtopologyspread.Name, made)
		}
		p := &Plugin{
			PodTopologySpread: stock, lister: h.SnapshotSharedLister(), defaults: newDefaults(h.SharedInformerFactory()), memory: memory.New[class](Name, classes, tripped),
			remembers: features.EnableNodeInclusionPolicyInPodTopologySpread && features.EnableMatchLabelKeysInPodTopologySpread,
		}
		p.check = check.Check{Ours: p, Kubernetes: stock, Breaker: &p.memory.Breaker, Forget: p.memory.Forget}
		return p, nil
	}
}

// Name of the plugin.
func (p *Plugin) Name() string { return Name }

// PreFilterExtensions change what this plugin filters by.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// ScoreExtensions normalizes what this plugin scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// SignPod signs pods without constraints: one is placed like any other. PodTopologySpread signs none in a profile with constraints by default, which this one has;
// but they apply only to pods that a Service, a ReplicaSet or another such owner selects.
func (p *Plugin) SignPod(ctx context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.TopologySpreadConstraints) == 0 && p.defaults.leave(pod) {
		return nil, nil
	}
	return p.PodTopologySpread.SignPod(ctx, pod)
}

// class returns what is remembered for the pod's constraints, as of now, nil for nothing.
func (p *Plugin) class(state fwk.CycleState, pod *corev1.Pod, of needs, nodes []fwk.NodeInfo) (*class, error) {
	key, err := of.key(pod)
	if err != nil {
		return nil, err
	}
	known, err := p.memory.Class(key, pod.UID, func() (*class, error) { return newClass(pod, of), nil })
	if known == nil || err != nil {
		return nil, err
	}
	p.memory.Update(state, nodes)
	known.update(&p.memory.Ledger, nodes)
	return known, nil
}

// PreFilter counts the pods of each topology of the pod's hard constraints.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.memory.Rest()
	var status *fwk.Status
	remembered := false
	p.memory.Do(klog.FromContext(ctx), func() { status, remembered = p.recall(state, pod, nodes) })
	if remembered && (!status.IsSuccess() || p.check.Filters(ctx, state, pod, nodes)) {
		return nil, status
	}
	state.Delete(filtered)
	return p.PodTopologySpread.PreFilter(ctx, state, pod, nodes)
}

// recall writes what is remembered for the pod's hard constraints to the state of the cycle, brought up to date. remembered is false for a pod that is left to
// PodTopologySpread.
func (p *Plugin) recall(state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (status *fwk.Status, remembered bool) {
	of, ok := p.hard(pod)
	if !ok || state.IsPodGroupSchedulingCycle() {
		// Within the cycle of a pod group the snapshot has pods that nothing counts as a change.
		return nil, false
	}
	if len(of.constraints) == 0 {
		return fwk.NewStatus(fwk.Skip), true
	}
	c, err := p.class(state, pod, of, nodes)
	if c == nil || err != nil {
		return nil, false
	}
	state.Write(filtered, newFilter(c, pod))
	return nil, true
}

// hard returns the pod's constraints that filter; ok is false for a pod of which nothing is remembered.
func (p *Plugin) hard(pod *corev1.Pod) (of needs, ok bool) {
	// Kubernetes' defaults are for scores alone.
	of, err := needsOf(pod, corev1.DoNotSchedule)
	return of, err == nil && p.remembers && !of.taints
}

// Filter rejects the nodes on which the pod would be one too many.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	f, err := read[*filter](state, filtered)
	if err != nil {
		return p.PodTopologySpread.Filter(ctx, state, pod, node)
	}
	return f.judge(node.Node())
}

// AddPod counts a pod that may come onto a node.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	f, err := read[*filter](state, filtered)
	if err != nil {
		return p.PodTopologySpread.AddPod(ctx, state, pod, added, node)
	}
	f.add(added.GetPod(), node.Node(), 1)
	return nil
}

// RemovePod counts a pod no more that may leave a node.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	f, err := read[*filter](state, filtered)
	if err != nil {
		return p.PodTopologySpread.RemovePod(ctx, state, pod, removed, node)
	}
	f.add(removed.GetPod(), node.Node(), -1)
	return nil
}

// read returns what this plugin keeps in a cycle; an error where it keeps nothing.
func read[T fwk.StateData](state fwk.CycleState, key fwk.StateKey) (T, error) {
	data, err := state.Read(key)
	found, _ := data.(T)
	return found, err
}

// filter is what a cycle filters by. Its counts are those of the class until it changes them.
type filter struct {
	*class
	counts []*counts
	// itself is true for the constraints whose selector matches the pod.
	itself []bool
	// own is true once the counts are its own.
	own bool
}

func newFilter(of *class, pod *corev1.Pod) *filter {
	f := &filter{class: of, counts: of.counts, itself: make([]bool, len(of.constraints))}
	for i := range of.constraints {
		f.itself[i] = of.constraints[i].selector.Matches(labels.Set(pod.Labels))
	}
	return f
}

// Clone returns a filter that may be changed without a change of this one.
func (f *filter) Clone() fwk.StateData {
	out := *f
	if f.own {
		out.counts = clone(f.counts)
	}
	return &out
}

// judge returns why the pod may not come onto the node.
func (f *filter) judge(node *corev1.Node) *fwk.Status {
	for i := range f.constraints {
		of := &f.constraints[i]
		value, ok := node.Labels[of.key]
		if !ok {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, podtopologyspread.ErrReasonNodeLabelNotMatch)
		}
		with := f.counts[i].of[value]
		if f.itself[i] {
			with++
		}
		if with-f.counts[i].leastOf(int(of.minDomains)) > int(of.maxSkew) {
			return fwk.NewStatus(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch)
		}
	}
	return nil
}

// add counts a pod on a node so many times more. As in PodTopologySpread, one that terminates counts.
func (f *filter) add(pod *corev1.Pod, node *corev1.Node, times int) {
	if pod.Namespace != f.namespace || node == nil || !f.considers(node) {
		return
	}
	if !f.own {
		f.counts, f.own = clone(f.counts), true
	}
	for i := range f.constraints {
		if of := &f.constraints[i]; of.selector.Matches(labels.Set(pod.Labels)) && f.includes(of, node) {
			f.counts[i].add(node.Labels[of.key], times)
		}
	}
}

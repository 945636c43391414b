// Package affinity is kube-scheduler's plugin InterPodAffinity with a memory. For each pod, InterPodAffinity looks at every pod of every node,
// once to filter and once to score. Most pods are like the one before: this plugin remembers the counts of a class of pods, and brings them up
// to date with the pods that came onto nodes and left them since. The answers are the same, which a test holds against InterPodAffinity.
package affinity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/plugin/incremental/check"
	"github.com/slipway-k8s/slipway/plugin/incremental/ledger"
	"github.com/slipway-k8s/slipway/plugin/incremental/memory"
)

const (
	// Name of the plugin. A profile enables it in place of InterPodAffinity.
	Name = "IncrementalPodAffinity"
	// counts is where InterPodAffinity keeps in a cycle what it filters by.
	counts fwk.StateKey = "PreFilter" + interpodaffinity.Name
	// scored is where this plugin keeps in a cycle what it scores by.
	scored fwk.StateKey = "PreScore" + Name
	// HardWeight is what a required term of another pod adds to a score: InterPodAffinity's default.
	HardWeight = 1
	// classes bounds the memory: each may have the counts of every node.
	classes = 64
	// few nodes that have pods with affinity are looked at as quickly as what has changed on thousands.
	few = 64
)

// Plugin is InterPodAffinity for pods that it has no memory of. All other extension points are InterPodAffinity's.
type Plugin struct {
	*interpodaffinity.InterPodAffinity
	lister     fwk.SharedLister
	namespaces corelisters.NamespaceLister

	memory *memory.Memory[class]
	check  check.Check
}

// class is what is remembered for pods with equal labels and affinity in one namespace.
type class struct {
	// pod is the first of the class; labels are those of its namespace.
	pod    fwk.PodInfo
	labels labels.Set
	// filter is InterPodAffinity's state, nil for none, and filterAt the state of the cluster that it counts.
	filter   fwk.StateData
	filterAt ledger.Mark
	// score is nil for none.
	score   scores
	scoreAt ledger.Mark
}

var (
	_ fwk.PreFilterPlugin = &Plugin{}
	_ fwk.FilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin  = &Plugin{}
	_ fwk.ScorePlugin     = &Plugin{}
	_ fwk.SignPlugin      = &Plugin{}
)

// New returns the factory of the plugin. It takes no args: those of InterPodAffinity have their defaults. tripped is called when the plugin stops to remember
// for a while.
func New(tripped func(name string, cause any)) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if obj != nil {
			return nil, fmt.Errorf("profile %s: %s takes no args", h.ProfileName(), Name)
		}
		args := &config.InterPodAffinityArgs{HardPodAffinityWeight: HardWeight}
		made, err := interpodaffinity.New(ctx, args, h, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		if err != nil {
			return nil, err
		}
		stock, ok := made.(*interpodaffinity.InterPodAffinity)
		if !ok {
			return nil, fmt.Errorf("profile %s: %s is a %T", h.ProfileName(), interpodaffinity.Name, made)
		}
		p := &Plugin{
			InterPodAffinity: stock, lister: h.SnapshotSharedLister(), namespaces: h.SharedInformerFactory().Core().V1().Namespaces().Lister(),
			memory: memory.New[class](Name, classes, tripped),
		}
		p.check = check.Check{Ours: p, Kubernetes: stock, Breaker: &p.memory.Breaker, Forget: p.memory.Forget}
		return p, nil
	}
}

// Name of the plugin.
func (p *Plugin) Name() string { return Name }

// ScoreExtensions normalizes what this plugin scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// PreFilter counts the pods that the pod's terms match, and the pods whose terms match it.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.memory.Rest()
	if !required(pod) || state.IsPodGroupSchedulingCycle() {
		// Within the cycle of a pod group the snapshot has pods that nothing counts as a change.
		return p.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	var of *class
	remembered := false
	p.memory.Do(klog.FromContext(ctx), func() { of, remembered = p.recall(ctx, state, pod, nodes) })
	if remembered && p.check.Filters(ctx, state, pod, nodes) {
		return nil, nil
	}
	result, status := p.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	if of != nil && !remembered && status.IsSuccess() && result == nil {
		p.memory.Do(klog.FromContext(ctx), func() { p.remember(state, pod, of) })
	}
	return result, status
}

// recall writes what is remembered for the pod's class to the state of the cycle, brought up to date. It returns the class, nil for none, and whether there was
// something.
func (p *Plugin) recall(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (of *class, remembered bool) {
	of, err := p.class(pod)
	if of == nil || err != nil {
		return nil, false
	}
	p.memory.Update(state, nodes)
	changes, ok := p.memory.Ledger.Since(of.filterAt)
	if !ok || of.filter == nil {
		return of, false
	}
	counted := framework.NewCycleState()
	counted.Write(counts, of.filter)
	for _, c := range changes {
		if c.Pod == nil {
			continue // A node without pods counts for nothing.
		}
		apply := p.AddPod
		if c.Left {
			apply = p.RemovePod
		}
		if status := apply(ctx, counted, pod, c.Pod, on{node: c.Node}); !status.IsSuccess() {
			of.filter = nil
			return of, false
		}
	}
	of.filterAt = p.memory.Ledger.Now()
	state.Write(counts, of.filter.Clone())
	return of, true
}

// remember keeps what InterPodAffinity has written to the state of a cycle in which recall found the class, and nothing remembered of it. What it counted is not of
// that class if the labels of the namespace have changed meanwhile.
func (p *Plugin) remember(state fwk.CycleState, pod *corev1.Pod, of *class) {
	data, err := state.Read(counts)
	if now, _ := p.class(pod); err != nil || now != of || !p.memory.Current(state) {
		return
	}
	of.filter, of.filterAt = data.Clone(), p.memory.Ledger.Now()
}

// on is a node as it was when a pod came to it or left it. Nothing but the node is asked of it.
type on struct {
	fwk.NodeInfo
	node *corev1.Node
}

// Node returns the node.
func (o on) Node() *corev1.Node { return o.node }

// class returns what is remembered for the pod's class; nil for a pod of which nothing is.
func (p *Plugin) class(pod *corev1.Pod) (*class, error) {
	namespace, err := p.namespaces.Get(pod.Namespace)
	if err != nil || selectsNamespaces(pod) {
		// Which namespaces a selector selects may change at any time.
		return nil, err
	}
	key, err := memory.KeyOf(struct {
		Namespace, Version string
		Labels             map[string]string
		Affinity           *corev1.PodAffinity
		AntiAffinity       *corev1.PodAntiAffinity
	}{pod.Namespace, namespace.ResourceVersion, pod.Labels, affinityOf(pod).PodAffinity, affinityOf(pod).PodAntiAffinity})
	if err != nil {
		return nil, err
	}
	return p.memory.Class(key, pod.UID, func() (*class, error) {
		info, err := framework.NewPodInfo(pod)
		return &class{pod: info, labels: namespace.Labels}, err
	})
}

// affinityOf returns the pod's affinity, empty for none.
func affinityOf(pod *corev1.Pod) corev1.Affinity {
	if pod.Spec.Affinity == nil {
		return corev1.Affinity{}
	}
	return *pod.Spec.Affinity
}

// required reports whether the pod has terms that filter nodes.
func required(pod *corev1.Pod) bool {
	a := affinityOf(pod)
	return a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// prefers reports whether the pod has terms that only score nodes.
func prefers(pod *corev1.Pod) bool {
	a := affinityOf(pod)
	return a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

// selectsNamespaces reports whether a term of the pod selects namespaces by their labels.
func selectsNamespaces(pod *corev1.Pod) bool {
	a := affinityOf(pod)
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	for _, t := range terms {
		if t.NamespaceSelector != nil {
			return true
		}
	}
	return false
}

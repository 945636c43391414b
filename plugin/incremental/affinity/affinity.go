// Package affinity is kube-scheduler's plugin InterPodAffinity with a memory. For each pod, InterPodAffinity looks at every pod of every node,
// once to filter and once to score. Most pods are like the one before: this plugin remembers the counts of a class of pods, and brings them up
// to date with the pods that came onto nodes and left them since. The answers are the same, which a test holds against InterPodAffinity.
package affinity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

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

	"github.com/slipway-k8s/slipway/plugin/breaker"
	"github.com/slipway-k8s/slipway/plugin/incremental/check"
	"github.com/slipway-k8s/slipway/plugin/incremental/ledger"
)

const (
	// Name of the plugin. A profile enables it in place of InterPodAffinity.
	Name = "IncrementalPodAffinity"
	// counts is where InterPodAffinity keeps in a cycle what it filters by.
	counts fwk.StateKey = "PreFilter" + interpodaffinity.Name
	// scored is where this plugin keeps in a cycle what it scores by.
	scored fwk.StateKey = "PreScore" + Name
	// updated is where it keeps in a cycle the state of the cluster to which the ledger was brought up to date in it.
	updated fwk.StateKey = "Ledger" + Name
	// HardWeight is what a required term of another pod adds to a score: InterPodAffinity's default.
	HardWeight = 1
	// maxClasses bounds the memory. When there are more, all are forgotten.
	maxClasses = 64
	// few nodes that have pods with affinity are looked at as quickly as what has changed on thousands.
	few = 64
)

// Plugin is InterPodAffinity for pods that it has no memory of. All other extension points are InterPodAffinity's.
type Plugin struct {
	*interpodaffinity.InterPodAffinity
	lister     fwk.SharedLister
	namespaces corelisters.NamespaceLister

	breaker breaker.Breaker
	check   check.Check

	mu      sync.Mutex
	ledger  ledger.Ledger
	classes map[[sha256.Size]byte]*class
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
			classes: map[[sha256.Size]byte]*class{}, breaker: breaker.Breaker{Name: Name, Tripped: tripped},
		}
		p.check = check.Check{Ours: p, Kubernetes: stock, Breaker: &p.breaker}
		return p, nil
	}
}

// Name of the plugin.
func (p *Plugin) Name() string { return Name }

// ScoreExtensions normalizes what this plugin scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// PreFilter counts the pods that the pod's terms match, and the pods whose terms match it.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !required(pod) || state.IsPodGroupSchedulingCycle() {
		// Within the cycle of a pod group the snapshot has pods that nothing counts as a change.
		return p.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	remembered := false
	if ran := p.breaker.Do(klog.FromContext(ctx), func() { remembered = p.recall(ctx, state, pod, nodes) }); !ran {
		p.forget()
	}
	if remembered {
		if p.check.Filters(ctx, state, pod, nodes) {
			return nil, nil
		}
		p.forget()
	}
	result, status := p.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	if status.IsSuccess() && result == nil {
		p.remember(ctx, state, pod)
	}
	return result, status
}

// recall writes what is remembered for the pod's class to the state of the cycle, brought up to date. It reports whether there was something.
func (p *Plugin) recall(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, err := p.class(ctx, pod)
	if of == nil || err != nil {
		return false
	}
	p.ledger.Update(nodes)
	state.Write(updated, p.ledger.Now())
	changes, ok := p.ledger.Since(of.filterAt)
	if !ok || of.filter == nil {
		return false
	}
	remembered := framework.NewCycleState()
	remembered.Write(counts, of.filter)
	for _, c := range changes {
		if c.Pod == nil {
			continue // A node without pods counts for nothing.
		}
		apply := p.AddPod
		if c.Left {
			apply = p.RemovePod
		}
		if status := apply(ctx, remembered, pod, c.Pod, on{node: c.Node}); !status.IsSuccess() {
			of.filter = nil
			return false
		}
	}
	of.filterAt = p.ledger.Now()
	state.Write(counts, of.filter.Clone())
	return true
}

// remember keeps what InterPodAffinity has written to the state of a cycle in which recall had nothing.
func (p *Plugin) remember(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) {
	data, err := state.Read(counts)
	if err != nil {
		return
	}
	p.breaker.Do(klog.FromContext(ctx), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if of, err := p.class(ctx, pod); of != nil && err == nil {
			of.filter, of.filterAt = data.Clone(), p.ledger.Now()
		}
	})
}

// forget gives up all memory.
func (p *Plugin) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger = ledger.Ledger{}
	clear(p.classes)
}

// on is a node as it was when a pod came to it or left it. Nothing but the node is asked of it.
type on struct {
	fwk.NodeInfo
	node *corev1.Node
}

// Node returns the node.
func (o on) Node() *corev1.Node { return o.node }

// class returns what is remembered for the pod's class; nil for a pod of which nothing can be.
func (p *Plugin) class(ctx context.Context, pod *corev1.Pod) (*class, error) {
	namespace, err := p.namespaces.Get(pod.Namespace)
	if err != nil || selectsNamespaces(pod) {
		// Which namespaces a selector selects may change at any time.
		return nil, err
	}
	needs, err := json.Marshal(struct {
		Namespace, Version string
		Labels             map[string]string
		Affinity           *corev1.PodAffinity
		AntiAffinity       *corev1.PodAntiAffinity
	}{pod.Namespace, namespace.ResourceVersion, pod.Labels, affinityOf(pod).PodAffinity, affinityOf(pod).PodAntiAffinity})
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(needs)
	if known := p.classes[key]; known != nil {
		return known, nil
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	if len(p.classes) >= maxClasses {
		clear(p.classes)
	}
	made := &class{pod: info, labels: interpodaffinity.GetNamespaceLabelsSnapshot(klog.FromContext(ctx), pod.Namespace, p.namespaces)}
	p.classes[key] = made
	return made, nil
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

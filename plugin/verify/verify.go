package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// Config is what a Verifier needs.
type Config struct {
	// Profiles of the scheduler. Required.
	Profiles []config.KubeSchedulerProfile
	// Without names the plugins that verification leaves out: slipway's own.
	Without []string
	// OutOfTree are the plugins that the scheduler was built with; nil for none.
	OutOfTree frameworkruntime.Registry
	// Extenders of the scheduler; nil for none.
	Extenders []config.Extender
	// Informers of the scheduler; not started yet. Required.
	Informers informers.SharedInformerFactory
	// Client of the scheduler. Required.
	Client clientset.Interface
	// DRA is the scheduler's own manager; nil leaves out the plugin DynamicResources.
	DRA fwk.SharedDRAManager
	// Slices returns the ResourceSlices that a node of an EC2NodeClass and instance type would have under a name; nil for none.
	Slices func(nodeClass, instanceType, node string) []*resourcev1.ResourceSlice
	// CSI is the scheduler's own manager; nil if it has none.
	CSI fwk.CSIManager
}

// Verifier asks the profiles' filters about plans.
type Verifier struct {
	lister   *swappable
	capacity storageCapacity
	devices  *virtualDevices
	profiles map[string]profile
	// extenders are asked after the filters.
	extenders []*extender
	// further are the profiles with filters that are not Kubernetes' own, by name.
	further map[string]bool
}

// New builds one framework per profile; they live until the context ends. The informers must not have been started, since the
// plugins get their listers here.
func New(ctx context.Context, cfg Config) (*Verifier, error) {
	switch {
	case len(cfg.Profiles) == 0:
		return nil, errors.New("verify: Profiles are required")
	case cfg.Informers == nil || cfg.Client == nil:
		return nil, errors.New("verify: Informers and Client are required")
	}
	registry := frameworkplugins.NewInTreeRegistry()
	err := registry.Merge(cfg.OutOfTree)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	v := &Verifier{lister: &swappable{}, profiles: map[string]profile{}, further: map[string]bool{}}
	if v.extenders, err = newExtenders(cfg.Extenders); err != nil {
		return nil, err
	}
	v.lister.target = newOverlay(emptyLister{}, nil)
	leave := slices.Clone(cfg.Without)
	var dra fwk.SharedDRAManager
	if cfg.DRA != nil {
		v.devices = &virtualDevices{SharedDRAManager: cfg.DRA, of: cfg.Slices}
		dra = v.devices
	} else {
		leave = append(leave, names.DynamicResources)
	}
	build := func(of *config.KubeSchedulerProfile) (framework.Framework, error) {
		return frameworkruntime.NewFramework(ctx, registry, of,
			frameworkruntime.WithSnapshotSharedLister(v.lister),
			frameworkruntime.WithInformerFactory(capacityInformers{cfg.Informers, &v.capacity}),
			frameworkruntime.WithClientSet(cfg.Client),
			frameworkruntime.WithSharedDRAManager(dra),
			frameworkruntime.WithSharedCSIManager(attachLimits{cfg.CSI, v.lister}),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
			frameworkruntime.WithParallelism(1),
		)
	}
	for i := range cfg.Profiles {
		name := cfg.Profiles[i].SchedulerName
		if v.profiles[name], err = newProfile(build, &cfg.Profiles[i], leave); err != nil {
			return nil, fmt.Errorf("verify: framework of profile %s: %w", name, err)
		}
		v.further[name] = v.profiles[name].further()
	}
	return v, nil
}

// Verdict is a rejection with the pods that it is about.
type Verdict struct {
	// Rejection has no ClassKey where it is about these pods alone, whichever node they are on: others of their class may have a place.
	plan.Rejection
	// Class is the index of the pods' class.
	Class int
	// Pods that the rejection is about.
	Pods []catalog.PodRef
}

// Result is the filters' answer about a plan.
type Result struct {
	// Verdicts are the rejections. None means that all claims may be launched as expected.
	Verdicts []Verdict
	// Bad are the alternatives that would not run their claim's pods, by index of the claim; nil while there are Verdicts.
	Bad map[int][]plan.Offer
	// Unchecked are the indices of the classes about which the filters were not asked, because the context ended.
	Unchecked []int
	// UncheckedClaims are the indices of the claims whose alternatives the filters were not asked about, because the context
	// ended or a class is unchecked.
	UncheckedClaims []int
}

// Check asks the filters about the plan. The classes are those of the plan's input. When the context ends, Check returns what it
// has asked so far and lists the rest as unchecked; that is no error.
func (v *Verifier) Check(ctx context.Context, view *clusterview.View, classes []plan.Class, p plan.Plan, cat catalog.State) (Result, error) {
	scene, err := newScene(ctx, view, classes, p, cat)
	switch {
	case ctx.Err() != nil:
		return Result{Unchecked: placed(p)}, nil
	case err != nil:
		return Result{}, err
	}
	all := newOverlay(view.Base(), scene.nodes())
	all.attach = attachLimitsOf(cat, p.Claims)
	v.lister.target = all
	v.devices.put(p.Claims, classes, cat)
	defer func() {
		v.lister.target = newOverlay(emptyLister{}, nil)
		v.devices.put(nil, nil, cat)
	}()
	out := Result{Verdicts: scene.sharing()}
	asked, among := map[int]*trial{}, shared{}
	for _, c := range heavyLast(scene.order, classes) {
		if ctx.Err() != nil {
			out.Unchecked = append(out.Unchecked, c)
			continue
		}
		t, rejected, err := v.preFilter(ctx, scene, c, among)
		if t != nil && err == nil {
			asked[c] = t
			rejected, err = v.class(ctx, t)
		}
		switch {
		case ctx.Err() != nil: // Plugins that were interrupted may have answered for half of the nodes.
			out.Unchecked = append(out.Unchecked, c)
		case err != nil:
			return Result{}, err
		default:
			out.Verdicts = append(out.Verdicts, rejected...)
		}
	}
	if len(out.Verdicts) == 0 {
		err = v.alternatives(ctx, scene, asked, &out)
	}
	return out, err
}

// placed returns the classes for which the plan has a place, sorted.
func placed(p plan.Plan) []int {
	out := map[int]bool{}
	for i := range p.Claims {
		for _, m := range p.Claims[i].Members {
			out[m.Class] = true
		}
	}
	for i := range p.Placements {
		for _, m := range p.Placements[i].Members {
			out[m.Class] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// manyTerms is the number of constraints and terms from which a class is asked about after the others: a pod with many of them
// takes no time from the pods of other users.
const manyTerms = 32

// heavyLast moves the classes with many constraints and terms to the end, those with the fewest first.
func heavyLast(order []int, classes []plan.Class) []int {
	weight := make(map[int]int, len(order))
	for _, c := range order {
		if n := terms(classes[c].Pod); n >= manyTerms {
			weight[c] = n
		}
	}
	if len(weight) == 0 {
		return order
	}
	return slices.SortedStableFunc(slices.Values(order), func(a, b int) int { return cmp.Compare(weight[a], weight[b]) })
}

// terms counts the constraints and terms of a pod that the filters evaluate.
func terms(pod *corev1.Pod) int {
	n := len(pod.Spec.TopologySpreadConstraints) + len(pod.Spec.Tolerations) + len(requiredTerms(pod))
	a := pod.Spec.Affinity
	if a == nil {
		return n
	}
	if a.PodAffinity != nil {
		n += len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		n += len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		n += len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	}
	return n
}

// class checks one pod of the class on each node that the plan uses for it.
func (v *Verifier) class(ctx context.Context, t *trial) ([]Verdict, error) {
	var out []Verdict
	var fine []*spot
	for _, spot := range t.scene.spots[t.index] {
		node := spot.node.Node().Name
		if !t.nodes.AllNodes() && !t.nodes.NodeNames.Has(node) {
			out = append(out, Verdict{spot.reject(t.class, "the pod is pinned to other nodes", ""), t.index, spot.refs})
			continue
		}
		select {
		case <-ctx.Done():
			return nil, nil
		default:
		}
		status, err := v.filter(ctx, t, spot, nil)
		if err != nil {
			return nil, err
		}
		if !status.IsSuccess() {
			for _, r := range v.narrow(ctx, t, spot, status) {
				out = append(out, Verdict{r, t.index, spot.refs})
			}
			continue
		}
		fine = append(fine, spot)
	}
	return append(out, v.extend(ctx, t, fine)...), nil
}

// filter asks whether one pod of the spot's class may be on the spot's node. Everything is in place but the pod itself and those
// for which leave is true. State and node are changed for the question and changed back: a copy costs time for every node.
func (v *Verifier) filter(ctx context.Context, t *trial, s *spot, leave func(types.UID) bool) (_ *fwk.Status, err error) {
	self := s.pods[0]
	gone := []fwk.PodInfo{self}
	if leave != nil {
		for _, other := range s.node.Pods {
			if uid := other.GetPod().UID; uid != self.Pod.UID && leave(uid) {
				gone = append(gone, other)
			}
		}
	}
	defer func() {
		for _, p := range slices.Backward(gone) {
			s.node.AddPodInfo(p)
			err = errors.Join(err, t.count(ctx, self.Pod, p, s.node, true))
		}
	}()
	for i, p := range gone {
		if err := s.node.RemovePod(klog.FromContext(ctx), p.GetPod()); err != nil {
			gone = gone[:i]
			return nil, err
		}
		if err := t.count(ctx, self.Pod, p, s.node, false); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(gone, takesPorts) {
		keepPorts(s.node)
	}
	return t.ask(ctx, self.Pod, s.node)
}

// keepPorts adds the host ports of the node's pods again. A NodeInfo does not count ports: when the first of two pods with the
// same port is removed, the port is lost.
func keepPorts(node *framework.NodeInfo) {
	for _, p := range node.Pods {
		for _, port := range schedutil.GetHostPorts(p.GetPod()) {
			node.UsedPorts.Add(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
}

func takesPorts(p fwk.PodInfo) bool { return len(schedutil.GetHostPorts(p.GetPod())) > 0 }

func reason(status *fwk.Status) string {
	return fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
}

// renamed returns the class's pod as one of its members, with the parsed affinity terms shared.
func renamed(of *framework.PodInfo, ref catalog.PodRef) *framework.PodInfo {
	of.CalculateResource() // once for all: it is kept in what is copied
	if own := of.Pod; own.Namespace == ref.Namespace && own.Name == ref.Name && string(own.UID) == ref.UID && own.Spec.NodeName == "" {
		return of
	}
	pod := *of.Pod
	pod.Namespace, pod.Name, pod.UID = ref.Namespace, ref.Name, types.UID(ref.UID)
	pod.Spec.NodeName = ""
	info := *of
	info.Pod = &pod
	return &info
}

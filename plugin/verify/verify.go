package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
)

// Config is what a Verifier needs.
type Config struct {
	// Profiles of the scheduler. Required.
	Profiles []config.KubeSchedulerProfile
	// Without names the plugins that verification leaves out: slipway's own.
	Without []string
	// OutOfTree are the plugins that the scheduler was built with; nil for none.
	OutOfTree frameworkruntime.Registry
	// Informers of the scheduler; not started yet. Required.
	Informers informers.SharedInformerFactory
	// Client of the scheduler. Required.
	Client clientset.Interface
	// DRA is the scheduler's own; nil leaves out the plugin DynamicResources.
	DRA fwk.SharedDRAManager
	// CSI is the scheduler's own; nil where it has none.
	CSI fwk.CSIManager
}

// Verifier asks the profiles' filters about plans.
type Verifier struct {
	lister     *swappable
	frameworks map[string]framework.Framework
}

// New builds one framework per profile; they live until the context ends. Informers must not have been started, since
// plugins take their listers now.
func New(ctx context.Context, cfg Config) (*Verifier, error) {
	switch {
	case len(cfg.Profiles) == 0:
		return nil, errors.New("verify: Profiles are required")
	case cfg.Informers == nil || cfg.Client == nil:
		return nil, errors.New("verify: Informers and Client are required")
	}
	registry := frameworkplugins.NewInTreeRegistry()
	if err := registry.Merge(cfg.OutOfTree); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	v := &Verifier{lister: &swappable{}, frameworks: map[string]framework.Framework{}}
	v.lister.target = newOverlay(emptyLister{}, nil)
	leave := slices.Clone(cfg.Without)
	if cfg.DRA == nil {
		leave = append(leave, names.DynamicResources)
	}
	for i := range cfg.Profiles {
		profile := stripped(&cfg.Profiles[i], leave)
		options := []frameworkruntime.Option{
			frameworkruntime.WithSnapshotSharedLister(v.lister),
			frameworkruntime.WithInformerFactory(cfg.Informers),
			frameworkruntime.WithClientSet(cfg.Client),
			frameworkruntime.WithSharedDRAManager(cfg.DRA),
			frameworkruntime.WithSharedCSIManager(attachLimits{cfg.CSI, v.lister}),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
			frameworkruntime.WithParallelism(1),
		}
		fw, err := frameworkruntime.NewFramework(ctx, registry, profile, options...)
		if err != nil {
			return nil, fmt.Errorf("verify: framework of profile %s: %w", profile.SchedulerName, err)
		}
		v.frameworks[profile.SchedulerName] = fw
	}
	return v, nil
}

// stripped is the profile without PostFilter and without the named plugins.
func stripped(profile *config.KubeSchedulerProfile, leave []string) *config.KubeSchedulerProfile {
	drop := map[string]bool{}
	for _, n := range leave {
		drop[n] = true
	}
	out := profile.DeepCopy()
	if out.Plugins != nil {
		p := out.Plugins
		for _, set := range []*config.PluginSet{
			&p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore, &p.Score, &p.Reserve,
			&p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.MultiPoint, &p.PlacementGenerate, &p.PlacementScore,
		} {
			var keep []config.Plugin
			for _, e := range set.Enabled {
				if !drop[e.Name] {
					keep = append(keep, e)
				}
			}
			set.Enabled = keep
		}
		p.PostFilter = config.PluginSet{Disabled: []config.Plugin{{Name: "*"}}}
	}
	var args []config.PluginConfig
	for _, a := range out.PluginConfig {
		if !drop[a.Name] {
			args = append(args, a)
		}
	}
	out.PluginConfig = args
	return out
}

// Check asks the filters about the plan, and returns what they reject; nothing means that all may be launched as
// expected. The classes are those of the plan's input. Solve asks about the claims' alternatives too.
func (v *Verifier) Check(ctx context.Context, w *World, classes []plan.Class, p plan.Plan, cat catalog.State) ([]plan.Rejection, error) {
	found, err := v.check(ctx, w, classes, p, cat)
	if len(found.verdicts) == 0 {
		return nil, err
	}
	out := make([]plan.Rejection, len(found.verdicts))
	for i := range found.verdicts {
		out[i] = found.verdicts[i].Rejection
	}
	return out, err
}

// judgement is what the filters say of a plan.
type judgement struct {
	verdicts []verdict
	// bad are the alternatives that would not run their claim's pods, by index of the claim; nil while there are verdicts.
	bad map[int][]plan.Offer
}

func (v *Verifier) check(ctx context.Context, w *World, classes []plan.Class, p plan.Plan, cat catalog.State) (judgement, error) {
	scene, err := newScene(w, classes, p, cat)
	if err != nil {
		return judgement{}, err
	}
	all := newOverlay(w.base, scene.nodes())
	all.attach = scene.attachLimits(cat)
	v.lister.target = all
	defer func() { v.lister.target = newOverlay(emptyLister{}, nil) }()
	var out judgement
	asked := map[int]*trial{}
	for _, c := range scene.order {
		rejected, err := v.class(ctx, scene, c, asked)
		if err != nil {
			return judgement{}, err
		}
		out.verdicts = append(out.verdicts, rejected...)
	}
	if len(out.verdicts) == 0 {
		out.bad, err = v.alternatives(ctx, scene, asked)
	}
	return out, err
}

// trial is what the filters are asked with: the class and its state after PreFilter.
type trial struct {
	fw    framework.Framework
	state fwk.CycleState
	class plan.Class
	scene *scene
}

// class checks one pod of the class on each node that the plan uses for it, and adds the trial to those asked.
func (v *Verifier) class(ctx context.Context, s *scene, index int, all map[int]*trial) ([]verdict, error) {
	class := s.classes[index]
	fw, ok := v.frameworks[class.Pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("pod %s: no profile is named %q", klog.KObj(class.Pod), class.Pod.Spec.SchedulerName)
	}
	state := framework.NewCycleState()
	result, status, _ := fw.RunPreFilterPlugins(ctx, state, class.Pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, fmt.Errorf("pod %s: PreFilter: %w", klog.KObj(class.Pod), status.AsError())
		}
		// The whole class, wherever it goes.
		return []verdict{{plan.Rejection{ClassKey: class.Key, Reason: reason(status)}, index, class.Pods}}, nil
	}
	asked := &trial{fw: fw, state: state, class: class, scene: s}
	all[index] = asked
	var out []verdict
	for _, spot := range s.spots[index] {
		node := spot.node.Node().Name
		if !result.AllNodes() && !result.NodeNames.Has(node) {
			out = append(out, verdict{spot.reject(class, "the pod is pinned to other nodes", ""), index, spot.refs})
			continue
		}
		status, err := v.filter(ctx, asked, spot, nil)
		if err != nil {
			return nil, err
		}
		if !status.IsSuccess() {
			for _, r := range v.narrow(ctx, asked, spot, status) {
				out = append(out, verdict{r, index, spot.refs})
			}
		}
	}
	return out, nil
}

// filter asks whether one pod of the spot's class may be on the spot's node with everything in place but the pod itself
// and those for which leave is true. State and node are changed for the question and changed back: to copy them costs as
// much as there are nodes.
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
		for i := len(gone) - 1; i >= 0; i-- {
			s.node.AddPodInfo(gone[i])
			if st := t.fw.RunPreFilterExtensionAddPod(ctx, t.state, self.Pod, gone[i], s.node); !st.IsSuccess() && err == nil {
				err = fmt.Errorf("pod %s: putting it back on node %s: %w", klog.KObj(self.Pod), s.node.Node().Name, st.AsError())
			}
		}
	}()
	for i, p := range gone {
		st, bad := t.remove(ctx, self.Pod, p, s.node)
		if bad != nil {
			gone = gone[:i]
			return nil, bad
		}
		if !st.IsSuccess() {
			return nil, fmt.Errorf("pod %s: taking it off node %s: %w", klog.KObj(self.Pod), s.node.Node().Name, st.AsError())
		}
	}
	if slices.ContainsFunc(gone, takesPorts) {
		keepPorts(s.node)
	}
	status := t.fw.RunFilterPlugins(ctx, t.state, self.Pod, s.node)
	if !status.IsSuccess() && !status.IsRejected() {
		return nil, fmt.Errorf("pod %s on node %s: %w", klog.KObj(self.Pod), s.node.Node().Name, status.AsError())
	}
	return status, nil
}

// remove takes a pod off the node, and out of what PreFilter counted.
func (t *trial) remove(ctx context.Context, asked *corev1.Pod, p fwk.PodInfo, node *framework.NodeInfo) (*fwk.Status, error) {
	if err := node.RemovePod(klog.FromContext(ctx), p.GetPod()); err != nil {
		return nil, err
	}
	return t.fw.RunPreFilterExtensionRemovePod(ctx, t.state, asked, p, node), nil
}

// keepPorts enters the host ports of the node's pods again: a port that two of them use was dropped with the first that
// was taken off, since a NodeInfo does not count them.
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

// renamed is the class's pod as one of its members, with the parsed affinity terms shared.
func renamed(of *framework.PodInfo, ref catalog.PodRef) *framework.PodInfo {
	of.CalculateResource() // once for all: it is kept in what is copied
	pod := *of.Pod
	pod.Namespace, pod.Name, pod.UID = ref.Namespace, ref.Name, types.UID(ref.UID)
	pod.Spec.NodeName = ""
	info := *of
	info.Pod = &pod
	return &info
}

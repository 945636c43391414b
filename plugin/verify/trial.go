package verify

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// trial is the state for questions about one class: what PreFilter counted for it.
type trial struct {
	scene    *scene
	capacity *storageCapacity
	class    plan.Class
	index    int
	// nodes are those that PreFilter leaves; nil for all.
	nodes *fwk.PreFilterResult
	// asked are the parts of the profile, each with its own cycle state, in the profile's order.
	asked []*part
	// refused are the ways in which EC2 may launch the claims that extenders refuse, or were not asked about; nil without extenders.
	refused map[*variant]bool
}

// part is a framework after PreFilter.
type part struct {
	fw    framework.Framework
	state fwk.CycleState
}

// partKey names a part that looks at all nodes: its plugin, and the plugin's key of the pods that it serves.
type partKey struct{ plugin, pods string }

// shared caches the parts that look at all nodes. They are expensive, and the same for many classes.
type shared map[partKey]*part

// preFilter runs the profile's PreFilter plugins for the class. It returns a trial, or the verdicts if they reject the class on
// all nodes.
func (v *Verifier) preFilter(ctx context.Context, s *scene, index int, known shared) (*trial, []Verdict, error) {
	class := s.classes[index]
	p, ok := v.profiles[class.Pod.Spec.SchedulerName]
	if !ok {
		return nil, nil, fmt.Errorf("pod %s: no profile is named %q", klog.KObj(class.Pod), class.Pod.Spec.SchedulerName)
	}
	t := &trial{scene: s, capacity: &v.capacity, class: class, index: index}
	s.shareHost(index)
	rejected, err := t.begin(ctx, p.own, class.Pod)
	for _, among := range p.among {
		if rejected != nil || err != nil {
			break
		}
		key := partKey{among.name, among.key(class.Pod)}
		if have := known[key]; have != nil {
			t.asked = append(t.asked, have)
			continue
		}
		if rejected, err = t.begin(ctx, among.fw, countingNone(class.Pod)); rejected == nil && err == nil {
			known[key] = t.asked[len(t.asked)-1]
		}
	}
	if rejected != nil || err != nil {
		return nil, rejected, err
	}
	return t, nil, nil
}

// countingNone returns the pod without those selectors of its topology spread that are empty. PodTopologySpread counts no pods for either, but takes pods
// that come or go for counted by an empty one.
func countingNone(pod *corev1.Pod) *corev1.Pod {
	has := func(key string) bool { _, ok := pod.Labels[key]; return ok }
	empty := func(c corev1.TopologySpreadConstraint) bool {
		s := c.LabelSelector
		return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 && !slices.ContainsFunc(c.MatchLabelKeys, has)
	}
	if !slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, empty) {
		return pod
	}
	out := *pod
	out.Spec.TopologySpreadConstraints = slices.Clone(pod.Spec.TopologySpreadConstraints)
	for i, c := range out.Spec.TopologySpreadConstraints {
		if empty(c) {
			out.Spec.TopologySpreadConstraints[i].LabelSelector = nil
		}
	}
	return &out
}

// begin runs the framework's PreFilter plugins for the class's pod, and adds the framework to the trial.
func (t *trial) begin(ctx context.Context, fw framework.Framework, pod *corev1.Pod) ([]Verdict, error) {
	one := &part{fw: fw, state: framework.NewCycleState()}
	result, status, _ := fw.RunPreFilterPlugins(ctx, one.state, pod)
	switch {
	case status.IsSuccess():
		t.asked, t.nodes = append(t.asked, one), t.nodes.Merge(result)
		return nil, nil
	case status.IsRejected():
		return []Verdict{{plan.Rejection{ClassKey: t.class.Key, Reason: reason(status)}, t.index, t.class.Pods}}, nil
	}
	return nil, fmt.Errorf("pod %s: PreFilter: %w", klog.KObj(t.class.Pod), status.AsError())
}

// count adds a pod that was put on the node to what PreFilter counted, or subtracts one that was removed.
func (t *trial) count(ctx context.Context, asked *corev1.Pod, p fwk.PodInfo, node *framework.NodeInfo, came bool) error {
	for _, one := range t.asked {
		run := one.fw.RunPreFilterExtensionRemovePod
		if came {
			run = one.fw.RunPreFilterExtensionAddPod
		}
		if st := run(ctx, one.state, asked, p, node); !st.IsSuccess() {
			return fmt.Errorf("pod %s: counting pod %s on node %s: %w", klog.KObj(asked), klog.KObj(p.GetPod()), node.Node().Name, st.AsError())
		}
	}
	return nil
}

// ask runs the filters. It returns success or a rejection.
func (t *trial) ask(ctx context.Context, pod *corev1.Pod, node *framework.NodeInfo) (*fwk.Status, error) {
	t.capacity.unknown = virtual(node.Node())
	for _, one := range t.asked {
		status := one.fw.RunFilterPlugins(ctx, one.state, pod, node)
		switch {
		case status.IsSuccess():
		case status.IsRejected():
			return status, nil
		default:
			return nil, fmt.Errorf("pod %s on node %s: %w", klog.KObj(pod), node.Node().Name, status.AsError())
		}
	}
	return nil, nil
}

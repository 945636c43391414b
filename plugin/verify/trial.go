package verify

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// trial is what the filters are asked with: the class and what PreFilter counted for it.
type trial struct {
	scene *scene
	class plan.Class
	index int
	// nodes that PreFilter leaves; nil for all.
	nodes *fwk.PreFilterResult
	// asked are the parts of the profile, each with its own state, in the order of the profile.
	asked []*part
}

// part is a framework after PreFilter.
type part struct {
	fw    framework.Framework
	state fwk.CycleState
}

// neighbours remembers the parts that look at other nodes' pods, which are dear and the same for many classes.
type neighbours map[string]*part

// preFilter runs the profile's PreFilter plugins for the class: a trial, or why it is rejected wherever it goes.
func (v *Verifier) preFilter(ctx context.Context, s *scene, index int, known neighbours) (*trial, []Verdict, error) {
	class := s.classes[index]
	p, ok := v.profiles[class.Pod.Spec.SchedulerName]
	if !ok {
		return nil, nil, fmt.Errorf("pod %s: no profile is named %q", klog.KObj(class.Pod), class.Pod.Spec.SchedulerName)
	}
	t := &trial{scene: s, class: class, index: index}
	for _, fw := range []framework.Framework{p.own, p.among} {
		if fw == nil {
			continue
		}
		key := ""
		if fw == p.among {
			key = neighbourKey(class.Pod)
			if have := known[key]; have != nil {
				t.asked = append(t.asked, have)
				continue
			}
		}
		one := &part{fw: fw, state: framework.NewCycleState()}
		result, status, _ := fw.RunPreFilterPlugins(ctx, one.state, class.Pod)
		if !status.IsSuccess() {
			if !status.IsRejected() {
				return nil, nil, fmt.Errorf("pod %s: PreFilter: %w", klog.KObj(class.Pod), status.AsError())
			}
			return nil, []Verdict{{plan.Rejection{ClassKey: class.Key, Reason: reason(status)}, index, class.Pods}}, nil
		}
		t.asked, t.nodes = append(t.asked, one), t.nodes.Merge(result)
		if key != "" {
			known[key] = one
		}
	}
	return t, nil, nil
}

// neighbourKey is equal for pods that PodTopologySpread and InterPodAffinity cannot tell apart.
func neighbourKey(pod *corev1.Pod) string {
	s := &pod.Spec
	text, err := json.Marshal(struct {
		Scheduler, Namespace string
		Labels, Selector     map[string]string
		Owner                *metav1.OwnerReference
		Affinity             *corev1.Affinity
		Tolerations          []corev1.Toleration
		Spread               []corev1.TopologySpreadConstraint
	}{
		s.SchedulerName, pod.Namespace, pod.Labels, s.NodeSelector, metav1.GetControllerOf(pod), s.Affinity, s.Tolerations,
		s.TopologySpreadConstraints,
	})
	if err != nil {
		return string(pod.UID) // Only a channel or a function cannot be marshalled, and a pod has none.
	}
	return string(text)
}

// count enters a pod that came to the node into what PreFilter counted, or one that went.
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

// ask runs the filters; what they answer is success or a rejection.
func (t *trial) ask(ctx context.Context, pod *corev1.Pod, node *framework.NodeInfo) (*fwk.Status, error) {
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

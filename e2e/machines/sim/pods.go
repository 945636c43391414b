package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// podState is the kubelet's state of one pod.
type podState struct {
	view podView
	// sent is the status that the writer was given last.
	sent *corev1.PodStatus
	// reported is until when Events of images and containers were given to the writer.
	reported time.Time
	// removed is true where the writer was asked to delete the pod.
	removed bool
	// next is when the status changes by itself, zero for never. Until then only a change of the pod can change it.
	next time.Time
}

// holdsRoom reports whether the pod uses the machine's resources.
func (s *podState) holdsRoom(now time.Time) bool { return s.view.rejected == nil && !s.view.over(now) }

// newAdmission returns the kubelet's own predicate handler over this machine's Node. Preemption for critical pods is left
// out: the failure handler does nothing.
func (k *kubelet) newAdmission() lifecycle.PodAdmitHandler {
	noPlugins := func(*schedulerframework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	return lifecycle.NewPredicateAdmitHandler(k.node, lifecycle.NewAdmissionFailureHandlerStub(), noPlugins)
}

// node returns a copy of the Node from the kubelet's cache, or from the API server without the cache.
func (k *kubelet) node(ctx context.Context, useCache bool) (*corev1.Node, error) {
	if !useCache {
		return k.client.CoreV1().Nodes().Get(ctx, k.name(), metav1.GetOptions{})
	}
	if node, err := k.nodes.Get(k.name()); err == nil {
		return node.DeepCopy(), nil
	}
	return k.host.initialNode(k.observe(time.Now())), nil
}

// syncPods updates every pod of this node to now. It returns when the next of them changes by itself; zero for never.
func (k *kubelet) syncPods(ctx context.Context, now time.Time) time.Time {
	pods := k.boundPods()
	present := make(map[types.UID]bool, len(pods))
	var next time.Time
	for _, pod := range pods {
		present[pod.UID] = true
		state := k.known[pod.UID]
		if state == nil {
			if state = k.addPod(ctx, pod, now); state == nil {
				continue
			}
			k.known[pod.UID] = state
		}
		if state.removed {
			continue // The writer deletes it.
		}
		if state.sent == nil || state.view.pod != pod || (!state.next.IsZero() && !now.Before(state.next)) {
			state.view.pod = pod
			k.writer.seen(pod)
			k.stopIfDeleted(state, now)
			k.report(state, now)
			state.reported = k.reportContainers(state, now)
			state.next = state.view.nextChange(now)
		}
		if !state.next.IsZero() && (next.IsZero() || state.next.Before(next)) {
			next = state.next
		}
	}
	for uid := range k.known {
		if !present[uid] {
			delete(k.known, uid)
			k.writer.forget(uid)
		}
	}
	return next
}

// boundPods returns the pods bound to this node, oldest first, the order in which a kubelet admits them.
func (k *kubelet) boundPods() []*corev1.Pod {
	objects, err := k.pods.ByIndex(nodeNameIndex, k.name())
	if err != nil {
		k.log.Error(err, "The pod index is missing")
		return nil
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return pods
}

// addPod admits or rejects a pod that is new to the kubelet. A pod that has ended already gets no state, unless its deletion
// was requested.
func (k *kubelet) addPod(ctx context.Context, pod *corev1.Pod, now time.Time) *podState {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if over && pod.DeletionTimestamp == nil {
		return nil
	}
	state := &podState{view: podView{pod: pod, hostIP: k.host.instance.PrivateIP}}
	if over || pod.DeletionTimestamp != nil {
		// The pod has no containers here, and only has to be deleted.
		state.view.plan, state.view.signaled, state.view.stopped = podPlan{admitted: now, sandbox: now}, now, now
		return state
	}
	if result := k.admit.Admit(&lifecycle.PodAdmitAttributes{Pod: onOwnOS(pod, k.host.instance.OS()), OtherPods: k.others(now), Operation: lifecycle.AddOperation}); !result.Admit {
		k.log.V(2).Info("Rejected a pod", "pod", klog.KObj(pod), "reason", result.Reason, "message", result.Message)
		state.view.rejected = &rejection{result.Reason, result.Message}
		k.writer.event(newEvent(podReference(pod), k.name(), corev1.EventTypeWarning, result.Reason, result.Message))
		return state
	}
	node, err := k.node(ctx, true)
	if err != nil {
		node = &corev1.Node{}
	}
	state.view.plan = k.planner.plan(pod, now, node)
	if pod.Spec.HostNetwork {
		state.view.podIP = k.host.instance.PrivateIP
	} else {
		state.view.podIP = podAddress(k.host.instance.PrivateIP, k.address())
	}
	if tries := state.view.plan.mountTries; tries > 0 {
		k.writer.event(newEvent(podReference(pod), k.name(), corev1.EventTypeWarning, "FailedMount",
			fmt.Sprintf("MountVolume.SetUp failed for volume %q : object %q/\"kube-root-ca.crt\" not registered (%d times)", "kube-api-access", pod.Namespace, tries)))
	}
	if missing := state.view.plan.missing; len(missing) > 0 {
		k.log.Info("A pod runs without the devices that it asked for", "pod", klog.KObj(pod), "devices", strings.Join(missing, ","))
	}
	return state
}

// onOwnOS returns the pod as its kubelet would see it if that ran on this process's operating system. The kubelet's predicates compare
// spec.os and the node selector with the operating system of their own process, which is not the machine's.
func onOwnOS(pod *corev1.Pod, own string) *corev1.Pod {
	selected, selects := pod.Spec.NodeSelector[corev1.LabelOSStable]
	if pod.Spec.OS == nil && !selects {
		return pod
	}
	pod = pod.DeepCopy()
	if selected == own {
		delete(pod.Spec.NodeSelector, corev1.LabelOSStable)
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) == own {
		pod.Spec.OS = nil
	} else if pod.Spec.OS != nil {
		pod.Spec.OS.Name = "other"
	}
	return pod
}

func podReference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func (k *kubelet) others(now time.Time) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(k.known))
	for _, s := range k.known {
		if s.holdsRoom(now) {
			out = append(out, s.view.pod)
		}
	}
	return out
}

// stopIfDeleted stops the containers of a pod whose deletion was requested.
func (k *kubelet) stopIfDeleted(s *podState, now time.Time) {
	if s.view.pod.DeletionTimestamp == nil || s.view.rejected != nil {
		return
	}
	if s.view.signaled.IsZero() {
		s.view.signaled = now
	}
	// A second deletion may have shortened the grace period.
	ending := k.planner.stopping(s.view.pod, s.view.plan, s.view.signaled)
	stops := ending.stops()
	if at := ending.last(stops); s.view.stopped.IsZero() || at.Before(s.view.stopped) {
		s.view.stops, s.view.stopped = stops, at
	}
}

// report gives the writer the pod's status if it has changed. Once the pod has ended, it asks the writer to delete it.
func (k *kubelet) report(s *podState, now time.Time) {
	status := s.view.statusAt(now)
	remove := s.view.pod.DeletionTimestamp != nil && (s.view.rejected != nil || s.view.over(now))
	if k.light && !remove && status.Phase == corev1.PodPending {
		return // Its first status says that it runs.
	}
	if s.sent != nil && !remove && equality.Semantic.DeepEqual(*s.sent, status) {
		return
	}
	s.sent, s.removed = &status, remove
	k.writer.put(podWrite{pod: s.view.pod, status: status, remove: remove})
}

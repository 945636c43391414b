package plugin_test

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// The fake clientset ignores field selectors. kube-scheduler's informer of pods has one, which leaves out pods that have failed or
// succeeded: what follows applies it as the API server does.

func podResource() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("pods") }

// matches reports whether a pod has the fields.
func matches(selector fields.Selector, pod *corev1.Pod) bool {
	return selector.Matches(fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase),
	})
}

// stored lists the pods that have the fields.
func (h *harness) stored(namespace string, selector fields.Selector) (*corev1.PodList, error) {
	obj, err := h.client.Tracker().List(podResource(), corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	if err != nil {
		return nil, err
	}
	all := obj.(*corev1.PodList)
	out := &corev1.PodList{ListMeta: all.ListMeta}
	for i := range all.Items {
		if matches(selector, &all.Items[i]) {
			out.Items = append(out.Items, all.Items[i])
		}
	}
	return out, nil
}

func (h *harness) listPods(action clienttesting.Action) (bool, runtime.Object, error) {
	list, err := h.stored(action.GetNamespace(), action.(clienttesting.ListActionImpl).GetListRestrictions().Fields)
	return true, list, err
}

// watchPods opens a watch of the fake clientset and closes opened. A pod that is created between the informer's list
// and its watch would be handed to the scheduler as it is stored, not as a copy: the scheduler's informer writes to it.
func (h *harness) watchPods(opened chan struct{}) clienttesting.WatchReactionFunc {
	return func(action clienttesting.Action) (bool, watch.Interface, error) {
		defer close(opened)
		options := action.(clienttesting.WatchActionImpl).ListOptions
		w, err := h.client.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
		if err != nil {
			return true, nil, err
		}
		s := &selectedPods{shown: map[types.UID]*corev1.Pod{}}
		if s.selector, err = fields.ParseSelector(options.FieldSelector); err != nil {
			return true, nil, err
		}
		list, err := h.stored(metav1.NamespaceAll, s.selector)
		if err != nil {
			return true, nil, err
		}
		for i := range list.Items {
			s.shown[list.Items[i].UID] = &list.Items[i]
		}
		return true, s.watch(w), nil
	}
}

// selectedPods are the events of a watch with a field selector.
type selectedPods struct {
	selector fields.Selector
	// shown are the pods that the watch has shown, as they were then.
	shown map[types.UID]*corev1.Pod
}

// watch returns the events of a watch without a selector as those of one with it.
func (s *selectedPods) watch(all watch.Interface) watch.Interface {
	out := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(out)
	go func() {
		defer all.Stop()
		for {
			select {
			case <-proxy.StopChan():
				return
			case e := <-all.ResultChan():
				pod, ok := e.Object.(*corev1.Pod)
				if !ok {
					return
				}
				if e.Type, pod = s.event(e.Type, pod.DeepCopy()); pod == nil {
					continue
				}
				e.Object = pod
				select {
				case out <- e:
				case <-proxy.StopChan():
					return
				}
			}
		}
	}()
	return proxy
}

// event returns the event that the watch shows for one of all pods, with no pod for none. A pod that has the fields no longer is
// deleted, with its content from before.
func (s *selectedPods) event(of watch.EventType, pod *corev1.Pod) (watch.EventType, *corev1.Pod) {
	before := s.shown[pod.UID]
	has := matches(s.selector, pod)
	switch {
	case has && of != watch.Deleted:
		s.shown[pod.UID] = pod.DeepCopy()
		if before == nil {
			return watch.Added, pod
		}
		return watch.Modified, pod
	case before == nil:
		return "", nil
	}
	delete(s.shown, pod.UID)
	if has {
		return watch.Deleted, pod
	}
	return watch.Deleted, before
}

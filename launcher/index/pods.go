package index

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods reads pods as a cache has them. They are shared and must not be changed.
type Pods interface {
	// All returns the pods of the cluster, in no order.
	All(ctx context.Context) ([]*corev1.Pod, error)
	// On returns the pods that are bound to a node.
	On(ctx context.Context, node string) ([]*corev1.Pod, error)
	// Changes returns a number that is another once a pod that is bound to a node has come, changed or gone, a moment after On has it; false if that is
	// not known.
	Changes(ctx context.Context, node string) (uint64, bool)
	// In returns the pods of a namespace.
	In(ctx context.Context, namespace string) ([]*corev1.Pod, error)
	// Repelling returns the bound pods with required anti-affinity over a topology that is larger than a node.
	Repelling(ctx context.Context) ([]*corev1.Pod, error)
	// Of returns the pod of a UID, nil if there is none.
	Of(ctx context.Context, uid string) (*corev1.Pod, error)
	// Controlled returns the pods of a namespace that name the controller as theirs.
	Controlled(ctx context.Context, namespace string, controller types.UID) ([]*corev1.Pod, error)
}

// ListPods reads pods with a client that has the index PodNodeName, and copies them.
func ListPods(reader client.Reader) Pods { return listedPods{reader} }

type listedPods struct{ client.Reader }

// All implements Pods.
func (l listedPods) All(ctx context.Context) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	return listed(&list.Items, l.List(ctx, list, client.UnsafeDisableDeepCopy), "pods")
}

// On implements Pods.
func (l listedPods) On(ctx context.Context, node string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := l.List(ctx, list, client.MatchingFields{PodNodeName: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods of Node %s: %w", node, err)
	}
	return pointers(list.Items), nil
}

// Changes implements Pods.
func (listedPods) Changes(context.Context, string) (uint64, bool) { return 0, false }

// In implements Pods.
func (l listedPods) In(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	return listed(&list.Items, l.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy), "pods of namespace "+namespace)
}

// Repelling implements Pods.
func (l listedPods) Repelling(ctx context.Context) ([]*corev1.Pod, error) {
	all, err := l.All(ctx)
	return slices.DeleteFunc(all, func(pod *corev1.Pod) bool { return repelling(pod) == "" }), err
}

// Of implements Pods.
func (l listedPods) Of(ctx context.Context, uid string) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := l.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the pod of UID %s: %w", uid, err)
	}
	for i := range list.Items {
		if string(list.Items[i].UID) == uid {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// Controlled implements Pods.
func (l listedPods) Controlled(ctx context.Context, namespace string, controller types.UID) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := l.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods of controller %s in namespace %s: %w", controller, namespace, err)
	}
	return slices.DeleteFunc(pointers(list.Items), func(pod *corev1.Pod) bool { return controllerOf(pod) != string(controller) }), nil
}

// The indexes of SharedPods.
const (
	podsOnNode       = "pods-on-node"
	podsOfController = "pods-of-controller"
	podsRepelling    = "pods-repelling"
	// podsByUID has a few pods under each value: a value for each pod would weigh as much as a quarter of it.
	podsByUID = "pods-by-uid"
	// uidPrefix is how much of a UID is the value: 4,096 values of hexadecimal digits.
	uidPrefix = 3
)

// SharedPods reads pods from the store of their informer, and copies none: with tens of thousands of pods, the copies of one look at the cluster are
// the launcher's largest garbage. Its methods return an error if the informer has no store.
func SharedPods(informers cache.Informers) Pods {
	counts := &changeCounts{seed: maphash.MakeSeed()}
	return sharedPods{&store{informers: informers, of: &corev1.Pod{}, handler: counts.handler(), indexers: toolscache.Indexers{
		podsOnNode:       ofPod(func(pod *corev1.Pod) string { return pod.Spec.NodeName }),
		podsOfController: ofPod(controllerOf),
		podsRepelling:    ofPod(repelling),
		podsByUID:        ofPod(func(pod *corev1.Pod) string { return prefixOf(string(pod.UID)) }),
	}}, counts}
}

// sharedPods is the store of the informer of pods.
type sharedPods struct {
	*store

	counts *changeCounts
}

// All implements Pods.
func (s sharedPods) All(ctx context.Context) ([]*corev1.Pod, error) {
	return all[*corev1.Pod](ctx, s.store)
}

// On implements Pods.
func (s sharedPods) On(ctx context.Context, node string) ([]*corev1.Pod, error) {
	found, err := s.by(ctx, podsOnNode, node)
	if err != nil {
		return nil, fmt.Errorf("reading pods of Node %s: %w", node, err)
	}
	return typed[*corev1.Pod](found), nil
}

// Changes implements Pods.
func (s sharedPods) Changes(ctx context.Context, node string) (uint64, bool) {
	if _, err := s.indexed(ctx); err != nil {
		return 0, false
	}
	return s.counts.of(node).Load(), true
}

// In implements Pods.
func (s sharedPods) In(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	found, err := s.by(ctx, toolscache.NamespaceIndex, namespace) // Each informer of controller-runtime has it.
	if err != nil {
		return nil, fmt.Errorf("reading pods of namespace %s: %w", namespace, err)
	}
	return typed[*corev1.Pod](found), nil
}

// Repelling implements Pods.
func (s sharedPods) Repelling(ctx context.Context) ([]*corev1.Pod, error) {
	found, err := s.by(ctx, podsRepelling, Yes)
	if err != nil {
		return nil, fmt.Errorf("reading pods with anti-affinity: %w", err)
	}
	return typed[*corev1.Pod](found), nil
}

// Of implements Pods.
func (s sharedPods) Of(ctx context.Context, uid string) (*corev1.Pod, error) {
	found, err := s.by(ctx, podsByUID, prefixOf(uid))
	if err != nil {
		return nil, fmt.Errorf("looking for the pod of UID %s: %w", uid, err)
	}
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok && string(pod.UID) == uid {
			return pod, nil
		}
	}
	return nil, nil
}

// Controlled implements Pods.
func (s sharedPods) Controlled(ctx context.Context, namespace string, controller types.UID) ([]*corev1.Pod, error) {
	found, err := s.by(ctx, podsOfController, string(controller))
	if err != nil {
		return nil, fmt.Errorf("reading pods of controller %s: %w", controller, err)
	}
	return slices.DeleteFunc(typed[*corev1.Pod](found), func(pod *corev1.Pod) bool { return pod.Namespace != namespace }), nil
}

func (s sharedPods) by(ctx context.Context, name, value string) ([]any, error) {
	indexed, err := s.indexed(ctx)
	if err != nil {
		return nil, fmt.Errorf("indexing pods: %w", err)
	}
	return indexed.ByIndex(name, value)
}

func ofPod(value func(pod *corev1.Pod) string) toolscache.IndexFunc {
	return func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		return one(value(pod)), nil
	}
}

func prefixOf(uid string) string { return uid[:min(len(uid), uidPrefix)] }

// repelling returns Yes for a bound pod with required anti-affinity over a topology that is larger than a node.
func repelling(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if pod.Spec.NodeName == "" || affinity == nil || affinity.PodAntiAffinity == nil {
		return ""
	}
	wide := func(t corev1.PodAffinityTerm) bool { return t.TopologyKey != corev1.LabelHostname }
	if slices.ContainsFunc(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, wide) {
		return Yes
	}
	return ""
}

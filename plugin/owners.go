package plugin

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// byController and byGang are the pod informer's indexes of pods by their namespace and the UID of their controller, and by their
// gang.
const (
	byController = "slipway/controller"
	byGang       = "slipway/gang"
)

// owners knows how many pods the controllers of pods want and have.
type owners struct {
	pods         cache.Indexer
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
}

func newOwners(f informers.SharedInformerFactory) (*owners, error) {
	pods := f.Core().V1().Pods().Informer()
	err := pods.AddIndexers(cache.Indexers{byController: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			if owner := metav1.GetControllerOf(pod); owner != nil {
				return []string{controllerKey(pod.Namespace, owner)}, nil
			}
		}
		return nil, nil
	}, byGang: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			if gang := plan.GangOf(pod); gang.Name != "" {
				return []string{gang.Name}, nil
			}
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index of pods by controller and gang: %w", err)
	}
	return &owners{
		pods:         pods.GetIndexer(),
		replicaSets:  f.Apps().V1().ReplicaSets().Lister(),
		statefulSets: f.Apps().V1().StatefulSets().Lister(),
		jobs:         f.Batch().V1().Jobs().Lister(),
	}, nil
}

// controllerKey names a controller as pods of the namespace do. An owner reference says whatever its author likes: pods that name the
// controller of another namespace are not that controller's.
func controllerKey(namespace string, ref *metav1.OwnerReference) string {
	return namespace + "/" + string(ref.UID)
}

// of returns what is known of the pod's controller. had says whether the scheduling queue has, or had, a pod that is
// not bound: a pod that the informer has alone has not been tried yet.
//
// ok is false for a controller that the informer has not seen yet, or no more.
func (o *owners) of(namespace string, ref *metav1.OwnerReference, had func(*corev1.Pod) bool) (_ batch.Owner, ok bool) {
	out := batch.Owner{UID: controllerKey(namespace, ref), Kind: batch.KindOf(ref.Kind)}
	switch out.Kind {
	case batch.ReplicaSet:
		rs, err := o.replicaSets.ReplicaSets(namespace).Get(ref.Name)
		if err != nil || rs.UID != ref.UID {
			return out, false
		}
		out.Wanted = replicas(rs.Spec.Replicas)
	case batch.StatefulSet:
		ss, err := o.statefulSets.StatefulSets(namespace).Get(ref.Name)
		if err != nil || ss.UID != ref.UID {
			return out, false
		}
		out.Wanted = replicas(ss.Spec.Replicas)
		out.OrderedReady = ss.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	case batch.Job:
		job, err := o.jobs.Jobs(namespace).Get(ref.Name)
		if err != nil || job.UID != ref.UID {
			return out, false
		}
		out.Wanted = replicas(job.Spec.Parallelism)
		if job.Spec.Completions != nil {
			out.Wanted = min(out.Wanted, int(*job.Spec.Completions-job.Status.Succeeded))
		}
	case batch.Other:
		return out, true
	}
	out.Existing, out.Untried = o.count(byController, out.UID, had)
	return out, true
}

// gang returns how many pods of the gang there are.
func (o *owners) gang(g plan.Gang, had func(*corev1.Pod) bool) batch.Gang {
	n, _ := o.count(byGang, g.Name, had)
	return batch.Gang{Name: g.Name, Wanted: g.Size, Existing: n}
}

// count counts pods that are not going: those that are bound or known to the queue, and those that are not.
func (o *owners) count(index, value string, had func(*corev1.Pod) bool) (existing, untried int) {
	list, err := o.pods.ByIndex(index, value)
	if err != nil {
		return 0, 0
	}
	for _, obj := range list {
		pod, ok := obj.(*corev1.Pod)
		switch {
		case !ok || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.Spec.NodeName != "" || had(pod):
			existing++
		default:
			untried++
		}
	}
	return existing, untried
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

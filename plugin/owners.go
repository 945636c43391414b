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
)

// byController is the pod informer's index of pods by the UID of their controller.
const byController = "slipway/controller"

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
				return []string{string(owner.UID)}, nil
			}
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index of pods by controller: %w", err)
	}
	return &owners{
		pods:         pods.GetIndexer(),
		replicaSets:  f.Apps().V1().ReplicaSets().Lister(),
		statefulSets: f.Apps().V1().StatefulSets().Lister(),
		jobs:         f.Batch().V1().Jobs().Lister(),
	}, nil
}

// of returns what is known of the pod's controller. had says whether the scheduling queue has, or had, a pod that is
// not bound: a pod that the informer has alone has not been tried yet.
//
// ok is false for a controller that the informer has not seen yet, or no more.
func (o *owners) of(namespace string, ref *metav1.OwnerReference, had func(*corev1.Pod) bool) (_ batch.Owner, ok bool) {
	out := batch.Owner{UID: string(ref.UID), Kind: batch.KindOf(ref.Kind)}
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
	out.Existing = o.existing(ref, had)
	return out, true
}

// existing counts the controller's pods that are not going and are bound or known to the queue.
func (o *owners) existing(ref *metav1.OwnerReference, had func(*corev1.Pod) bool) int {
	list, err := o.pods.ByIndex(byController, string(ref.UID))
	if err != nil {
		return 0
	}
	n := 0
	for _, obj := range list {
		pod, ok := obj.(*corev1.Pod)
		if ok && pod.DeletionTimestamp == nil && (pod.Spec.NodeName != "" || had(pod)) {
			n++
		}
	}
	return n
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

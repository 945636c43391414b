package intake

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Owners counts how many pods controllers want and have, from informers. It is safe for concurrent use.
type Owners struct {
	pods         cache.Indexer
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
}

// NewOwners returns Owners over the informers. They must not run yet: it adds indexes to the informer of pods.
func NewOwners(f informers.SharedInformerFactory) (*Owners, error) {
	pods := f.Core().V1().Pods().Informer()
	err := pods.AddIndexers(cache.Indexers{byController: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			if owner := ControllerOf(pod); !owner.None() {
				return []string{owner.String()}, nil
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
		return nil, fmt.Errorf("indexing pods by controller and gang: %w", err)
	}
	return &Owners{
		pods:         pods.GetIndexer(),
		replicaSets:  f.Apps().V1().ReplicaSets().Lister(),
		statefulSets: f.Apps().V1().StatefulSets().Lister(),
		jobs:         f.Batch().V1().Jobs().Lister(),
	}, nil
}

// Controller is the controller of a pod. The author of a pod chooses its references, so pods that name a controller of another namespace are not that
// controller's. The zero value is none.
type Controller struct {
	// Namespace of the pod.
	Namespace string
	// UID of the controller.
	UID types.UID
}

// None reports whether there is no controller.
func (c Controller) None() bool { return c.UID == "" }

// ControllerOf returns the controller of a pod; none for a pod without one.
func ControllerOf(pod *corev1.Pod) Controller {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return Controller{}
	}
	return Controller{Namespace: pod.Namespace, UID: ref.UID}
}

// String returns a text that no other controller has; empty for none.
func (c Controller) String() string {
	if c.None() {
		return ""
	}
	return c.Namespace + "/" + string(c.UID)
}

// of returns how many pods the controller wants and has. tried reports whether the scheduling queue has, or tried, a pod that is
// not bound. The other pods have not been tried on a node yet.
//
// ok is false if the informer does not have the controller.
func (o *Owners) of(namespace string, ref *metav1.OwnerReference, tried func(*corev1.Pod) bool) (_ batch.Owner, ok bool) {
	out := batch.Owner{UID: Controller{namespace, ref.UID}.String(), Kind: batch.KindOf(ref.Kind)}
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
	out.Existing, out.Untried = o.count(byController, out.UID, tried)
	return out, true
}

// gang returns how many pods of the gang exist or have finished.
func (o *Owners) gang(g plan.Gang, tried func(*corev1.Pod) bool) batch.Gang {
	n, _ := o.count(byGang, g.Name, tried)
	return batch.Gang{Name: g.Name, Wanted: g.Size, Existing: n + o.Finished(o.PodsOfGang(g.Name))}
}

// Finished returns how many pods the Jobs of the pods have had and do not replace, since enough have succeeded: a gang is complete without
// them. The informer of pods does not have pods that have succeeded. Jobs that none of the pods belongs to do not count: an earlier run of a
// CronJob does not complete the gang of the next one.
func (o *Owners) Finished(pods []*corev1.Pod) int {
	seen, n := map[Controller]bool{}, 0
	for _, pod := range pods {
		ref, owner := metav1.GetControllerOfNoCopy(pod), ControllerOf(pod)
		if ref == nil || seen[owner] || batch.KindOf(ref.Kind) != batch.Job {
			continue
		}
		seen[owner] = true
		if job, err := o.jobs.Jobs(pod.Namespace).Get(ref.Name); err == nil && job.UID == ref.UID {
			n += finished(job)
		}
	}
	return n
}

// finished returns by how many pods the Job runs fewer at a time than at its start, since others have succeeded.
func finished(job *batchv1.Job) int {
	succeeded, most := int(job.Status.Succeeded), replicas(job.Spec.Parallelism)
	if u := job.Status.UncountedTerminatedPods; u != nil {
		succeeded += len(u.Succeeded)
	}
	if job.Spec.Completions == nil {
		return min(succeeded, most)
	}
	all := int(*job.Spec.Completions)
	return min(most, all) - min(most, max(0, all-succeeded))
}

// PodsOfGang returns the pods of the gang that do not terminate and have not ended.
func (o *Owners) PodsOfGang(gang string) []*corev1.Pod {
	list, err := o.pods.ByIndex(byGang, gang)
	if err != nil {
		return nil
	}
	var out []*corev1.Pod
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			out = append(out, pod)
		}
	}
	return out
}

// count counts the pods that do not terminate: existing are those that are bound or were tried, untried the others.
func (o *Owners) count(index, value string, tried func(*corev1.Pod) bool) (existing, untried int) {
	list, err := o.pods.ByIndex(index, value)
	if err != nil {
		return 0, 0
	}
	for _, obj := range list {
		pod, ok := obj.(*corev1.Pod)
		switch {
		case !ok || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.Spec.NodeName != "" || tried(pod):
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

// PodsOf returns the pods of a controller; none for no controller.
func (o *Owners) PodsOf(controller Controller) []*corev1.Pod {
	list, err := o.pods.ByIndex(byController, controller.String())
	if err != nil {
		return nil
	}
	var out []*corev1.Pod
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

package terminate_test

import (
	"context"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const setName = "web-5d9c"

// addSet makes a Deployment of one replica and its ReplicaSet, whose pod is Ready.
func (w *world) addSet(ctx context.Context, pod *corev1.Pod) {
	labels := map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "5d9c"}
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "uid", Controller: new(true)}}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	deployment.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: setName, Labels: labels, OwnerReferences: owner("Deployment", "web")}}
	set.Spec.Replicas, set.Spec.Selector = new(int32(1)), &metav1.LabelSelector{MatchLabels: labels}
	set.Status.ReadyReplicas = 1
	w.create(ctx, deployment, set)
	pod.Labels, pod.OwnerReferences = labels, owner("ReplicaSet", setName)
	pod.OwnerReferences[0].UID = set.UID
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// guardSet gives the pods of the set a PodDisruptionBudget that allows no eviction.
func (w *world) guardSet(ctx context.Context) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, new(intstr.FromInt32(0))
	w.create(ctx, b)
}

// changeSet does what the ReplicaSet controller does, or the kubelet of a pod.
func (w *world) changeSet(ctx context.Context, d *datadriven.TestData) {
	if len(d.CmdArgs) == 2 {
		w.ready(ctx, d.CmdArgs[1].Key)
		return
	}
	what := d.CmdArgs[0].Key
	if what == "guarded" {
		w.guardSet(ctx)
		return
	}
	set := &appsv1.ReplicaSet{}
	if err := w.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: setName}, set); err != nil {
		w.t.Fatal(err)
	}
	var err error
	switch what {
	case "releases":
		pod := &corev1.Pod{}
		if err := w.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web"}, pod); err != nil {
			w.t.Fatal(err)
		}
		if _, there := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; there {
			w.t.Fatal("the pod has the labels of the set")
		}
		pod.OwnerReferences = nil
		if err := w.api.Update(ctx, pod); err != nil {
			w.t.Fatal(err)
		}
		set.Status.ReadyReplicas = 0
		err = w.api.Status().Update(ctx, set)
	case "ready":
		set.Status.ReadyReplicas = 1
		err = w.api.Status().Update(ctx, set)
	case "gone":
		err = w.api.Delete(ctx, set)
	default:
		w.t.Fatalf("unknown change %s", what)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

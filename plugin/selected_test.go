package plugin_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A pod that wants to be beside one pod of a StatefulSet by its name gets a place on that pod's node, though the set's pods are alike otherwise.
func TestBesideOnePodOfAStatefulSet(t *testing.T) {
	t.Parallel()
	const replicas = 3
	perHost := func(key, value string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}
	}
	objects := []runtime.Object{newNode("full", "100m", nil)}
	for i := range replicas {
		db := newPod(fmt.Sprintf("db-%d", i), "500m", "512Mi")
		db.Labels = map[string]string{"app": "db", "statefulset.kubernetes.io/pod-name": db.Name}
		db.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: perHost("app", "db")}}
		reader := newPod(fmt.Sprintf("reader-%d", i), "100m", "128Mi")
		reader.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: perHost("statefulset.kubernetes.io/pod-name", db.Name),
		}}
		objects = append(objects, db, reader)
	}
	h := start(t, harnessOptions{objects: objects})
	h.eventually("the launches", func() bool { return len(h.launcher.podNames()) == 2*replicas })
	on := map[string]string{}
	for _, c := range h.launcher.claims() {
		for _, p := range c.GetPods() {
			on[p.GetName()] = c.GetName()
		}
	}
	for i := range replicas {
		db, reader := fmt.Sprintf("db-%d", i), fmt.Sprintf("reader-%d", i)
		if on[db] == "" || on[db] != on[reader] {
			t.Errorf("%s is planned on NodeClaim %q, %s on %q", db, on[db], reader, on[reader])
		}
	}
}

// Required anti-affinity of a pod on a node tells the pods of a set apart, too: the one that it names has to go elsewhere.
func TestApartFromOnePodOfAStatefulSet(t *testing.T) {
	t.Parallel()
	guard := newPod("guard", "100m", "128Mi")
	guard.Spec.NodeName = "full"
	guard.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"statefulset.kubernetes.io/pod-name": "db-1"}},
	}}}}
	objects := []runtime.Object{newNode("full", "200m", map[string]string{corev1.LabelTopologyZone: "us-east-1a"}), guard}
	for i := range 2 {
		db := newPod(fmt.Sprintf("db-%d", i), "500m", "512Mi")
		db.Labels = map[string]string{"app": "db", "statefulset.kubernetes.io/pod-name": db.Name}
		db.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "us-east-1a"}
		objects = append(objects, db)
	}
	h := start(t, harnessOptions{objects: objects})
	h.eventually("a launch for db-0 and the condition of db-1", func() bool {
		return h.launcher.podNames()["db-0"] == 1 && h.says("db-1", "No node can be launched", "anti-affinity")
	})
	if h.launcher.podNames()["db-1"] != 0 {
		t.Error("a node is launched for db-1, where a pod does not bear it")
	}
}

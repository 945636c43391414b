package e2e_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// high creates a PriorityClass of the test's.
func (w *world) high() string {
	w.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-high"}, Value: 1000000}
	w.create(class)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, class)); err != nil {
			w.t.Error(err)
		}
	})
	return class.Name
}

// daemonSet creates a DaemonSet on the test's nodes.
func (w *world) daemonSet(name string, spec corev1.PodSpec) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	w.create(ds)
}

// A LimitRange gives the pods of a DaemonSet requests that its template does not have. Whoever plans by the template launches a
// node on which the daemon pod, of higher priority, leaves no room for the pod that the node is for; the node is empty and goes,
// and the next is launched, without end.
func TestLimitRangeOfDaemonPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "limitrange")
	w.pool("limitrange", func(p *karpv1.NodePool) {
		require(p, corev1.LabelInstanceTypeStable, "t4g.xlarge", "m6g.xlarge", "m6g.2xlarge", "c6g.2xlarge")
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	})
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "cpu"}}
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	ranges.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: two, DefaultRequest: two}}
	w.create(ranges)
	without := func(s *corev1.PodSpec) { s.Containers[0].Resources = corev1.ResourceRequirements{} }
	high := w.high()
	w.daemonSet("agent", w.podSpec("1", "1Mi", func(s *corev1.PodSpec) {
		without(s)
		s.PriorityClassName = high
	}))
	w.deployment("web", 1, w.podSpec("1", "1Mi", without))
	w.await(t, "both pods to run", func() bool { return w.running() == 2 || len(w.everClaimed("limitrange")) > 2 })
	if n := len(w.everClaimed("limitrange")); n > 2 || w.running() != 2 {
		t.Errorf("%d NodeClaims for one pod, %d of 2 pods run", n, w.running())
	}
	for _, p := range w.pods() {
		if cpu := p.Object.Spec.Containers[0].Resources.Requests.Cpu(); cpu.MilliValue() != 2000 {
			t.Errorf("pod %s requests %s: nothing is shown", p.Object.Name, cpu)
		}
	}
}

package admission_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"

	"github.com/slipway-k8s/slipway/plugin/admission"
)

// TestLivePod checks that a live pod shows what webhooks change, as far as that can still be true.
func TestLivePod(t *testing.T) {
	rules := cluster()
	ds := agent(func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list("memory", "32Mi") })
	for _, c := range []struct {
		name string
		live corev1.PodSpec
		want corev1.ResourceList
	}{
		{
			"changed by a webhook",
			corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("cpu", "1500m", "memory", "20Mi")}}}},
			list("cpu", "1500m", "memory", "20Mi"),
		},
		{
			"made before the LimitRange",
			corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
			list("cpu", "1500m", "memory", "32Mi"),
		},
		{
			"made under another LimitRange",
			corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("cpu", "3")}}}},
			list("cpu", "3", "memory", "32Mi"),
		},
		{
			"with a container more",
			corev1.PodSpec{Containers: []corev1.Container{
				{Name: "main"}, {Name: "proxy", Resources: corev1.ResourceRequirements{Requests: list("cpu", "100m")}},
			}},
			list("cpu", "1600m", "memory", "32Mi"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rules.DaemonSet(ds, &corev1.Pod{Spec: c.live})
			if err != nil {
				t.Fatal(err)
			}
			requests := seen(&got.Spec.Template.Spec).Requests
			for name, q := range c.want {
				if have := requests[name]; have.Cmp(q) != 0 {
					t.Errorf("%s: %s, want %s", name, have.String(), q.String())
				}
			}
		})
	}
}

func TestCurrent(t *testing.T) {
	ds := agent(nil)
	// The label is the one that the DaemonSet controller writes.
	template := util.CreatePodTemplate(ds.Spec.Template, new(int64(2)), "hash")
	made := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"made from the template":   {made(nil), true},
		"made from an older one":   {made(func(p *corev1.Pod) { p.Labels = map[string]string{"pod-template-generation": "1"} }), false},
		"of another DaemonSet":     {made(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }), false},
		"on its way out":           {made(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), false},
		"failed":                   {made(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
		"without a label or owner": {&corev1.Pod{}, false},
	} {
		if got := admission.Current(ds, c.pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	ds.Annotations = nil
	if admission.Current(ds, made(nil)) {
		t.Error("the generation of the DaemonSet is not known, and a pod counts as made from it")
	}
}

// TestRuntimeClassMovesNoDaemonPods checks the two halves of a RuntimeClass's scheduling. The DaemonSet controller ignores
// its tolerations, so they bring no pod onto a node. Its node selector excludes pods that the controller creates.
func TestRuntimeClassMovesNoDaemonPods(t *testing.T) {
	rules := cluster()
	ds := agent(func(s *corev1.PodSpec) { s.RuntimeClassName = new("kata") })
	got, err := rules.DaemonSet(ds, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		node           corev1.Node
		written, count bool
	}{
		{"a node of the class", corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kata": "yes"}}}, true, true},
		{"another node", corev1.Node{}, true, false},
		{"a tainted node of the class", corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kata": "yes"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "kata", Effect: corev1.TaintEffectNoSchedule}}},
		}, false, false},
	} {
		for _, side := range []struct {
			ds   *appsv1.DaemonSet
			want bool
		}{{ds, c.written}, {got, c.count}} {
			if run, _ := daemon.NodeShouldRunDaemonPod(klog.Background(), &c.node, side.ds); run != side.want {
				t.Errorf("%s: a pod runs there: %t, want %t", c.name, run, side.want)
			}
		}
	}
}

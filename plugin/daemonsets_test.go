package plugin

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// A DaemonSet's pods count as a webhook has made the newest of them. One that was resized in place since shows nothing where another was not. A pod of another
// namespace that names the DaemonSet as its controller shows nothing.
func TestDaemonSetsCountAsTheirPodsAre(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	owners, err := intake.NewOwners(f)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := newAdmissionRules(f)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemonSets(f, owners, rules)
	if err != nil {
		t.Fatal(err)
	}
	spec := func(cpu string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}}
	}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "agent", Namespace: "kube-system", UID: "agent", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1"},
		},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec("100m")}},
	}
	if err := f.Apps().V1().DaemonSets().Informer().GetIndexer().Add(ds); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, step := range []struct {
		name, namespace, cpu string
		generation           int64
		// after is how long after the step before.
		after time.Duration
		want  string
	}{
		{want: "100m"},
		{"other", "tenant", "90", 1, 0, "100m"},
		// The first pod counts at once, a changed one as well: it shows what a webhook has added.
		{"b", "kube-system", "500m", 2, 0, "500m"},
		{"a", "kube-system", "300m", 0, liveEvery, "300m"},
		{"c", "kube-system", "350m", 1, liveEvery, "350m"},
		{"d", "kube-system", "900m", 2, liveEvery, "350m"},
	} {
		if step.name != "" {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: step.namespace, Name: step.name, UID: types.UID(step.name), Generation: step.generation, Labels: map[string]string{"pod-template-generation": "1"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}},
			}, Spec: spec(step.cpu)}
			if err := f.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
				t.Fatal(err)
			}
			d.arrived("agent")
			now = now.Add(step.after)
		}
		list, err := d.list(klog.Background(), now)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d DaemonSets, error %v", len(list), err)
		}
		if got := list[0].Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String(); got != step.want {
			t.Errorf("after pod %s/%s of generation %d that asks for %s: the DaemonSet's pods ask for %s, want %s", step.namespace, step.name, step.generation, step.cpu, got, step.want)
		}
	}
}

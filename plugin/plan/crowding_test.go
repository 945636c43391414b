package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// On one node, DaemonSets outside of kube-system leave a tenth of it to other pods: of CPU, of memory, and a pod. What they do not ask for counts for nothing.
func TestDaemonRoom(t *testing.T) {
	list := func(texts ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(texts); i += 2 {
			out[corev1.ResourceName(texts[i])] = resource.MustParse(texts[i+1])
		}
		return out
	}
	room := plan.DaemonRoom{Allocatable: list("cpu", "4", "memory", "16Gi", "pods", "5")}
	for i, c := range []struct {
		namespace string
		requests  corev1.ResourceList
		want      bool
	}{
		{"kube-system", list("cpu", "200m", "memory", "15Gi"), true},
		{"team", list("cpu", "4"), false},
		{"team", list("cpu", "3400m"), true},
		{"team", list("cpu", "1m"), false},
		{"team", list("memory", "1Mi"), false},
		{"team", list(), true},
		{"kube-system", list("cpu", "1"), true},
		{"team", list(), false}, // The fifth pod is another's.
	} {
		if got := room.Takes(c.namespace, c.requests); got != c.want {
			t.Errorf("pod %d of %s with %v: counted %t, want %t", i, c.namespace, c.requests, got, c.want)
		}
	}
}

// Those of kube-system are counted first, then the older ones.
func TestDaemonOrder(t *testing.T) {
	at := func(namespace, name string, minute int) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 3, 1, 10, minute, 0, 0, time.UTC))}
	}
	got := []*metav1.ObjectMeta{at("team", "b", 2), at("team", "a", 2), at("shop", "z", 2), at("team", "old", 1), at("kube-system", "new", 9)}
	slices.SortFunc(got, func(a, b *metav1.ObjectMeta) int { return plan.DaemonOrder(a, b) })
	var names []string
	for _, m := range got {
		names = append(names, m.Name)
	}
	if want := []string{"new", "old", "z", "a", "b"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// loneDaemons adds twenty DaemonSets with 2,000 terms of required anti-affinity each, and pods of 300 shapes.
func loneDaemons(b *batch) {
	for i := range 20 {
		ds := daemonSet(podYAML{Name: fmt.Sprint("hostile-", i), Namespace: "hostile"})
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(2000)}}
		b.in.DaemonSets = append(b.in.DaemonSets, ds)
	}
	for i := range 300 {
		b.add(1, 50+i, 64)
	}
}

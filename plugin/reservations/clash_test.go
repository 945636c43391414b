package reservations

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Anti-affinity of a DaemonSet's pod that is to come keeps pods of its namespace off the node, and others where it is one of kube-system. More
// than 128 terms count for nothing.
func TestAntiAffinityOfDaemons(t *testing.T) {
	namespaces := corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}}}
	for _, c := range []struct {
		name      string
		namespace string
		terms     int
		daemon    bool
		want      bool
	}{
		{name: "a tenant's daemon", namespace: "tenant", terms: 1, daemon: true},
		{name: "of the pod's namespace", namespace: "shop", terms: 1, daemon: true, want: true},
		{name: "of kube-system", namespace: metav1.NamespaceSystem, terms: 1, daemon: true, want: true},
		{name: "not of a DaemonSet", namespace: "tenant", terms: 1, want: true},
		{name: "too many terms", namespace: "shop", terms: 129, daemon: true},
	} {
		alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "alone"}}
		alone.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		for range c.terms {
			alone.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(alone.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}})
		}
		need := NeedOf(alone)
		need.Daemon = c.daemon
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		if got := Clash(pod, node, []Need{need}, namespaces) != ""; got != c.want {
			t.Errorf("%s: keeps the pod off: %t, want %t", c.name, got, c.want)
		}
	}
}

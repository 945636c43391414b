package reservations

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// A DaemonSet whose pods are to be apart from all pods keeps those of other tenants off no node. Those of kube-system do, and a pod that is to come.
func TestClashWithDaemonPods(t *testing.T) {
	namespaces := corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}}}
	loner := func(namespace string, terms int) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "loner"}}
		all := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: slices.Repeat([]corev1.PodAffinityTerm{all}, terms)}}
		return p
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	for name, c := range map[string]struct {
		need Need
		want string
	}{
		"of another tenant":         {need: NeedOfDaemon(loner("other", 1))},
		"of its own namespace":      {need: NeedOfDaemon(loner("team", 1)), want: "its anti-affinity"},
		"of kube-system":            {need: NeedOfDaemon(loner(metav1.NamespaceSystem, 1)), want: "its anti-affinity"},
		"a pod that comes":          {need: NeedOf(loner("other", 1)), want: "its anti-affinity"},
		"as many terms as are read": {need: NeedOf(loner("other", mostTerms)), want: "its anti-affinity"},
		"more terms than are read":  {need: NeedOf(loner("other", mostTerms+1))},
	} {
		if got := Clash(pod, node, []Need{c.need}, namespaces); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

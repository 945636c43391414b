package day

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A service that shrinks loses the pods that wait, then those on nodes that are not ready, then those that share a node, the youngest first.
func TestPodsThatAScaleDownEnds(t *testing.T) {
	now := at(120, 1)
	var replicas []replica
	for _, r := range []struct {
		name, node     string
		created, ready int
	}{{"alone", "a", 10, 5}, {"old", "b", 0, 5}, {"young", "b", 100, 5}, {"boots", "c", 50, 0}, {"waits", "", 1, 0}} {
		one := replica{object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: r.name}}, node: r.node, created: at(r.created, 1)}
		if r.ready > 0 {
			one.nodeReady = at(r.ready, 1)
		}
		replicas = append(replicas, one)
	}
	want := []string{"waits", "boots", "young", "old", "alone"}
	for n := range len(want) + 2 {
		if got := deleted(replicas, n, now.Add(time.Second)); !slices.Equal(got, want[:min(n, len(want))]) {
			t.Errorf("%d fewer replicas end %q, want %q", n, got, want[:min(n, len(want))])
		}
	}
	for i := range replicas { // Of those that are ready, the one on the node that is used least.
		replicas[i].used = map[string]float64{"a": 0.2, "b": 0.6}[replicas[i].node]
	}
	if got, want := deleted(replicas, 4, now), []string{"waits", "boots", "alone", "young"}; !slices.Equal(got, want) {
		t.Errorf("with what is used of each node, %q end, want %q", got, want)
	}
}

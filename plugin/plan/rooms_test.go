package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// What a filter allows of a class on one node counts the pods like it that come there already, those of classes with further parts in their keys too: these are
// about volumes, or labels that selectors name.
func TestRoomWithPodsOfTheClass(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
	for name, c := range map[string]struct {
		key  string
		most int
		want int
	}{
		"one may be there, and one comes":         {"", 1, 0},
		"two may be there":                        {"", 2, 1},
		"one may be there, of a class told apart": {"/app=web/0123456789ab", 1, 0},
		"two may be there, of a class told apart": {"/app=web/0123456789ab", 2, 1},
	} {
		class := plan.Class{Key: plan.ClassKey(pod) + c.key, Pod: pod, Pods: []catalog.PodRef{{Namespace: "default", Name: "web-1", UID: "1"}, {Namespace: "default", Name: "web-2", UID: "2"}}}
		p := plan.Make(t.Context(), plan.Input{
			Classes:  []plan.Class{class},
			Nodes:    []plan.Node{{Name: "n", Free: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}, Pods: []*corev1.Pod{pod}}},
			Rejected: []plan.Rejection{{ClassKey: class.Key, MaxPerNode: c.most, Reason: "NodePorts"}},
		})
		got := 0
		for _, at := range p.Placements {
			got += len(at.Members[0].Pods)
		}
		if got != c.want {
			t.Errorf("%s: %d pods are placed on the node, want %d", name, got, c.want)
		}
	}
}

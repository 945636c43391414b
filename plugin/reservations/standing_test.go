package reservations

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/buffersize"
)

func appPod(namespace, app, cpu string, priority int32) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID(namespace + "/" + app), Labels: map[string]string{"app": app}}}
	pod.Spec.Priority = &priority
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return pod
}

// roomFor is room of a CPU for the pods of an app of namespace shop.
func roomFor(app string) Standing {
	need := NeedOf(appPod("shop", "buffer", "1", 0))
	need.Name = "CapacityBuffer shop/" + app
	return Standing{Of: app, Takers: &buffersize.Matcher{Namespace: "shop", Selector: labels.SelectorFromSet(labels.Set{"app": app})}, Need: need}
}

// Standing room is kept against all pods but those that may take it. What a pod has taken is not kept any more, and the room beside it is.
func TestStandingRoom(t *testing.T) {
	ranked := roomFor("ranked")
	ranked.Takers = &buffersize.Matcher{Priority: new(int32(1000))}
	for _, c := range []struct {
		name  string
		rooms []Standing
		// on are the pods of the node, whose 4 CPUs take them beside what is left.
		on   []*corev1.Pod
		pod  *corev1.Pod
		want []string
	}{
		{name: "another pod", rooms: []Standing{roomFor("web"), roomFor("api")}, pod: appPod("shop", "db", "1", 2e9), want: []string{"web", "api"}},
		{name: "its pod", rooms: []Standing{roomFor("web"), roomFor("api"), roomFor("web")}, pod: appPod("shop", "web", "1", 0), want: []string{"api"}},
		{name: "its label elsewhere", rooms: []Standing{roomFor("web")}, pod: appPod("other", "web", "1", 0), want: []string{"web"}},
		{name: "a pod of the priority", rooms: []Standing{ranked}, pod: appPod("other", "x", "1", 1000)},
		{name: "a pod of less", rooms: []Standing{ranked}, pod: appPod("other", "x", "1", 999), want: []string{"ranked"}},
		{
			name: "one is taken", rooms: []Standing{roomFor("web"), roomFor("web"), roomFor("api"), roomFor("api")},
			on: []*corev1.Pod{appPod("shop", "web", "1", 0)}, pod: appPod("shop", "db", "1", 0), want: []string{"api", "api", "web"},
		},
		{
			name: "a pod beside takes none", rooms: []Standing{roomFor("web"), roomFor("web")}, on: []*corev1.Pod{appPod("shop", "web", "2", 0)},
			pod: appPod("shop", "db", "1", 0), want: []string{"web", "web"},
		},
		{name: "all are taken", rooms: []Standing{roomFor("web")}, on: []*corev1.Pod{appPod("shop", "web", "4", 0)}, pod: appPod("shop", "db", "1", 0)},
	} {
		info := framework.NewNodeInfo(c.on...)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("20")}
		info.SetNode(node)
		b := Snapshot{}.board(standing{"n": c.rooms})
		var got []string
		for _, n := range b.Standing(c.pod, info) {
			got = append(got, strings.TrimPrefix(n.Name, "CapacityBuffer shop/"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: kept for %q, want %q", c.name, got, c.want)
		}
	}
}

// Pods with equal signatures are kept off the same room. Room is lost when a node has less of an owner's, and not when it has more.
func TestStandingRoomChanges(t *testing.T) {
	one := standing{"n": {roomFor("web")}}
	two := standing{"n": {roomFor("web"), roomFor("web")}, "m": {roomFor("api")}}
	if one.lost(two) || !two.lost(one) || !one.lost(standing{"n": {roomFor("api")}}) || !one.lost(nil) {
		t.Error("which room is lost")
	}
	b := Snapshot{}.board(two)
	if web, api, db := b.Signature(appPod("shop", "web", "1", 0)), b.Signature(appPod("shop", "api", "1", 0)), b.Signature(appPod("shop", "db", "1", 0)); web != "web" || api != "api" || db != "" {
		t.Errorf("signatures %q, %q, %q", web, api, db)
	}
	if !b.Stands() || !b.Empty() || b.On("", "n") {
		t.Error("standing room counts as that of displaced pods")
	}
}

package buffers_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

func buffer(count int) *buffers.Buffer {
	b := &buffers.Buffer{Namespace: "shop", Name: "web", UID: "u", Count: count}
	b.Template.Labels = map[string]string{"app": "web", plan.LabelGang: "g", plan.LabelPodGroup: "g"}
	high := int32(1000)
	b.Template.Spec = corev1.PodSpec{
		NodeName: "n", Hostname: "h", SchedulerName: "other", Priority: &high, PriorityClassName: "high", NodeSelector: map[string]string{"a": "b"},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "wait"}}, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		},
	}
	return b
}

// The pods have the template's needs, the lowest priority, and nothing of what only a pod has that runs.
func TestPods(t *testing.T) {
	b := buffer(2)
	pods := b.Pods("default-scheduler")
	if len(pods) != 2 || pods[0].UID == pods[1].UID || pods[0].Name == pods[1].Name {
		t.Fatalf("%d pods", len(pods))
	}
	for _, p := range pods {
		if !catalog.PodRefOf(p).Virtual() || p.Namespace != "shop" || p.Labels["app"] != "web" || plan.GangOf(p).Name != "" {
			t.Errorf("pod %s/%s %s %v", p.Namespace, p.Name, p.UID, p.Labels)
		}
		lowest, never := buffers.Priority, corev1.PreemptNever
		want := corev1.PodSpec{
			SchedulerName: "default-scheduler", Priority: &lowest, PreemptionPolicy: &never, NodeSelector: map[string]string{"a": "b"},
			Volumes: b.Template.Spec.Volumes[2:],
		}
		if diff := cmp.Diff(want, p.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	}
	if b.Template.Spec.NodeName != "n" || b.Template.Labels[plan.LabelGang] != "g" {
		t.Error("the template was changed")
	}
	if plan.ClassKey(pods[0]) != plan.ClassKey(pods[1]) {
		t.Error("pods of one buffer are not of one class")
	}
}

// Whatever number is asked for, the number of pods is bounded.
func TestPodsAreBounded(t *testing.T) {
	for count, want := range map[int]int{-1: 0, 0: 0, 1: 1, 1 << 30: buffers.MostPods} {
		if got := len(buffer(count).Pods("s")); got != want {
			t.Errorf("%d pods of %d", got, count)
		}
	}
}

// No pod that exists counts as one of a buffer: the API server's UIDs have no slash.
func TestVirtual(t *testing.T) {
	for uid, want := range map[string]bool{"6f1c2a9e-0000-4000-8000-000000000000": false, "": false, "buffer/u/1": true} {
		if got := (catalog.PodRef{UID: uid}).Virtual(); got != want {
			t.Errorf("%q: %t", uid, got)
		}
	}
}

func names(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, string(p.UID))
	}
	return out
}

// Room follows its node from the NodeClaim to the Node, and ends with either, with the buffer, and with its namespace.
func TestTable(t *testing.T) {
	table, pods := buffers.NewTable(), buffer(3).Pods("s")
	table.Put(pods[0], "claim-1", "")
	table.Put(pods[1], "claim-1", "node-1")
	table.Put(pods[2], "", "node-2")
	if got := names(table.On("claim-1", "")); !slices.Equal(got, names(pods[:2])) {
		t.Errorf("on claim-1: %v", got)
	}
	before := table.Clone()
	table.Joined("claim-1", "node-1")
	if got := names(table.On("", "node-1")); !slices.Equal(got, names(pods[:2])) || len(table.On("claim-1", "")) > 0 {
		t.Errorf("on node-1: %v", got)
	}
	if diff := cmp.Diff(map[string]bool{"node-1": true, "node-2": true}, table.Nodes()); diff != "" {
		t.Error(diff)
	}
	before.Failed("claim-1")
	if got := names(before.On("", "node-2")); before.Len() != 1 || !slices.Equal(got, names(pods[2:])) {
		t.Errorf("after claim-1 failed: %v", before)
	}
	other := *buffer(1)
	other.Namespace, other.UID = "other", "v"
	table.Put(other.Pods("s")[0], "", "node-2")
	table.Keep("shop", map[types.UID]bool{pods[0].UID: true}, []string{"shop", "other"})
	if table.Len() != 2 || table.Pod(pods[0].UID) == nil || table.Pod(pods[1].UID) != nil {
		t.Errorf("after the buffer got smaller: %v", table)
	}
	table.Keep("shop", nil, []string{"other"})
	if claim, node := table.Of(pods[0].UID); table.Len() != 1 || claim+node != "" {
		t.Errorf("after the buffer was deleted: %v", table)
	}
	table.Keep("shop", nil, nil)
	if table.Len() != 0 {
		t.Errorf("after the namespace was deleted: %v", table)
	}
}

// shop is a table with two pods of each of two buffers on NodeClaim c, the first of which is reserved.
func shop() (table *buffers.Table, pods []*corev1.Pod) {
	table = buffers.NewTable()
	for _, uid := range []string{"u", "v"} {
		b := *buffer(2)
		b.UID, b.Name = uid, "buffer-"+uid
		for _, p := range b.Pods("s") {
			table.Put(p, "c", "")
			pods = append(pods, p)
		}
	}
	table.Reserve("shop", map[string]*buffersize.Matcher{"u": {Namespace: "shop", Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}})
	return table, pods
}

// reserved are the sorted names of the pods on NodeClaim c whose room is reserved, but not of the buffers.
func reserved(table *buffers.Table, but map[string]bool) []string {
	var out []*corev1.Pod
	table.EachReserved(but)(func(pod *corev1.Pod, claim, _ string) {
		if claim == "c" {
			out = append(out, pod)
		}
	})
	got := names(out)
	slices.Sort(got)
	return got
}

// Reserved room counts for all but its takers, stands on the Node that the claim has by now, and ends with what is promised to them.
func TestReservedRoom(t *testing.T) {
	table, pods := shop()
	if got := reserved(table, nil); !slices.Equal(got, names(pods[:2])) {
		t.Errorf("kept against others: %v", got)
	}
	if got := reserved(table, map[string]bool{"u": true}); len(got) != 0 {
		t.Errorf("kept against takers: %v", got)
	}
	if got := table.Standing(nil); len(got) != 0 {
		t.Errorf("standing before there is a Node: %v", got)
	}
	got := table.Standing(map[string]catalog.InFlightNode{"c": {NodeName: "n"}})["n"]
	if len(got) != 2 || got[0].Of != "u" || got[0].Need.Name != "CapacityBuffer shop/buffer-u" {
		t.Errorf("standing %v", got)
	}
	table.Took("c", map[string]bool{"v": true}, 0)
	table.Took("c", nil, 2)
	table.Took("c", map[string]bool{"u": true}, 1)
	if got := names(table.On("c", "")); !slices.Equal(got, names(pods[1:])) {
		t.Errorf("after one pod was promised it: %v", got)
	}
	table.Joined("c", "n")
	table.Terminate([]string{"n", "m"})
	if !table.Terminates("n") || table.Terminates("m") {
		t.Error("the nodes that terminate")
	}
	table.Keep("other", nil, nil)
	if table.Terminates("n") || table.Len() != 0 || len(table.Standing(nil)) != 0 {
		t.Error("the namespace has no buffers any more")
	}
}

// A batch is divided by whose reserved room its pods may take; the number of parts is bounded, and a gang is one part.
func TestGroups(t *testing.T) {
	table, _ := shop()
	of := func(namespace, app, gang string) intake.Entry {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Labels = namespace, map[string]string{"app": app}
		return intake.Entry{Pod: pod, Gang: plan.Gang{Name: gang}}
	}
	entries := []intake.Entry{
		of("shop", "db", ""), of("shop", "web", ""), of("other", "web", ""), of("shop", "db", "g"), of("shop", "web", "g"), of("shop", "web", ""),
	}
	groups := table.Groups(entries)
	if len(groups) != 2 || len(groups[0].Entries) != 2 || !groups[0].Buffers["u"] || len(groups[1].Entries) != 4 || groups[1].Buffers != nil {
		t.Errorf("groups %v", groups)
	}
	many := map[string]*buffersize.Matcher{}
	entries = nil
	for i := range 3 * buffers.MostGroups {
		app := fmt.Sprint("app-", i)
		many[app] = &buffersize.Matcher{Namespace: "shop", Selector: labels.SelectorFromSet(labels.Set{"app": app})}
		entries = append(entries, of("shop", app, ""))
	}
	table.Reserve("shop", many)
	if groups = table.Groups(entries); len(groups) != buffers.MostGroups+1 || len(groups[buffers.MostGroups].Entries) != 2*buffers.MostGroups {
		t.Errorf("%d groups", len(groups))
	}
	table.Reserve("shop", nil)
	if groups = table.Groups(entries); len(groups) != 1 || len(groups[0].Entries) != len(entries) {
		t.Errorf("without reserved buffers: %v", groups)
	}
}

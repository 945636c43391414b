package reservations

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// ownedPod is one of an owner's, on a node; owner is empty for a bare pod.
func ownedPod(name, owner, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	return pod
}

// reservedFor has room on node n for pods named OWNER-NUMBER, or NAME, of node old, which terminates.
func reservedFor(inMove bool, made time.Time, names ...string) *Table {
	t := New(Config{Pod: func(ref catalog.PodRef) *corev1.Pod {
		owner, _, owned := strings.Cut(ref.Name, "-")
		if !owned {
			owner = ""
		}
		return ownedPod(ref.Name, owner, "old")
	}})
	for _, name := range names {
		t.Reserve([]plan.Member{{Pods: []catalog.PodRef{{Name: name}}}}, Place{Node: "n", InMove: inMove, At: made})
	}
	return t
}

// What is kept from a pod on a node, as names of the pods that it is for.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		name string
		// on are the pods on the node by now, beside those of them that were there before; left are the old pods that have.
		on, beside, left []string
		pod              string
		want             []string
	}{
		{name: "a stranger", pod: "x-1", want: []string{"a-1", "a-2", "b-1", "bare"}},
		{name: "a pod of the owner, while none has left", pod: "a-9", want: []string{"a-1", "a-2", "b-1", "bare"}},
		{name: "a replacement", left: []string{"a-1"}, pod: "a-9", want: []string{"a-2", "b-1", "bare"}},
		{name: "the second replacement has its own room", left: []string{"a-1", "a-2"}, on: []string{"a-8"}, pod: "a-9", want: []string{"b-1", "bare"}},
		{name: "a third pod is no replacement", left: []string{"a-1"}, on: []string{"a-8"}, pod: "a-9", want: []string{"a-2", "b-1", "bare"}},
		{name: "a pod that came takes from none but its own", on: []string{"a-8"}, left: []string{"a-1"}, pod: "x-1", want: []string{"a-2", "b-1", "bare"}},
		{name: "a pod that was there takes nothing", on: []string{"a-7"}, beside: []string{"a-7"}, pod: "x-1", want: []string{"a-1", "a-2", "b-1", "bare"}},
		{name: "a bare pod has no replacement", left: []string{"bare"}, pod: "x-1", want: []string{"a-1", "a-2", "b-1"}},
		{name: "the pod itself", pod: "b-1", want: []string{"a-1", "a-2", "bare"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := reservedFor(true, time.Now(), "a-1", "a-2", "b-1", "bare")
			for _, name := range c.beside {
				b.exclude(ownedPod(name, "a", "n"))
			}
			info := framework.NewNodeInfo()
			info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			for _, name := range c.on {
				pi, err := framework.NewPodInfo(ownedPod(name, "a", "n"))
				if err != nil {
					t.Fatal(err)
				}
				info.AddPodInfo(pi)
			}
			owner, _, _ := strings.Cut(c.pod, "-")
			got := []string{}
			for _, d := range b.reserved.board(nil).Needs(ownedPod(c.pod, owner, ""), info, func(p *corev1.Pod) bool { return slices.Contains(c.left, p.Name) }) {
				got = append(got, strings.TrimPrefix(d.Name, "default/"))
			}
			slices.Sort(got)
			// Which of an owner's equal slots is meant does not matter.
			if diff := cmp.Diff(kinds(c.want), kinds(got)); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

// kinds counts names by their owner.
func kinds(names []string) map[string]int {
	out := map[string]int{}
	for _, name := range names {
		owner, _, _ := strings.Cut(name, "-")
		out[owner]++
	}
	return out
}

// A replacement pod that has a place ends the reservation of one pod that left: one on its own node first.
func TestReplacementEndsAReservation(t *testing.T) {
	b := reservedFor(true, time.Now(), "a-1", "a-2")
	second := b.reserved["a-2"]
	second.node = "m"
	b.reserved["a-2"] = second
	if b.endFor(ownedPod("a-8", "a", "m")) {
		t.Error("a reservation ends while no pod has left")
	}
	for uid, q := range b.reserved {
		q.left = time.Now()
		b.reserved[uid] = q
	}
	if b.endFor(ownedPod("x-1", "x", "m")) || b.endFor(ownedPod("bare", "", "m")) {
		t.Error("a stranger ends a reservation")
	}
	if !b.endFor(ownedPod("a-8", "a", "m")) || len(b.reserved) != 1 || b.reserved["a-1"].need.Pod == nil {
		t.Errorf("%v is left, want the room of a-1 on the other node", slices.Collect(maps.Keys(b.reserved)))
	}
	if !b.endFor(ownedPod("a-9", "a", "elsewhere")) || len(b.reserved) != 0 {
		t.Error("a replacement that went elsewhere leaves the reservation")
	}
}

// A reservation lapses when no pod comes for it, the move was called off, or it has lasted too long.
func TestTidy(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name, pod     string
		move, leaving bool
		age, left     time.Duration
		gone, want    bool
	}{
		{name: "a move under way", pod: "a-1", move: true, leaving: true, age: 50 * time.Minute, want: true},
		{name: "a move that takes more than an hour", pod: "a-1", move: true, leaving: true, age: 61 * time.Minute},
		{name: "a move whose cordon is not seen yet", pod: "a-1", move: true, age: 4 * time.Second, want: true},
		{name: "a move that was called off", pod: "a-1", move: true, age: 6 * time.Second},
		{name: "a node that goes, with no cordon to be seen", pod: "a-1", age: 4 * time.Minute, want: true},
		{name: "a node that does not go after all", pod: "a-1", age: 6 * time.Minute},
		{name: "a pod that has just left waits for its replacement", pod: "a-1", move: true, age: time.Minute, gone: true, want: true},
		{name: "its replacement is on its way", pod: "a-1", move: true, age: time.Minute, left: 20 * time.Second, gone: true, want: true},
		{name: "no replacement comes", pod: "a-1", move: true, age: time.Minute, left: 31 * time.Second, gone: true},
		{name: "nothing follows a bare pod", pod: "bare", move: true, leaving: true, age: time.Minute, gone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := reservedFor(c.move, now.Add(-c.age), c.pod)
			q := b.reserved[types.UID(c.pod)]
			if c.left > 0 {
				q.left = now.Add(-c.left)
				b.reserved[types.UID(c.pod)] = q
			}
			b.Pod = func(catalog.PodRef) *corev1.Pod {
				if c.gone {
					return nil
				}
				return q.need.Pod
			}
			b.Terminates = func(string) bool { return c.leaving }
			b.Tidy(now)
			if _, kept := b.reserved[types.UID(c.pod)]; kept != c.want {
				t.Errorf("kept: %t, want %t", kept, c.want)
			}
		})
	}
}

// Room that others have taken is given up, all of the node's.
func TestOverdrawn(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("2"),
	}}})
	need := func(cpu string) Need {
		return Need{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	for _, c := range []struct {
		needs []Need
		want  bool
	}{
		{needs: nil},
		{needs: []Need{need("1")}},
		{needs: []Need{need("600m"), need("500m")}, want: true},
		{needs: []Need{need("1m"), need("1m"), need("1m")}, want: true},
	} {
		if got := overdrawn(info, c.needs); got != c.want {
			t.Errorf("%d needs are overdrawn: %t, want %t", len(c.needs), got, c.want)
		}
	}
}

// Room whose host port another pod has, or that another keeps off, is given up, whichever came first.
func TestConflicts(t *testing.T) {
	namespaces := corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	pod := func(name string, hostPort int32, away string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}}}
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: hostPort}}}}
		if away != "" {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": away}},
			}}}}
		}
		return p
	}
	urgent, leaving, over := pod("urgent", 80, ""), pod("leaving", 80, ""), pod("over", 80, "")
	urgent.Spec.Priority, leaving.DeletionTimestamp, over.Status.Phase = new(int32(1000)), new(metav1.Now()), corev1.PodSucceeded
	for _, c := range []struct {
		on, kept *corev1.Pod
		want     bool
	}{
		{on: urgent, kept: pod("kept", 80, ""), want: true},
		{on: urgent, kept: pod("kept", 81, "")},
		{on: leaving, kept: pod("kept", 80, "")},
		{on: over, kept: pod("kept", 80, "")},
		{on: pod("other", 0, "kept"), kept: pod("kept", 0, ""), want: true},
		{on: pod("other", 0, ""), kept: pod("kept", 0, "other"), want: true},
		{on: pod("other", 0, ""), kept: pod("kept", 0, "kept")},
	} {
		info := framework.NewNodeInfo(c.on)
		info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}}})
		if got := conflicts(info, []Need{NeedOf(c.kept)}, namespaces); got != c.want {
			t.Errorf("room for %s beside %s conflicts: %t, want %t", c.kept.Name, c.on.Name, got, c.want)
		}
	}
}

// A replacement pod is planned before all others, into the room of one displaced pod that has left, which is not counted again
// when the replacement comes.
func TestDivide(t *testing.T) {
	now := time.Now()
	b := reservedFor(true, now, "a-1", "a-2")
	gone := map[string]bool{"a-1": true}
	b.Pod = func(ref catalog.PodRef) *corev1.Pod {
		if gone[ref.Name] {
			return nil
		}
		return ownedPod(ref.Name, "a", "old")
	}
	b.Terminates = func(string) bool { return true }
	entry := func(name, owner string) intake.Entry { return intake.Entry{Pod: ownedPod(name, owner, "")} }
	whole := entry("a-7", "a")
	whole.Gang = plan.Gang{Name: "g"}
	first, others := b.Divide([]intake.Entry{entry("x-1", "x"), whole, entry("a-8", "a"), entry("a-9", "a")}, now)
	if len(first) != 1 || first[0].Pod.Name != "a-8" || len(others) != 3 || b.Has("a-1") || !b.Has("a-2") {
		t.Fatalf("%d replacement pods, %d others, %v is reserved", len(first), len(others), b.Displaced())
	}
	gone["a-2"] = true
	came := ownedPod("a-8", "a", "n")
	if ended := b.Arrived([]*corev1.Pod{came}, now); ended != 0 || !b.Has("a-2") {
		t.Errorf("%d reservations ended for a pod whose own had ended", ended)
	}
	if ended := b.Arrived([]*corev1.Pod{ownedPod("a-9", "a", "n")}, now); ended != 1 || b.Has("a-2") {
		t.Errorf("%d reservations ended for the second replacement", ended)
	}
}

// Of pods that share a ReadWriteOncePod claim the replacement waits until the displaced one has ended. The room stays reserved for it, however long that one terminates.
func TestDivideAwaitsClaim(t *testing.T) {
	start := time.Now()
	b := reservedFor(true, start, "a-1")
	ends := ownedPod("a-1", "a", "old")
	ends.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	ends.DeletionTimestamp = new(metav1.NewTime(start))
	b.Pod = func(catalog.PodRef) *corev1.Pod { return ends }
	b.Reserve([]plan.Member{{Pods: []catalog.PodRef{{Name: "a-1"}}}}, Place{Node: "n", InMove: true, At: start})
	once := true
	b.OncePod = func(namespace, claim string) bool { return once && namespace == "default" && claim == "data" }
	next := ownedPod("a-9", "a", "")
	next.Spec.Volumes = ends.Spec.Volumes
	entries := []intake.Entry{{Pod: next}}
	long := start.Add(2 * replacementWithin)
	b.Tidy(start)
	if first, others := b.Divide(entries, long); len(first) != 0 || len(others) != 1 || !b.Has("a-1") {
		t.Fatalf("%d replacement pods and %d others while the displaced pod has the claim, reserved: %v", len(first), len(others), b.Displaced())
	}
	b.Pod = func(catalog.PodRef) *corev1.Pod { return nil }
	if b.Tidy(long.Add(replacementWithin)); !b.Has("a-1") {
		t.Fatal("the room is free before a replacement could come")
	}
	if first, _ := b.Divide(entries, long.Add(replacementWithin)); len(first) != 1 {
		t.Errorf("%d replacement pods once the displaced pod has ended", len(first))
	}
	b.Pod, once = func(catalog.PodRef) *corev1.Pod { return ends }, false
	b.Reserve([]plan.Member{{Pods: []catalog.PodRef{{Name: "a-1"}}}}, Place{Node: "n", InMove: true, At: start})
	if first, _ := b.Divide(entries, start); len(first) != 1 {
		t.Errorf("%d replacement pods that share a claim which several pods may use", len(first))
	}
}

// A pod of another namespace that names the same controller takes none of the room, and ends no reservation: whoever writes a pod chooses its references.
func TestOtherNamespacesNameTheController(t *testing.T) {
	now := time.Now()
	b := reservedFor(true, now, "a-1")
	b.Terminates = func(string) bool { return true }
	b.Pod = func(catalog.PodRef) *corev1.Pod { return nil }
	b.Tidy(now)
	faked := ownedPod("a-9", "a", "")
	faked.Namespace = "tenant"
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	left := func(*corev1.Pod) bool { return true }
	board := b.reserved.board(nil)
	if len(board.Needs(faked, info, left)) != 1 || board.For(faked) || board.Takes(faked, info, left) {
		t.Error("the pod may take the room")
	}
	if replacements, _ := b.Divide([]intake.Entry{{Pod: faked}}, now); len(replacements) > 0 {
		t.Error("the pod is planned first")
	}
	placed := ownedPod("a-9", "a", "n")
	placed.Namespace = "tenant"
	if ended := b.Arrived([]*corev1.Pod{placed}, now); ended != 0 || !b.Has("a-1") {
		t.Errorf("%d reservations ended", ended)
	}
	if own := ownedPod("a-9", "a", ""); len(board.Needs(own, info, left)) != 0 || !board.Takes(own, info, left) {
		t.Error("the replacement may not take the room")
	}
}

// What is published names the Nodes of claims in flight, and room that is free again is noticed once.
func TestPublish(t *testing.T) {
	b := reservedFor(true, time.Now(), "a-1")
	r := b.reserved["a-1"]
	r.node, r.claim = "", "claim"
	b.reserved["a-1"] = r
	b.Publish(nil, nil)
	if !b.Board().Empty() || !b.Board().On("claim", "") || b.Board().On("", "n") {
		t.Error("room is published whose Node is not known, or not for its NodeClaim")
	}
	frees := func(inFlight map[string]catalog.InFlightNode) bool {
		before := b.Board().Freed()
		b.Publish(inFlight, nil)
		return b.Board().Freed() > before
	}
	if frees(map[string]catalog.InFlightNode{"claim": {NodeName: "n"}}) || !b.Board().On("", "n") || !b.Board().For(ownedPod("a-9", "a", "")) {
		t.Error("the room of a node in flight is not published")
	}
	b.Failed("claim")
	if !frees(nil) || frees(nil) || b.Board().On("", "n") {
		t.Error("room that is free again is not noticed once")
	}
}

// Room that others have taken is given up, except on a node that takes no pods yet.
func TestDropTaken(t *testing.T) {
	for _, c := range []struct {
		name, cpu string
		taint     string
		want      bool
	}{
		{name: "there is room", cpu: "2"},
		{name: "there is none", cpu: "100m", want: true},
		{name: "the node has not joined", cpu: "100m", taint: catalog.StartingTaintKey},
		{name: "a readiness rule waits", cpu: "100m", taint: "readiness.k8s.io/cni"},
		{name: "it has a taint of its own", cpu: "100m", taint: "example.com/readiness.k8s.io", want: true},
	} {
		b := reservedFor(true, time.Now(), "a-1")
		b.Pod = func(catalog.PodRef) *corev1.Pod { return b.reserved["a-1"].need.Pod }
		pod := b.reserved["a-1"].need.Pod
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
		b.Reserve([]plan.Member{{Pods: []catalog.PodRef{{Name: pod.Name}}}}, Place{Node: "n", InMove: true, At: time.Now()})
		info := framework.NewNodeInfo()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(c.cpu), corev1.ResourcePods: resource.MustParse("10"),
		}}}
		if c.taint != "" {
			node.Spec.Taints = []corev1.Taint{{Key: c.taint}}
		}
		info.SetNode(node)
		lost := b.DropTaken(func(string) (fwk.NodeInfo, error) { return info, nil })
		if got := lost == "default/a-1"; got != c.want || b.Has("a-1") == c.want {
			t.Errorf("%s: lost %q, reserved %t", c.name, lost, b.Has("a-1"))
		}
	}
}

// The planner publishes all reservations in each of its steps: what they need is not computed again.
func TestPublishingComputesNoNeeds(t *testing.T) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("a-%d", i)
	}
	table := reservedFor(true, time.Now(), names...)
	if n := testing.AllocsPerRun(5, func() { table.Publish(nil, nil) }); n > 100 {
		t.Errorf("publishing 1,000 reservations on a node takes %.0f allocations", n)
	}
}

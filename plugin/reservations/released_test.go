package reservations

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

// A pod that was released from its ReplicaSet runs until its replacement is Ready: the room is the replacement's from the release on, and as long as it takes.
// One that its set adopts again has its room back.
func TestReleasedPodsLeaveTheirRoom(t *testing.T) {
	start := time.Now()
	b := reservedFor(true, start, "a-1")
	b.Terminates = func(string) bool { return true }
	released, adopted := ownedPod("a-1", "", "old"), ownedPod("a-1", "a", "old")
	annotations := map[string]string{disruption.ReleasedAnnotation: disruption.Released{Set: "a", Version: "1", At: start}.String()}
	released.Annotations, adopted.Annotations = annotations, annotations
	current := released
	b.Pod = func(catalog.PodRef) *corev1.Pod { return current }
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	next := ownedPod("a-9", "a", "")
	takes := func() bool {
		board := b.reserved.board(nil)
		return board.Takes(next, info, b.Left) && len(board.Needs(next, info, b.Left)) == 0
	}
	long := start.Add(2 * replacementWithin)
	b.Tidy(start)
	if b.Tidy(long); !b.Has("a-1") || !takes() {
		t.Fatalf("reserved: %v; the replacement may not take the room of a pod that waits for it", b.Displaced())
	}
	if board := b.reserved.board(nil); len(board.Needs(ownedPod("x-1", "x", ""), info, b.Left)) != 1 {
		t.Error("a stranger may take the room")
	}
	current = adopted
	if first, _ := b.Divide([]intake.Entry{{Pod: next}}, long); len(first) != 0 || takes() {
		t.Error("another pod may take the room of one that its set has adopted again")
	}
	if ended := b.Arrived([]*corev1.Pod{ownedPod("a-8", "a", "n")}, long.Add(2*replacementWithin)); ended != 0 || !b.Has("a-1") {
		t.Errorf("%d reservations ended for another pod of the set that has adopted it again", ended)
	}
	current = released
	if first, _ := b.Divide([]intake.Entry{{Pod: next}}, long); len(first) != 1 || b.Has("a-1") {
		t.Errorf("%d replacement pods; reserved: %v", len(first), b.Displaced())
	}
}

// The room of a released pod that came to its replacement is not reserved a second time beside it, whichever of several owners' pods were released.
func TestReplacementsOfReleasedPodsEndReservations(t *testing.T) {
	now := time.Now()
	b := reservedFor(true, now, "a-1", "b-1")
	b.Pod = func(ref catalog.PodRef) *corev1.Pod {
		pod := ownedPod(ref.Name, "", "old")
		pod.Annotations = map[string]string{disruption.ReleasedAnnotation: ""}
		return pod
	}
	b.Terminates = func(string) bool { return true }
	for i, owner := range []string{"a", "b"} {
		if ended := b.Arrived([]*corev1.Pod{ownedPod(owner+"-9", owner, "n")}, now); ended != 1 || len(b.reserved) != 1-i {
			t.Errorf("%d reservations ended for the replacement of %s, %v are left", ended, owner, b.Displaced())
		}
	}
}

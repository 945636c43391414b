package index_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// A NodePool's status changes with each node: NodeClaims are not examined for it. They are for its spec, for annotations such as the one that pauses
// disruption, and when it comes or goes.
func TestPoolChanges(t *testing.T) {
	changes := index.PoolChanges()
	before := &karpv1.NodePool{}
	before.Generation = 1
	status, spec, paused := before.DeepCopy(), before.DeepCopy(), before.DeepCopy()
	status.ResourceVersion, status.Status.NodeClassObservedGeneration = "2", 7
	spec.Generation = 2
	paused.Annotations = map[string]string{catalog.PausedAnnotation: "true"}
	for name, c := range map[string]struct {
		after *karpv1.NodePool
		want  bool
	}{"status": {status, false}, "spec": {spec, true}, "annotation": {paused, true}} {
		if got := changes.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}); got != c.want {
			t.Errorf("a change of the %s counts: %t, want %t", name, got, c.want)
		}
	}
	if !changes.Create(event.CreateEvent{Object: before}) || !changes.Delete(event.DeleteEvent{Object: before}) {
		t.Error("a NodePool that comes or goes does not count")
	}
}

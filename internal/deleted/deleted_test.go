package deleted_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/internal/deleted"
)

// A deletion that was seen has the object, and one that was missed a tombstone with it.
func TestObject(t *testing.T) {
	pod := &corev1.Pod{}
	for name, given := range map[string]any{"seen": pod, "missed": cache.DeletedFinalStateUnknown{Key: "a/b", Obj: pod}} {
		if got := deleted.Object(given); got != any(pod) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

package consolidate_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// TestProtectedForATime checks the Events of a pod that may not be disrupted for ten minutes: the end of that time, and once
// that it has passed. From then on its node is a candidate.
func TestProtectedForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pod := &corev1.Pod{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "pod-a"}, pod); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(10 * time.Minute)
		pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "10m"}
		if err := w.api.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pod.Status.StartTime = new(metav1.Now())
		if err := w.api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.run(40 * time.Minute)
		recorded := slices.DeleteFunc(slices.Clone(w.events), func(e string) bool { return !strings.HasPrefix(e, "Pod ") })
		if diff := cmp.Diff([]string{
			"Pod pod-a DoNotDisruptUntil: The karpenter.sh/do-not-disrupt grace period will elapse at " + until.UTC().Format(time.RFC3339),
			"Pod pod-a DoNotDisruptGracePeriodElapsed: The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable",
		}, recorded); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		blocked := func(i int) string { return w.asked[i].GetNodes()[0].GetBlocked() }
		if first, last := blocked(0), blocked(len(w.asked)-1); !strings.Contains(first, "Pod web/pod-a") || last != "" {
			t.Errorf("node a was blocked by %q, and by %q in the end", first, last)
		}
	})
}

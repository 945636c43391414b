package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/sim"
)

// A kubelet writes when it pulls an image, and when it starts a container, as it happens. A second pod finds the image.
func TestImagesAndContainersAreReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.boot(machine())
		w.at(50 * time.Second)
		from := time.Now()
		w.bind(pod("first", "100m"))
		w.at(52 * time.Second)
		if got := w.reported("first", from); got != "0s Pulling" {
			t.Errorf("while it pulls: %s", got)
		}
		w.at(60 * time.Second)
		if got := w.reported("first", from); got != "0s Pulling, 3s Pulled, 3s Created, 3s Started" {
			t.Errorf("the first pod: %s", got)
		}
		w.bind(pod("second", "100m"))
		w.at(70 * time.Second)
		if got := w.reported("second", from); got != "10s Pulled, 10s Created, 10s Started" {
			t.Errorf("the second pod: %s", got)
		}
	})
	inLightWorld(t, func(w *world) {
		w.boot(machine())
		w.at(50 * time.Second)
		w.bind(pod("first", "100m"))
		w.at(60 * time.Second)
		if got := w.reported("first", w.start); got != "" {
			t.Errorf("a light machine reports %s", got)
		}
		asks := pod("asks", "100m")
		asks.Annotations[sim.ReportAnnotation] = "true"
		w.bind(asks)
		w.at(70 * time.Second)
		if got := w.reported("asks", w.start.Add(time.Minute)); got != "0s Pulled, 0s Created, 0s Started" {
			t.Errorf("a light machine reports %s of a pod that asks for it", got)
		}
	})
}

// reported returns the Events of images and containers of a pod, with the whole seconds since from.
func (w *world) reported(pod string, from time.Time) string {
	w.t.Helper()
	list, err := w.client.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return strings.Compare(a.Name, b.Name) })
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == pod && e.InvolvedObject.FieldPath == "spec.containers{app}" {
			out = append(out, fmt.Sprintf("%s %s", e.FirstTimestamp.Sub(from).Truncate(time.Second), e.Reason))
		}
	}
	return strings.Join(out, ", ")
}

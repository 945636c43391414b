package sim_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A held machine has no kubelet however long it takes, one of another NodePool has; once it is let go, its network takes as long as
// any other's, from the kubelet's start.
func TestHeldMachineBootsWhenItIsLetGo(t *testing.T) {
	inBoth(t, func(w *world) {
		release, other := w.holds.Hold("default"), w.holds.Hold("another")
		w.boot(machine())
		w.at(time.Hour)
		if _, err := w.client.CoreV1().Nodes().Get(w.ctx, nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("the held machine has registered its Node: %v", err)
		}
		release()
		release()
		w.at(time.Hour + 7*time.Second)
		if got := ready(w.node()); got != "False/KubeletNotReady" {
			t.Errorf("seven seconds after its start the Node is %s", got)
		}
		w.at(time.Hour + 9*time.Second)
		if got := ready(w.node()); got != "True/KubeletReady" {
			t.Errorf("nine seconds after its start the Node is %s", got)
		}
		other()
	})
}

package sim_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// writes counts the requests of the verbs for the resource.
func writes(client *fake.Clientset, resource string, verbs ...string) int {
	n := 0
	for _, a := range client.Actions() {
		for _, verb := range verbs {
			if a.GetResource().Resource == resource && a.GetVerb() == verb {
				n++
			}
		}
	}
	return n
}

// A light machine writes a pod's status once, when the pod runs, as much later as any other machine.
func TestLightMachineReportsAPodOnce(t *testing.T) {
	inLightWorld(t, func(w *world) {
		w.boot(machine())
		w.at(40 * time.Second)
		w.client.ClearActions()
		w.bind(pod("a", "100m"))
		w.at(43 * time.Second)
		if p := w.pod("a"); p.Status.Phase != corev1.PodPending {
			t.Errorf("while its image is pulled it is %s", p.Status.Phase)
		}
		w.at(44 * time.Second)
		p := w.pod("a")
		if p.Status.Phase != corev1.PodRunning || condition(p, corev1.PodReady) != corev1.ConditionTrue || p.Status.PodIP == "" {
			t.Errorf("status %+v", p.Status)
		}
		w.at(5 * time.Minute)
		if n := writes(w.client, "pods", "patch", "update"); n != 1 {
			t.Errorf("%d writes for a pod that runs, want 1", n)
		}
		if n := writes(w.client, "nodes", "patch", "update"); n != 0 {
			t.Errorf("%d statuses of the Node for a pod's image, want none", n)
		}
	})
}

// The Lease is renewed every minute, and the status as often as a kubelet does.
func TestLightMachineIsIdle(t *testing.T) {
	inLightWorld(t, func(w *world) {
		w.boot(machine())
		w.at(60 * time.Second)
		w.client.ClearActions()
		w.at(60*time.Second + 10*time.Minute)
		if statuses, leases := writes(w.client, "nodes", "patch"), writes(w.client, "leases", "update"); statuses != 2 || leases != 10 {
			t.Errorf("in 10 minutes %d statuses and %d renewals of the Lease, want 2 and 10", statuses, leases)
		}
	})
}

// A machine more is no goroutine more.
func TestLightMachinesShareGoroutines(t *testing.T) {
	inLightWorld(t, func(w *world) {
		const many = 200
		before := runtime.NumGoroutine()
		for n := range many {
			m := machine()
			m.ID, m.PrivateDNSName = fmt.Sprintf("i-%04d", n), fmt.Sprintf("node-%d", n)
			w.boot(m)
		}
		w.at(time.Minute)
		synctest.Wait()
		if n := writes(w.client, "nodes", "create"); n != many {
			t.Errorf("%d machines have joined, want %d", n, many)
		}
		if more := runtime.NumGoroutine() - before; more > 0 {
			t.Errorf("%d machines have %d goroutines more", many, more)
		}
	})
}

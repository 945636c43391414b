package e2e_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/zonalshift"
)

// The cluster's traffic is shifted away from a zone: NodePools are told, and pods get nodes in the other zones, although the zone is the cheapest.
// Once the shift is canceled, nodes come to the zone again. The launcher's IAM policy allows it to read the shifts.
func TestZonalShiftAlone(t *testing.T) {
	w := newWorld(t, "zonal-shift")
	t.Cleanup(shared.AWS().Shifts.Back)
	w.restartWith(append(launcherSettings(featureGates), "enableZonalShift: true\n"...))
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		require(p, corev1.LabelTopologyZone, "us-east-1a", "us-east-1b")
	})
	subnets := shared.AWS().Resources().Subnets
	at := slices.IndexFunc(subnets, func(s aws.Subnet) bool { return s.Zone == "us-east-1a" })
	if err := shared.AWS().Shifts.Away(subnets[at].ZoneID, time.Hour); err != nil {
		t.Fatal(err)
	}
	w.awaitEvent(zonalshift.ReasonActive)
	w.deployment("away", 2, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(2)
	for _, c := range w.claimsOf(w.name) {
		if zone := c.Object.Labels[corev1.LabelTopologyZone]; zone != "us-east-1b" {
			t.Errorf("a node came to zone %s while the cluster is shifted away from us-east-1a", zone)
		}
	}
	shared.AWS().Shifts.Back()
	w.awaitEvent(zonalshift.ReasonCleared)
	w.deployment("back", 1, w.podSpec("1500m", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[corev1.LabelTopologyZone] = "us-east-1a" }))
	w.awaitRunning(3)
}

// awaitEvent waits for an Event about the test's NodePool. The launcher reads zonal shifts every half minute, and nothing else may happen
// meanwhile.
func (w *world) awaitEvent(reason string) {
	w.t.Helper()
	for begin := time.Now(); len(w.eventsAbout(w.name, reason)) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > patience {
			w.t.Fatalf("no Event %s within %s; end of the launcher's log:\n%s", reason, patience, w.Tail("launcher", 40))
		}
	}
}

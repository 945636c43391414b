package server_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// A NodePool whose nodes do not join launches nothing while it is held, and then one node, however many are requested and however old the
// plan is; the stream has the reason. When that node has joined, the next may be launched.
func TestGate(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	updates := w.watch(w.client)
	w.gate.Store(&health.Gate{Held: true, Why: "its nodes do not join"})
	w.subject.Recheck()
	w.await(updates, "a NodePool that is held", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && !u.GetNodePools()[0].GetReady() && u.GetNodePools()[0].GetNotReadyMessage() == "its nodes do not join"
	})
	if r := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})["default-1"]; r.GetRecorded() || r.GetReason() != "NodePoolNotReady" {
		t.Errorf("held: %+v", r)
	}
	w.gate.Store(&health.Gate{OneAtATime: true, Why: "its nodes do not join"})
	w.subject.Recheck()
	w.await(updates, "room for one node", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && u.GetNodePools()[0].GetReady() && u.GetNodePools()[0].GetLimits()["nodes"] == "1"
	})
	var recorded []string
	for name, r := range w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-2", "default"), planned("default-3", "default")}}) {
		if r.GetRecorded() {
			recorded = append(recorded, name)
		}
	}
	if len(recorded) != 1 {
		t.Fatalf("recorded %v, want one at a time", recorded)
	}
	w.await(updates, "that one is on its way", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && strings.HasSuffix(u.GetNodePools()[0].GetNotReadyMessage(), "one is on its way")
	})
	one := w.claim(recorded[0])
	one.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	if err := w.api.Status().Update(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	w.await(updates, "room for the next", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && u.GetNodePools()[0].GetReady() && u.GetNodePools()[0].GetLimits()["nodes"] == "2"
	})
}

// Instances that are stopped for a standby buffer do not stand for the node that is tried: they join when a pod wakes them.
func TestGateWhileInstancesSleep(t *testing.T) {
	asleep := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "asleep", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	asleep.Annotations = map[string]string{
		catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: record.FormatStandby(record.StandbyAsleep, time.Now()),
	}
	w := newWorld(t, append(ready("default", nil), asleep)...)
	w.gate.Store(&health.Gate{OneAtATime: true, Why: "its nodes do not join"})
	updates := w.watch(w.client)
	w.subject.Recheck()
	w.await(updates, "room for one node", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && u.GetNodePools()[0].GetReady() && u.GetNodePools()[0].GetLimits()["nodes"] == "2"
	})
	if r := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})["default-1"]; !r.GetRecorded() {
		t.Errorf("the node that is tried: %+v", r)
	}
}

// A limit of the user's own that is lower stays.
func TestGateKeepsLimits(t *testing.T) {
	w := newWorld(t, ready("default", karpv1.Limits{"nodes": resource.MustParse("0"), corev1.ResourceCPU: resource.MustParse("100")})...)
	w.gate.Store(&health.Gate{OneAtATime: true})
	updates := w.watch(w.client)
	w.subject.Recheck()
	w.await(updates, "the limits as they are", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && u.GetNodePools()[0].GetLimits()["nodes"] == "0" && u.GetNodePools()[0].GetLimits()["cpu"] == "100"
	})
}

// What an open window has takes the place of the limits, for the planner and for what is launched.
func TestWindowReplacesLimits(t *testing.T) {
	objects := ready("default", karpv1.Limits{"nodes": resource.MustParse("0")})
	objects[0].SetAnnotations(map[string]string{window.Annotation: `[{schedule: "* * * * *", duration: 1h, limits: {nodes: "1"}}]`})
	w := newWorld(t, objects...)
	updates := w.watch(w.client)
	w.await(updates, "the limits of the window", func(u *api.CatalogUpdate) bool {
		return len(u.GetNodePools()) == 1 && u.GetNodePools()[0].GetLimits()["nodes"] == "1"
	})
	recorded := 0
	for _, r := range w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default"), planned("default-2", "default")}}) {
		if r.GetRecorded() {
			recorded++
		}
	}
	if recorded != 1 {
		t.Errorf("%d claims recorded, want 1", recorded)
	}
}

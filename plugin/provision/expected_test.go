package provision_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// sizes returns a catalog with a type of 2 CPUs and one of 8, in one zone.
func sizes() catalog.State {
	out := verifytest.Zones("z1")
	large := out.InstanceTypes["default"][0]
	large.Name, large.Allocatable = "m7g.2xlarge", verifytest.Quantities("cpu", "8", "memory", "28Gi", "pods", "58")
	large.Offerings = []catalog.Offering{{Zone: "z1", CapacityType: "spot", Price: 0.05, Available: true}}
	list := append(out.InstanceTypes["default"], large)
	for i := range list {
		list[i].Capacity = list[i].Allocatable
	}
	out.InstanceTypes["default"] = list
	return out
}

// expecting plans with so many expected pods for each one of the class web, and returns the claims' names of types, pods and rooms, with how often the pods
// were planned.
func expecting(t *testing.T, cat catalog.State, classes []plan.Class, n int) (provision.Result, int) {
	t.Helper()
	plans := 0
	p, err := provision.New(provision.Config{Verifier: verifytest.New(t), Make: func(ctx context.Context, in plan.Input) plan.Plan {
		plans++
		return new(plan.Maker).Make(ctx, in)
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Provision(t.Context(), provision.Request{
		Classes: classes,
		Cluster: clusterview.Source{Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil }},
		Expected: func(ref catalog.PodRef) (string, int) {
			if !strings.HasPrefix(ref.Name, "web-") {
				return "", 0
			}
			return "default/web", n
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Plan.Claims {
		for _, m := range c.Members {
			for _, ref := range m.Pods {
				if ref.Virtual() {
					t.Errorf("the plan has a pod that does not exist: %v", ref)
				}
			}
		}
	}
	return r, plans
}

// One node with room for what is expected in place of a small one, within four times the pods that are there; no node for expected pods alone.
func TestRoomForExpectedPods(t *testing.T) {
	for _, c := range []struct {
		there, expected, claims, room int
		largest                       string
	}{
		{2, 0, 1, 0, "m7g.large"},
		{2, 6, 1, 6, "m7g.2xlarge"},
		{2, 1000, 1, 8, "m7g.2xlarge"},
		{1, 1, 1, 1, "m7g.large"},
	} {
		r, _ := expecting(t, sizes(), []plan.Class{verifytest.Class("web", c.there, verifytest.Pod("web"))}, c.expected)
		room, pods := 0, 0
		for _, claim := range r.Plan.Claims {
			for _, e := range claim.Expects {
				room += e.Pods
			}
			for _, m := range claim.Members {
				pods += len(m.Pods)
			}
		}
		if len(r.Plan.Claims) != c.claims || r.Plan.Claims[0].Expected.InstanceType != c.largest || room != c.room || pods != c.there || len(r.Plan.Unplaced) > 0 {
			t.Errorf("%d pods and %d expected: %d claims, the first %s, with %d pods and room for %d", c.there, c.expected, len(r.Plan.Claims),
				r.Plan.Claims[0].Expected.InstanceType, pods, room)
		}
	}
}

// What is expected takes nothing from pods that are there: where a limit is reached with it these are planned alone. Pods whose number or place matters
// to others are planned alone from the first.
func TestExpectedPodsTakeNothing(t *testing.T) {
	cat := sizes()
	pool := cat.NodePools["default"]
	pool.Limits = verifytest.Quantities("cpu", "2")
	cat.NodePools["default"] = pool
	plain := []plan.Class{verifytest.Class("web", 2, verifytest.Pod("web"))}
	r, _ := expecting(t, cat, plain, 6)
	if len(r.Plan.Claims) != 1 || len(r.Plan.Unplaced) > 0 || r.Plan.Claims[0].Expected.InstanceType != "m7g.large" {
		t.Errorf("within a limit of 2 CPUs: %+v", r.Plan)
	}
	spread := verifytest.Pod("web").SpreadConstraint(1, corev1.LabelTopologyZone, corev1.DoNotSchedule, st.MakeLabelSelector().Label("app", "web").Obj(), nil, nil, nil, nil)
	away := verifytest.Pod("web").PodAntiAffinityExists("app", corev1.LabelHostname, st.PodAntiAffinityWithRequiredReq)
	gang := verifytest.Pod("web").Label(plan.LabelGang, "g")
	for name, pod := range map[string]*st.PodWrapper{"spread": spread, "anti-affinity": away, "gang": gang} {
		r, plans := expecting(t, sizes(), []plan.Class{verifytest.Class("web", 2, pod)}, 6)
		if plans != 1 || len(r.Plan.Unplaced) > 0 {
			t.Errorf("%s: planned %d times, %+v", name, plans, r.Plan.Unplaced)
		}
		for _, c := range r.Plan.Claims {
			if len(c.Expects) > 0 {
				t.Errorf("%s: room for %v", name, c.Expects)
			}
		}
	}
	many := []plan.Class{verifytest.Class("web", 2, verifytest.Pod("web")), verifytest.Class("other", 1000, verifytest.Pod("other"))}
	if _, plans := expecting(t, sizes(), many, 6); plans != 1 {
		t.Errorf("very many pods were planned %d times", plans)
	}
}

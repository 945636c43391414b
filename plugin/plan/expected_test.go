package plan_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// refs are so many pods of a name.
func refs(name string, n int) []catalog.PodRef {
	out := make([]catalog.PodRef, n)
	for i := range out {
		out[i] = catalog.PodRef{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i), UID: fmt.Sprintf("%s-%d", name, i)}
	}
	return out
}

// Pods that are there get the room on existing nodes first, and then as few claims as they need; the rest of these is room for the expected ones.
func TestExpectedPodsLeaveThePlan(t *testing.T) {
	classes := []plan.Class{{Key: "web", Pods: refs("web", 3)}, {Key: "api", Pods: refs("api", 1)}}
	claim := func(name string, price float64, web, api int) plan.Claim {
		c := plan.Claim{Name: name, Expected: plan.Offer{Price: price}}
		for class, n := range []int{web, api} {
			if n > 0 {
				c.Members = append(c.Members, plan.Member{Class: class, Pods: plan.ExpectedPods("x", n)})
			}
		}
		return c
	}
	p := plan.Plan{
		Claims: []plan.Claim{claim("small", 0.1, 1, 0), claim("large", 0.3, 6, 1), claim("other", 0.3, 4, 0)}, CostPerHour: 0.7, FirstFitPerHour: 0.8,
		Placements: []plan.Placement{{Node: "there", Members: []plan.Member{{Class: 0, Pods: plan.ExpectedPods("x", 1)}}}},
		Unplaced:   []plan.Unplaced{{Class: 0, Pods: plan.ExpectedPods("x", 4)}},
	}
	got, ok := plan.WithoutExpected(p, classes, []int{3, 1}, map[int]string{0: "default/web"})
	if !ok {
		t.Error("a pod that is there has no room")
	}
	web, api := refs("web", 3), refs("api", 1)
	want := plan.Plan{
		Claims: []plan.Claim{{
			Name: "large", Expected: plan.Offer{Price: 0.3}, Members: []plan.Member{{Class: 0, Pods: web[1:]}, {Class: 1, Pods: api}},
			Expects: []plan.Room{{Workload: "default/web", Pods: 4}},
		}},
		Placements: []plan.Placement{{Node: "there", Members: []plan.Member{{Class: 0, Pods: web[:1]}}}},
	}
	if diff := cmp.Diff(want, plan.Plan{Claims: got.Claims, Placements: got.Placements, Unplaced: got.Unplaced}, cmpopts.IgnoreUnexported(plan.Plan{})); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if cost := got.CostPerHour; cost < 0.299 || cost > 0.301 {
		t.Errorf("the plan costs %f", cost)
	}
	if len(p.Claims[1].Members) != 2 || len(p.Claims[1].Members[0].Pods) != 6 {
		t.Error("the plan that was given has changed")
	}
	if _, ok := plan.WithoutExpected(p, classes, []int{3, 2}, nil); ok {
		t.Error("two pods of a class have the room of one")
	}
}

package provision_test

import (
	"context"
	"slices"
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

// solve plans with the maker given, on a cluster without nodes.
func solve(t *testing.T, cat catalog.State, classes []plan.Class, makePlan func(context.Context, plan.Input) plan.Plan) provision.Result {
	t.Helper()
	p, err := provision.New(provision.Config{Verifier: verifytest.New(t), Make: makePlan})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Provision(t.Context(), provision.Request{Classes: classes, Cluster: clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// oneEach is a stubborn planner: it puts all pods of each class on a node of its own, whatever was rejected.
func oneEach(_ context.Context, in plan.Input) plan.Plan {
	var claims []verifytest.Claim
	for i, c := range in.Classes {
		if len(c.Pods) > 0 {
			claims = append(claims, verifytest.Claim{Name: c.Key, Zone: "z1", Pods: map[int]int{i: len(c.Pods)}})
		}
	}
	return verifytest.PlanOf(in.Classes, claims...)
}

func names(list []plan.Unplaced) string {
	var out []string
	for _, u := range list {
		for _, ref := range u.Pods {
			out = append(out, ref.Name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// What the filters reject in spite of the planner being told is left out, with the filter's reason; the rest stays.
func TestRoundsLeavesOut(t *testing.T) {
	selective := verifytest.Pod("a").NodeSelector(map[string]string{"none": "such"})
	s := solve(t, verifytest.Zones("z1"), []plan.Class{verifytest.Class("b", 2, verifytest.Pod("b")), verifytest.Class("a", 2, selective)}, oneEach)
	if got := names(s.Plan.Unplaced); got != "a-0 a-1" {
		t.Errorf("left out %q, want the pods of a", got)
	}
	if len(s.Plan.Claims) != 1 || s.Plan.Claims[0].Members[0].Class != 0 {
		t.Errorf("claims %+v, want that of b under its own index", s.Plan.Claims)
	}
	if u := s.Plan.Unplaced[0]; u.Class != 1 || u.Reasons[0].Code != "FilterRejected" || !strings.Contains(u.Reasons[0].Message, "NodeAffinity") {
		t.Errorf("unplaced %+v, want class 1 with NodeAffinity's reason", u)
	}
	if len(s.Rejected) == 0 || s.Rounds < 2 {
		t.Errorf("%d rejections after %d rounds: the planner must be told first", len(s.Rejected), s.Rounds)
	}
}

// A gang of which a pod is left out goes as a whole.
func TestRoundsLeavesGangsOutAsAWhole(t *testing.T) {
	member := func(app string) *st.PodWrapper { return verifytest.Pod(app).Label(plan.LabelGang, "g") }
	classes := []plan.Class{
		verifytest.Class("a", 1, member("a").NodeSelector(map[string]string{"none": "such"})), verifytest.Class("b", 1, member("b")), verifytest.Class("c", 1, verifytest.Pod("c")),
	}
	s := solve(t, verifytest.Zones("z1"), classes, oneEach)
	if got := names(s.Plan.Unplaced); got != "a-0 b-0" {
		t.Errorf("left out %q, want the gang a and b", got)
	}
}

// The order in which pods come does not matter, and the plan speaks of the classes as they came.
func TestRoundsSortsClasses(t *testing.T) {
	classes := []plan.Class{verifytest.Class("b", 1, verifytest.Pod("b")), verifytest.Class("a", 2, verifytest.Pod("a"))}
	s := solve(t, verifytest.Zones("z1"), classes, func(ctx context.Context, in plan.Input) plan.Plan {
		if in.Classes[0].Key != "a" {
			t.Errorf("class %s is planned first, want a", in.Classes[0].Key)
		}
		return oneEach(ctx, in)
	})
	for _, c := range s.Plan.Claims {
		m := c.Members[0]
		if classes[m.Class].Key != c.Name || len(m.Pods) != len(classes[m.Class].Pods) {
			t.Errorf("claim %s has %d pods of class %d", c.Name, len(m.Pods), m.Class)
		}
	}
}

// twoTypes offers the tests' type and another one in two zones.
func twoTypes(other catalog.InstanceType) catalog.State {
	cat := verifytest.Zones("z1", "z2")
	other.Name = "other.large"
	if other.Allocatable == nil {
		other.Allocatable = cat.InstanceTypes["default"][0].Allocatable
	}
	other.Offerings = cat.InstanceTypes["default"][0].Offerings
	cat.InstanceTypes["default"] = append(cat.InstanceTypes["default"], other)
	return cat
}

// Alternatives on which the filters would not let a claim's pods be are taken out of it.
func TestRoundsTrimsAlternatives(t *testing.T) {
	for name, c := range map[string]struct {
		other catalog.InstanceType
		pod   *st.PodWrapper
		types string
		zones string
	}{
		"all will do":   {pod: verifytest.Pod("a"), types: "m7g.large other.large", zones: "z1 z2"},
		"too small":     {other: catalog.InstanceType{Allocatable: verifytest.Quantities("cpu", "900m", "memory", "7Gi", "pods", "20")}, pod: verifytest.Pod("a"), types: "m7g.large", zones: "z1 z2"},
		"wrong label":   {other: catalog.InstanceType{Labels: map[string]string{"disk": "slow"}}, pod: verifytest.Pod("a").NodeAffinityNotIn("disk", []string{"slow"}), types: "m7g.large", zones: "z1 z2"},
		"wrong zone":    {pod: verifytest.Pod("a").NodeSelector(map[string]string{corev1.LabelTopologyZone: "z1"}), types: "m7g.large other.large", zones: "z1"},
		"alias of zone": {pod: verifytest.Pod("a").NodeSelector(map[string]string{corev1.LabelFailureDomainBetaZone: "z1"}), types: "m7g.large other.large", zones: "z1"},
	} {
		t.Run(name, func(t *testing.T) {
			classes := []plan.Class{verifytest.Class("a", 2, c.pod)}
			s := solve(t, twoTypes(c.other), classes, func(context.Context, plan.Input) plan.Plan {
				p := verifytest.PlanOf(classes, verifytest.Claim{Name: "n", Zone: "z1", Pods: map[int]int{0: 2}})
				p.Claims[0].Alternatives = []string{"m7g.large", "other.large"}
				p.Claims[0].Requirements = []catalog.Requirement{
					{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m7g.large", "other.large"}},
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z1", "z2"}},
					{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}},
				}
				return p
			})
			got := s.Plan.Claims[0]
			if types := strings.Join(got.Alternatives, " "); types != c.types || strings.Join(got.Requirements[0].Values, " ") != c.types {
				t.Errorf("alternatives %q, required %v, want %q", types, got.Requirements[0].Values, c.types)
			}
			if z := strings.Join(got.Requirements[1].Values, " "); z != c.zones {
				t.Errorf("zones %q, want %q", z, c.zones)
			}
		})
	}
}

// Where a NodePool's minValues need an alternative that does not run the pods, the class is not for that pool's type.
func TestRoundsKeepsMinValues(t *testing.T) {
	classes := []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a").NodeAffinityNotIn("disk", []string{"slow"}))}
	cat := twoTypes(catalog.InstanceType{Labels: map[string]string{"disk": "slow"}})
	s := solve(t, cat, classes, func(_ context.Context, in plan.Input) plan.Plan {
		if len(in.Rejected) > 0 {
			return plan.Plan{Unplaced: []plan.Unplaced{{Class: 0, Pods: in.Classes[0].Pods, Reasons: []plan.Reason{{Code: "known"}}}}}
		}
		p := verifytest.PlanOf(classes, verifytest.Claim{Name: "n", Zone: "z1", Pods: map[int]int{0: 1}})
		p.Claims[0].Alternatives = []string{"m7g.large", "other.large"}
		p.Claims[0].Requirements = []catalog.Requirement{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m7g.large", "other.large"}, MinValues: 2},
		}
		return p
	})
	if len(s.Plan.Claims) > 0 || len(s.Rejected) == 0 || s.Rejected[0].InstanceType != "other.large" {
		t.Errorf("claims %v, rejected %v: want the planner to be told of other.large", s.Plan.Claims, s.Rejected)
	}
}

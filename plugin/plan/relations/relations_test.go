package relations_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

const zone = corev1.LabelTopologyZone

// pod has the label app and what the changes make of it.
func pod(app string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// spread is hard, over pods of the app web.
func spread(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector("web"),
		})
	}
}

func near(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector(app)}
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
	}
}

func apart(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector(app)}
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
	}
}

// related are the relations of one class per pod, with nodes in the zones a and b that have the pods.
func related(inA, inB []*corev1.Pod, planned ...*corev1.Pod) *relations.Relations {
	in := relations.Input{Nodes: []relations.Node{
		{Name: "node-a", Labels: map[string]string{zone: "a"}, Pods: inA}, {Name: "node-b", Labels: map[string]string{zone: "b"}, Pods: inB},
	}}
	for _, p := range planned {
		in.Classes = append(in.Classes, relations.Class{Pod: p, NodeAffinity: []catalog.Requirements{{}}})
	}
	re := relations.New(in)
	re.Index()
	return re
}

// in is a new node in the zone.
func in(z string) relations.Lookup {
	return func(key string) (string, bool) { return z, key == zone }
}

func TestPermits(t *testing.T) {
	for name, c := range map[string]struct {
		inA, inB []*corev1.Pod
		pod      *corev1.Pod
		n        int
		a, b     bool
	}{
		"spread to the emptier zone":             {[]*corev1.Pod{pod("web")}, nil, pod("web", spread(zone)), 1, false, true},
		"spread within the skew":                 {[]*corev1.Pod{pod("web")}, []*corev1.Pod{pod("web")}, pod("web", spread(zone)), 1, true, true},
		"spread beyond the skew at once":         {nil, nil, pod("web", spread(zone)), 2, false, false},
		"affinity to a pod that exists":          {[]*corev1.Pod{pod("db")}, nil, pod("web", near(zone, "db")), 1, true, false},
		"affinity to no pod":                     {nil, nil, pod("web", near(zone, "db")), 1, false, false},
		"affinity to itself, the first":          {nil, nil, pod("web", near(zone, "web")), 3, true, true},
		"anti-affinity to a pod that exists":     {[]*corev1.Pod{pod("db")}, nil, pod("web", apart(zone, "db")), 1, false, true},
		"anti-affinity to itself, two at once":   {nil, nil, pod("web", apart(zone, "web")), 2, false, false},
		"anti-affinity of others has no say yet": {nil, nil, pod("web"), 2, true, true},
	} {
		re := related(c.inA, c.inB, c.pod)
		p := relations.Part{Class: 0, N: c.n}
		if a, b := re.Permits(p, in("a"), true), re.Permits(p, in("b"), true); a != c.a || b != c.b {
			t.Errorf("%s: permitted in a %t, want %t; in b %t, want %t", name, a, c.a, b, c.b)
		}
	}
}

// A selector that is left out matches no pod, an empty one matches all: in one batch neither answers for the other, whichever comes first.
func TestSelectorsOfNoneAndOfAll(t *testing.T) {
	beside := func(s *metav1.LabelSelector) *corev1.Pod {
		return pod("web", near(zone, "any"), func(p *corev1.Pod) {
			p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = s
		})
	}
	for _, c := range []struct {
		name      string
		all, none int
	}{{"all first", 0, 1}, {"none first", 1, 0}} {
		planned := make([]*corev1.Pod, 2)
		planned[c.all], planned[c.none] = beside(&metav1.LabelSelector{}), beside(nil)
		re := related([]*corev1.Pod{pod("db")}, nil, planned...)
		for class, want := range map[int]bool{c.all: true, c.none: false} {
			if got := re.Permits(relations.Part{Class: class, N: 1}, in("a"), true); got != want {
				t.Errorf("%s: class %d is permitted in a %t, want %t", c.name, class, got, want)
			}
		}
	}
}

// Anti-affinity works both ways: of pods that exist, and of those that were placed.
func TestAntiAffinityOfOthers(t *testing.T) {
	re := related([]*corev1.Pod{pod("loner", apart(zone, "web"))}, nil, pod("web"), pod("other", apart(zone, "web")))
	if b := re.Blocked(0); !b.Forbids(in("a")) || b.Forbids(in("b")) || re.Blocked(1) != nil {
		t.Errorf("web is blocked at %v, want zone a; other at %v, want nowhere", b, re.Blocked(1))
	}
	re.Record(1, 1, in("b"))
	if re.Permits(relations.Part{Class: 0, N: 1}, in("b"), true) {
		t.Error("web may join a pod that has anti-affinity to it")
	}
	re.Record(1, -1, in("b"))
	if !re.Permits(relations.Part{Class: 0, N: 1}, in("b"), true) {
		t.Error("web may not come after the other was taken away")
	}
}

func TestBestDomain(t *testing.T) {
	re := related([]*corev1.Pod{pod("web"), pod("web")}, []*corev1.Pod{pod("web")}, pod("web", spread(zone)))
	domains := []relations.Domain{{Values: map[string]string{zone: "a"}, Name: "a"}, {Values: map[string]string{zone: "b"}, Name: "b", Rank: 1}}
	if got := re.BestDomain([]relations.Part{{Class: 0, N: 1}}, domains); got != 1 {
		t.Errorf("domain %d, want the one that is even", got)
	}
	if got := re.BestDomain([]relations.Part{{Class: 0, N: 1}}, domains[:1]); got != -1 {
		t.Errorf("domain %d, want none", got)
	}
}

// Pods that are taken away leave the others of a spread uneven: as many as are too many are given up.
func TestSettle(t *testing.T) {
	re := related(nil, nil, pod("web", spread(zone)))
	for range 3 {
		re.Record(0, 1, in("a"))
		re.Record(0, 1, in("b"))
	}
	most := []int{6}
	if !re.Settle([]int{6}, most, false) || most[0] != 6 {
		t.Errorf("an even spread is not settled; at most %d", most[0])
	}
	re.Record(0, -3, in("b"))
	if re.Settle([]int{3}, most, false) || most[0] != 1 {
		t.Errorf("settled with 3 in one zone and none in the other; at most %d, want 1", most[0])
	}
	if re.Settle([]int{3}, most, true) || most[0] != 0 {
		t.Errorf("the last time at most %d, want none", most[0])
	}
}

func TestGroups(t *testing.T) {
	host := corev1.LabelHostname
	re := related(nil, nil, pod("a", near(host, "b")), pod("b", near(host, "c")), pod("c"), pod("d", near(host, "nothing")))
	left := []int{1, 1, 1, 1}
	groups := re.Groups(left, bitset.New(4), func(string) bool { return true }, 110)
	group, ok := groups.Of(0, left)
	if !ok || !slices.Equal(group, []int{0, 1, 2}) {
		t.Errorf("group %v, %t, want a with b and c", group, ok)
	}
	if groups.Lost(0) || !groups.Lost(3) {
		t.Errorf("a is lost %t, d %t; want d alone", groups.Lost(0), groups.Lost(3))
	}
	if re := related(nil, nil, pod("a")); re.Groups([]int{1}, bitset.New(1), func(string) bool { return true }, 110) != nil {
		t.Error("pods without affinity have groups")
	}
}

func TestNodeRules(t *testing.T) {
	host := corev1.LabelHostname
	re := related(nil, nil, pod("web", spread(host)), pod("db", apart(host, "web")), pod("free"))
	rules := re.NodeRules(func(string) bool { return true })
	if len(rules) != 2 {
		t.Fatalf("%d rules, want 2: %v", len(rules), rules)
	}
	anyLabel := func(string) (string, bool) { return "", true }
	for _, c := range []struct {
		parts []relations.Part
		want  bool
	}{
		{[]relations.Part{{Class: 0, N: 1}, {Class: 2, N: 5}}, true},
		{[]relations.Part{{Class: 0, N: 2}}, false},
		{[]relations.Part{{Class: 0, N: 1}, {Class: 1, N: 1}}, false},
		{[]relations.Part{{Class: 1, N: 3}}, true},
	} {
		if got := rules.Permit(c.parts, anyLabel); got != c.want {
			t.Errorf("%v may share a node: %t, want %t", c.parts, got, c.want)
		}
	}
}

// A cluster has tens of thousands of pods, and each plan looks at them: none is remembered where no rule counts it, and only in the list of its node
// where one does.
func TestPodsOnNodesTakeNoMemoryEach(t *testing.T) {
	for name, planned := range map[string]*corev1.Pod{"no rule": pod("web"), "a rule": pod("web", spread(zone))} {
		allocations := func(n int) float64 {
			in := relations.Input{Classes: []relations.Class{{Pod: planned, NodeAffinity: []catalog.Requirements{{}}}}}
			for range 10 {
				node := relations.Node{Name: "node", Labels: map[string]string{zone: "a"}}
				for range n {
					node.Pods = append(node.Pods, pod("web"))
				}
				in.Nodes = append(in.Nodes, node)
			}
			return testing.AllocsPerRun(5, func() { relations.New(in) })
		}
		// Maps grow at times that depend on their seeds.
		if few, many := allocations(10), allocations(200); many > few+10 {
			t.Errorf("%s: %.0f allocations with 100 pods on nodes, %.0f with 2,000", name, few, many)
		}
	}
}

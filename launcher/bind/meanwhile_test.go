package bind_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

// inZone is a node of a zone.
func inZone(zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone, Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: "node-" + zone}}}
}

// appPod is a pod of an app in the namespace shop.
func appPod(name, app string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func selectApp(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// spread is a hard topology spread of the pod's app over zones, with a skew of 1 at most.
func spread(changes ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selectApp(pod.Labels["app"])}
		for _, change := range changes {
			change(&c)
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
}

func termTo(app, key string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selectApp(app)}}
}

// apartFrom keeps a pod apart from those of the app web.
func apartFrom(key string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termTo("web", key)}}
	}
}

func besides(app, key string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termTo(app, key)}}
	}
}

func leaving(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Unix(1, 0)) }

// The neighbors of a pod that is to be bound in zone a: bound ones in a zone, a newcomer, and promised ones.
func bound(zone string, pod *corev1.Pod) bind.Neighbor {
	pod.Spec.NodeName = "node-" + zone
	return bind.NeighborOf(pod, inZone(zone), false)
}

func newcomer(zone string, pod *corev1.Pod) bind.Neighbor {
	n := bound(zone, pod)
	n.Newcomer = true
	return n
}

func promised(zone string, pod *corev1.Pod) bind.Neighbor {
	return bind.NeighborOf(pod, inZone(zone), false)
}

// meanwhile is a case: the pod is to be bound in zone a of the zones a, b and c.
type meanwhile struct {
	name   string
	pod    *corev1.Pod
	others []bind.Neighbor
	want   string
}

func (c meanwhile) check(t *testing.T) {
	t.Helper()
	around := bind.Around{
		Others: append(c.others, promised("a", c.pod)), Nodes: []*corev1.Node{inZone("a"), inZone("b"), inZone("c"), {}},
		Namespaces: map[string]labels.Set{"shop": {"team": "shop"}, "back": {"team": "back"}},
	}
	got := bind.Meanwhile(c.pod, inZone("a"), around)
	if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
		t.Errorf("%q, want %q", got, c.want)
	}
	// Where no newcomer counts, the others change nothing for topology spread.
	wide := func(pod *corev1.Pod) bool { return pod.Spec.Affinity != nil }
	newcomers := slices.DeleteFunc(slices.Clone(c.others), func(n bind.Neighbor) bool { return !n.Newcomer })
	if !bind.Counts(c.pod, inZone("a"), newcomers) && !wide(c.pod) && !slices.ContainsFunc(c.others, func(n bind.Neighbor) bool { return wide(n.Pod) }) {
		around.Others = nil
		if alone := bind.Meanwhile(c.pod, inZone("a"), around); alone != got {
			t.Errorf("%q, and %q without others, though no newcomer counts", got, alone)
		}
	}
}

func run(t *testing.T, cases []meanwhile) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Helper()
			c.check(t)
		})
	}
}

// A pod that kube-scheduler has bound in the zone breaks the spread of the plan. What was planned together does not, though it is not bound yet.
func TestMeanwhileSpread(t *testing.T) {
	web := func(name string, changes ...func(*corev1.Pod)) *corev1.Pod { return appPod(name, "web", changes...) }
	elsewhere := []bind.Neighbor{bound("b", web("b1")), bound("c", web("c1"))}
	with := func(more ...bind.Neighbor) []bind.Neighbor { return append(more, elsewhere...) }
	const broken = "pod new was bound in a meanwhile: topology spread over topology.kubernetes.io/zone would have a skew of"
	run(t, []meanwhile{
		{name: "alone", pod: web("p", spread())},
		{name: "a newcomer", pod: web("p", spread()), others: []bind.Neighbor{newcomer("a", web("new"))}, want: broken + " 2, 1 at most"},
		{name: "it leaves", pod: web("p", spread()), others: []bind.Neighbor{newcomer("a", web("new", leaving))}},
		{name: "it is elsewhere", pod: web("p", spread()), others: []bind.Neighbor{newcomer("b", web("new"))}},
		{name: "of another app", pod: web("p", spread()), others: []bind.Neighbor{newcomer("a", appPod("new", "api"))}},
		{name: "of another namespace", pod: web("p", spread()), others: []bind.Neighbor{newcomer("a", web("new", func(p *corev1.Pod) { p.Namespace = "back" }))}},
		{name: "siblings are promised in other zones", pod: web("p", spread()), others: []bind.Neighbor{newcomer("a", web("new")), promised("b", web("b1")), promised("c", web("c1"))}},
		{name: "siblings are promised here", pod: web("p", spread()), others: with(newcomer("a", web("new")), promised("a", web("a1"))), want: broken + " 2"},
		{name: "only the plan's pods are here", pod: web("p", spread()), others: with(bound("a", web("a1")), bound("a", web("a2")), promised("a", web("a3")))},
		{name: "a greater skew is allowed", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.MaxSkew = 2 })), others: []bind.Neighbor{newcomer("a", web("new"))}},
		{name: "not required", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })), others: []bind.Neighbor{newcomer("a", web("new"))}},
		{name: "by hostname", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.TopologyKey = corev1.LabelHostname })), others: []bind.Neighbor{newcomer("a", web("new"))}},
		{name: "the pod does not count itself", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = selectApp("api") })), others: []bind.Neighbor{newcomer("a", appPod("new", "api"))}},
		{name: "fewer domains than it asks for", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32(4)) })), others: with(newcomer("a", web("new"))), want: broken + " 2"},
		{name: "as many domains as it asks for", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32(3)) })), others: with(newcomer("a", web("new")))},
		{
			name:   "of another version",
			pod:    web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} }), func(p *corev1.Pod) { p.Labels["version"] = "2" }),
			others: []bind.Neighbor{newcomer("a", web("new", func(p *corev1.Pod) { p.Labels["version"] = "1" }))},
		},
		{name: "zones that it may not use do not count", pod: web("p", spread(), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} }), others: []bind.Neighbor{newcomer("a", web("new"))}},
		{
			name: "unless it says so",
			pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore) }),
				func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} }),
			others: []bind.Neighbor{newcomer("a", web("new"))},
			want:   broken + " 2",
		},
		{name: "it cannot be read", pod: web("p", spread(func(c *corev1.TopologySpreadConstraint) {
			c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		})), want: "cannot be read"},
	})
}

// Required anti-affinity and affinity hold against bound pods, and so does the anti-affinity of these.
func TestMeanwhileAffinity(t *testing.T) {
	const zone = corev1.LabelTopologyZone
	inBack := func(p *corev1.Pod) { p.Namespace = "back" }
	across := func(p *corev1.Pod) {
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "back"}}
	}
	run(t, []meanwhile{
		{name: "its anti-affinity", pod: appPod("p", "web", apartFrom(zone)), others: []bind.Neighbor{newcomer("a", appPod("new", "web"))}, want: "its anti-affinity keeps it apart from pod shop/new"},
		{name: "also from one that leaves", pod: appPod("p", "web", apartFrom(zone)), others: []bind.Neighbor{bound("a", appPod("old", "web", leaving))}, want: "pod shop/old"},
		{name: "not from one elsewhere", pod: appPod("p", "web", apartFrom(zone)), others: []bind.Neighbor{newcomer("b", appPod("new", "web"))}},
		{name: "not from one that is promised", pod: appPod("p", "web", apartFrom(zone)), others: []bind.Neighbor{promised("a", appPod("other", "web"))}},
		{name: "not by hostname", pod: appPod("p", "web", apartFrom(corev1.LabelHostname)), others: []bind.Neighbor{newcomer("a", appPod("new", "web"))}},
		{name: "not of another namespace", pod: appPod("p", "web", apartFrom(zone)), others: []bind.Neighbor{newcomer("a", appPod("new", "web", inBack))}},
		{name: "unless it selects that", pod: appPod("p", "web", apartFrom(zone), across), others: []bind.Neighbor{newcomer("a", appPod("new", "web", inBack))}, want: "pod back/new"},
		{name: "that of the other", pod: appPod("p", "web"), others: []bind.Neighbor{newcomer("a", appPod("new", "api", apartFrom(zone)))}, want: "the anti-affinity of pod shop/new"},
		{name: "that of one elsewhere", pod: appPod("p", "web"), others: []bind.Neighbor{newcomer("b", appPod("new", "api", apartFrom(zone)))}},
		{name: "that of one that is promised", pod: appPod("p", "web"), others: []bind.Neighbor{promised("a", appPod("other", "api", apartFrom(zone)))}},
		{name: "that of one by hostname", pod: appPod("p", "web"), others: []bind.Neighbor{bound("a", appPod("other", "api", apartFrom(corev1.LabelHostname)))}},
		{name: "its group is elsewhere", pod: appPod("p", "web", besides("web", zone)), others: []bind.Neighbor{newcomer("b", appPod("new", "web"))}, want: "bound in b"},
		{
			name:   "its group is elsewhere, the rest of it promised here",
			pod:    appPod("p", "web", besides("web", zone)),
			others: []bind.Neighbor{newcomer("b", appPod("new", "web")), promised("a", appPod("other", "web"))},
			want:   "bound in b",
		},
		{name: "its group is here too", pod: appPod("p", "web", besides("web", zone)), others: []bind.Neighbor{newcomer("b", appPod("new", "web")), bound("a", appPod("other", "web"))}},
		{name: "it is the first of its group", pod: appPod("p", "web", besides("web", zone)), others: []bind.Neighbor{promised("a", appPod("other", "web"))}},
		{name: "what it must be beside is promised here", pod: appPod("p", "web", besides("db", zone)), others: []bind.Neighbor{bound("b", appPod("db1", "db")), promised("a", appPod("db2", "db"))}},
		{name: "what it must be beside is elsewhere", pod: appPod("p", "web", besides("db", zone)), others: []bind.Neighbor{bound("b", appPod("db1", "db"))}, want: "bound in b"},
		{name: "affinity by hostname", pod: appPod("p", "web", besides("db", corev1.LabelHostname)), others: []bind.Neighbor{bound("b", appPod("db1", "db"))}},
	})
}

// Nodes that lack the label of another hard constraint of the pod do not count, neither as domains nor with their pods, as for kube-scheduler.
func TestMeanwhileNodesWithoutALabel(t *testing.T) {
	rack := func(node *corev1.Node) *corev1.Node {
		node.Labels["rack"] = "r"
		return node
	}
	pod := appPod("p", "web", spread(), spread(func(c *corev1.TopologySpreadConstraint) { c.TopologyKey, c.MaxSkew = "rack", 9 }))
	in := func(zone, name string, newcomer bool) bind.Neighbor {
		n := bound(zone, appPod(name, "web"))
		return bind.NeighborOf(n.Pod, rack(n.Node), newcomer)
	}
	around := bind.Around{Others: []bind.Neighbor{in("a", "new", true), in("b", "b1", false)}, Nodes: []*corev1.Node{rack(inZone("a")), rack(inZone("b")), inZone("c")}}
	if got := bind.Meanwhile(pod, rack(inZone("a")), around); got != "" {
		t.Errorf("zone c counts: %q", got)
	}
	around.Others = append(around.Others[:1], bound("b", appPod("b2", "web")))
	if got := bind.Meanwhile(pod, rack(inZone("a")), around); got == "" {
		t.Error("a pod on a node without the label counts")
	}
}

// Without a refused pod the others of its domain may hold.
func TestAroundWithout(t *testing.T) {
	p, other := appPod("p", "web"), appPod("other", "web")
	around := bind.Around{Others: []bind.Neighbor{promised("a", p), promised("a", other)}}
	if rest := around.Without(p).Others; len(rest) != 1 || rest[0].Pod != other || len(around.Others) != 2 || around.Others[0].Pod != p {
		t.Errorf("others %v of %v", rest, around.Others)
	}
}

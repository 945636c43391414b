package verify_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/scheduler/metrics.(*MetricAsyncRecorder).run"),
	)
}

const host, zone = corev1.LabelHostname, corev1.LabelTopologyZone

// newVerifier is one with the default profile.
func newVerifier(tb testing.TB) *verify.Verifier {
	tb.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	cfg, err := latest.Default()
	if err != nil {
		tb.Fatal(err)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	v, err := verify.New(ctx, verify.Config{Profiles: cfg.Profiles, Informers: factory, Client: client})
	if err != nil {
		tb.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	tb.Cleanup(func() { cancel(); factory.Shutdown() })
	return v
}

func class(key string, n int, pod *st.PodWrapper) plan.Class {
	p := pod.Name(key).UID(key).Namespace("default").SchedulerName("default-scheduler").Obj()
	c := plan.Class{Key: key, Pod: p}
	for i := range n {
		c.Pods = append(c.Pods, catalog.PodRef{Namespace: "default", Name: fmt.Sprintf("%s-%d", key, i), UID: fmt.Sprintf("%s-%d", key, i)})
	}
	return c
}

func pod(app string) *st.PodWrapper {
	return st.MakePod().Label("app", app).Req(map[corev1.ResourceName]string{"cpu": "500m", "memory": "512Mi"})
}

// claim is a node in the zone with the given numbers of pods of each class, taken in order from what is left of them.
type claim struct {
	name, zone string
	pods       map[int]int
}

func planOf(classes []plan.Class, claims ...claim) plan.Plan {
	taken := map[int]int{}
	var out plan.Plan
	for _, c := range claims {
		pc := plan.Claim{
			Name: c.name, NodePool: "default", Labels: map[string]string{"karpenter.sh/nodepool": "default"},
			Expected:    plan.Offer{InstanceType: "m7g.large", Zone: c.zone, CapacityType: "spot", Price: 0.03},
			Allocatable: quantities("cpu", "2", "memory", "7Gi", "pods", "20", "ephemeral-storage", "10Gi"),
		}
		for index := range classes {
			if n := c.pods[index]; n > 0 {
				pc.Members = append(pc.Members, plan.Member{Class: index, Pods: classes[index].Pods[taken[index] : taken[index]+n]})
				taken[index] += n
			}
		}
		out.Claims = append(out.Claims, pc)
	}
	return out
}

func quantities(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// zones is a catalog with one type in the zones.
func zones(names ...string) catalog.State {
	it := catalog.InstanceType{Name: "m7g.large", Allocatable: quantities("cpu", "2", "memory", "7Gi", "pods", "20")}
	for _, z := range names {
		it.Offerings = append(it.Offerings, catalog.Offering{Zone: z, CapacityType: "spot", Price: 0.03, Available: true})
	}
	return catalog.State{
		NodePools:     map[string]catalog.NodePool{"default": {Name: "default", NodeClass: "default", Ready: true}},
		InstanceTypes: map[string][]catalog.InstanceType{"default": {it}},
	}
}

// scene is what is checked.
type scene struct {
	classes []plan.Class
	plan    plan.Plan
	cat     catalog.State
	nodes   []*corev1.Node
}

func check(t *testing.T, v *verify.Verifier, s scene) []plan.Rejection {
	t.Helper()
	w, err := verify.NewWorld(klog.Background(), verify.Source{
		Snapshot: internalcache.NewSnapshot(nil, s.nodes), Catalog: s.cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := v.Check(t.Context(), w, s.classes, s.plan, s.cat)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheck(t *testing.T) {
	anti := func(key string) *st.PodWrapper {
		return pod("a").PodAntiAffinityExists("app", key, st.PodAntiAffinityWithRequiredReq)
	}
	spread := func(key string) *st.PodWrapper {
		return pod("a").SpreadConstraint(1, key, corev1.DoNotSchedule, st.MakeLabelSelector().Exists("app").Obj(), nil, nil, nil, nil)
	}
	for _, tc := range []struct {
		name    string
		classes []plan.Class
		claims  []claim
		cat     catalog.State
		want    []string
	}{
		{
			name: "plain pods in a cluster without nodes", classes: []plan.Class{class("a", 4, pod("a"))},
			claims: []claim{{"n1", "z1", map[int]int{0: 4}}},
		},
		{
			name: "too many for the node", classes: []plan.Class{class("a", 5, pod("a"))},
			claims: []claim{{"n1", "z1", map[int]int{0: 5}}},
			want:   []string{"a max=4 NodeResourcesFit"},
		},
		{
			name: "two classes that do not fit together", classes: []plan.Class{class("a", 1, pod("a")), class("b", 1, st.MakePod().Req(map[corev1.ResourceName]string{"cpu": "1800m"}))},
			claims: []claim{{"n1", "z1", map[int]int{0: 1, 1: 1}}},
			want:   []string{"a with=[b] NodeResourcesFit", "b with=[a] NodeResourcesFit"},
		},
		{
			name: "one per host, on two hosts", classes: []plan.Class{class("a", 2, anti(host))},
			claims: []claim{{"n1", "z1", map[int]int{0: 1}}, {"n2", "z1", map[int]int{0: 1}}},
		},
		{
			name: "one per host, two on one", classes: []plan.Class{class("a", 3, anti(host))},
			claims: []claim{{"n1", "z1", map[int]int{0: 2}}, {"n2", "z1", map[int]int{0: 1}}},
			want:   []string{"a max=1 InterPodAffinity"},
		},
		{
			// The plain class's own PreFilter has nothing to say about affinity: what was placed beside it has.
			name: "a plain pod beside one that wants none like it", classes: []plan.Class{
				class("b", 1, pod("b")),
				class("a", 1, pod("a").PodAntiAffinityIn("app", host, []string{"b"}, st.PodAntiAffinityWithRequiredReq)),
			},
			claims: []claim{{"n1", "z1", map[int]int{0: 1, 1: 1}}},
			want:   []string{"b with=[a] InterPodAffinity", "a with=[b] InterPodAffinity"},
		},
		{
			name: "company in the zone", classes: []plan.Class{class("a", 2, pod("a").PodAffinityIn("app", zone, []string{"a"}, st.PodAffinityWithRequiredReq))},
			claims: []claim{{"n1", "z1", map[int]int{0: 1}}, {"n2", "z1", map[int]int{0: 1}}},
		},
		{
			name: "company in another zone", classes: []plan.Class{class("a", 2, pod("a").PodAffinityIn("app", zone, []string{"a"}, st.PodAffinityWithRequiredReq))},
			claims: []claim{{"n1", "z1", map[int]int{0: 1}}, {"n2", "z2", map[int]int{0: 1}}},
			want:   []string{"a zone=z1 InterPodAffinity", "a zone=z2 InterPodAffinity"},
		},
		{
			// Node by node the first zone would hold three before the others hold any: only the final state counts.
			name: "spread over three zones", classes: []plan.Class{class("a", 7, spread(zone))}, cat: zones("z1", "z2", "z3"),
			claims: []claim{{"n1", "z1", map[int]int{0: 3}}, {"n2", "z2", map[int]int{0: 2}}, {"n3", "z3", map[int]int{0: 2}}},
		},
		{
			name: "spread leaves out a zone that could be launched in", classes: []plan.Class{class("a", 4, spread(zone))}, cat: zones("z1", "z2", "z3"),
			claims: []claim{{"n1", "z1", map[int]int{0: 2}}, {"n2", "z2", map[int]int{0: 2}}},
			want:   []string{"a zone=z1 PodTopologySpread", "a zone=z2 PodTopologySpread"},
		},
		{
			name: "spread over the two zones that can be launched in", classes: []plan.Class{class("a", 4, spread(zone))}, cat: zones("z1", "z2"),
			claims: []claim{{"n1", "z1", map[int]int{0: 2}}, {"n2", "z2", map[int]int{0: 2}}},
		},
		{
			name: "a taint of the pool", classes: []plan.Class{class("a", 1, pod("a").NodeSelector(map[string]string{"karpenter.sh/nodepool": "other"}))},
			claims: []claim{{"n1", "z1", map[int]int{0: 1}}},
			want:   []string{"a pool=default type=m7g.large zone=z1 ct=spot NodeAffinity"},
		},
		{
			name: "host ports", classes: []plan.Class{class("a", 2, pod("a").HostPort(8080))},
			claims: []claim{{"n1", "z1", map[int]int{0: 2}}},
			want:   []string{"a max=1 NodePorts"},
		},
		{
			name: "a class that no node can take", classes: []plan.Class{class("a", 1, pod("a").PVC("missing"))},
			claims: []claim{{"n1", "z1", map[int]int{0: 1}}},
			want:   []string{"a VolumeRestrictions"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := check(t, newVerifier(t), scene{tc.classes, planOf(tc.classes, tc.claims...), tc.cat, nil})
			var lines []string
			for _, r := range got {
				lines = append(lines, show(r))
			}
			if strings.Join(lines, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("rejections:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func show(r plan.Rejection) string {
	out := r.ClassKey
	for _, f := range []struct{ name, value string }{
		{"node", r.Node}, {"pool", r.NodePool}, {"type", r.InstanceType}, {"zone", r.Zone}, {"ct", r.CapacityType},
	} {
		if f.value != "" && (f.name != "pool" || len(r.With) == 0) {
			out += " " + f.name + "=" + f.value
		}
	}
	if len(r.With) > 0 {
		out += fmt.Sprintf(" with=%v", r.With)
	}
	if r.MaxPerNode > 0 {
		out += fmt.Sprintf(" max=%d", r.MaxPerNode)
	}
	plugin, _, _ := strings.Cut(r.Reason, ":")
	return out + " " + plugin
}

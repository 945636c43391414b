package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/scheduler/metrics.(*MetricAsyncRecorder).run"),
	)
}

const host, zone = corev1.LabelHostname, corev1.LabelTopologyZone

// scene is what is checked.
type scene struct {
	classes []plan.Class
	plan    plan.Plan
	cat     catalog.State
	nodes   []*corev1.Node
}

func check(t *testing.T, v *verify.Verifier, s scene) []plan.Rejection {
	t.Helper()
	w, err := clusterview.New(klog.Background(), clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, s.nodes), Catalog: s.cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := v.Check(t.Context(), w, s.classes, s.plan, s.cat)
	if err != nil {
		t.Fatal(err)
	}
	var out []plan.Rejection
	for _, verdict := range found.Verdicts {
		out = append(out, verdict.Rejection)
	}
	return out
}

func TestCheck(t *testing.T) {
	anti := func(key string) *st.PodWrapper {
		return verifytest.Pod("a").PodAntiAffinityExists("app", key, st.PodAntiAffinityWithRequiredReq)
	}
	spread := func(key string) *st.PodWrapper {
		return verifytest.Pod("a").SpreadConstraint(1, key, corev1.DoNotSchedule, st.MakeLabelSelector().Exists("app").Obj(), nil, nil, nil, nil)
	}
	for _, tc := range []struct {
		name    string
		classes []plan.Class
		claims  []verifytest.Claim
		cat     catalog.State
		want    []string
	}{
		{
			name: "plain pods in a cluster without nodes", classes: []plan.Class{verifytest.Class("a", 4, verifytest.Pod("a"))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 4}}},
		},
		{
			name: "too many for the node", classes: []plan.Class{verifytest.Class("a", 5, verifytest.Pod("a"))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 5}}},
			want:   []string{"a max=4 NodeResourcesFit"},
		},
		{
			name: "two classes that do not fit together", classes: []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a")), verifytest.Class("b", 1, st.MakePod().Req(map[corev1.ResourceName]string{"cpu": "1800m"}))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1, 1: 1}}},
			want:   []string{"a with=[b] NodeResourcesFit", "b with=[a] NodeResourcesFit"},
		},
		{
			name: "one per host, on two hosts", classes: []plan.Class{verifytest.Class("a", 2, anti(host))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}}, {Name: "n2", Zone: "z1", Pods: map[int]int{0: 1}}},
		},
		{
			name: "one per host, two on one", classes: []plan.Class{verifytest.Class("a", 3, anti(host))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 2}}, {Name: "n2", Zone: "z1", Pods: map[int]int{0: 1}}},
			want:   []string{"a max=1 InterPodAffinity"},
		},
		{
			// The plain class's own PreFilter has nothing to say about affinity: what was placed beside it has.
			name: "a plain pod beside one that wants none like it", classes: []plan.Class{
				verifytest.Class("b", 1, verifytest.Pod("b")),
				verifytest.Class("a", 1, verifytest.Pod("a").PodAntiAffinityIn("app", host, []string{"b"}, st.PodAntiAffinityWithRequiredReq)),
			},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1, 1: 1}}},
			want:   []string{"b with=[a] InterPodAffinity", "a with=[b] InterPodAffinity"},
		},
		{
			name: "company in the zone", classes: []plan.Class{verifytest.Class("a", 2, verifytest.Pod("a").PodAffinityIn("app", zone, []string{"a"}, st.PodAffinityWithRequiredReq))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}}, {Name: "n2", Zone: "z1", Pods: map[int]int{0: 1}}},
		},
		{
			name: "company in another zone", classes: []plan.Class{verifytest.Class("a", 2, verifytest.Pod("a").PodAffinityIn("app", zone, []string{"a"}, st.PodAffinityWithRequiredReq))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}}, {Name: "n2", Zone: "z2", Pods: map[int]int{0: 1}}},
			want:   []string{"a zone=z1 InterPodAffinity", "a zone=z2 InterPodAffinity"},
		},
		{
			// Node by node the first zone would hold three before the others hold any: only the final state counts.
			name: "spread over three zones", classes: []plan.Class{verifytest.Class("a", 7, spread(zone))}, cat: verifytest.Zones("z1", "z2", "z3"),
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 3}}, {Name: "n2", Zone: "z2", Pods: map[int]int{0: 2}}, {Name: "n3", Zone: "z3", Pods: map[int]int{0: 2}}},
		},
		{
			name: "spread leaves out a zone that could be launched in", classes: []plan.Class{verifytest.Class("a", 4, spread(zone))}, cat: verifytest.Zones("z1", "z2", "z3"),
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 2}}, {Name: "n2", Zone: "z2", Pods: map[int]int{0: 2}}},
			want:   []string{"a zone=z1 PodTopologySpread", "a zone=z2 PodTopologySpread"},
		},
		{
			name: "spread over the two zones that can be launched in", classes: []plan.Class{verifytest.Class("a", 4, spread(zone))}, cat: verifytest.Zones("z1", "z2"),
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 2}}, {Name: "n2", Zone: "z2", Pods: map[int]int{0: 2}}},
		},
		{
			name: "spread leaves out a zone whose offerings are on probation", classes: []plan.Class{verifytest.Class("a", 4, spread(zone))}, cat: onProbation("z3"),
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 2}}, {Name: "n2", Zone: "z2", Pods: map[int]int{0: 2}}},
		},
		{
			name: "spread leaves out a zone beside one that is on probation", classes: []plan.Class{verifytest.Class("a", 4, spread(zone))}, cat: onProbation("z2"),
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 2}}, {Name: "n2", Zone: "z2", Pods: map[int]int{0: 2}}},
			want:   []string{"a zone=z1 PodTopologySpread", "a zone=z2 PodTopologySpread"},
		},
		{
			name: "a taint of the pool", classes: []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a").NodeSelector(map[string]string{"karpenter.sh/nodepool": "other"}))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}}},
			want:   []string{"a pool=default type=m7g.large zone=z1 ct=spot NodeAffinity"},
		},
		{
			name: "host ports", classes: []plan.Class{verifytest.Class("a", 2, verifytest.Pod("a").HostPort(8080))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 2}}},
			want:   []string{"a max=1 NodePorts"},
		},
		{
			name: "a class that no node can take", classes: []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a").PVC("missing"))},
			claims: []verifytest.Claim{{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}}},
			want:   []string{"a VolumeRestrictions"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := check(t, verifytest.New(t), scene{tc.classes, verifytest.PlanOf(tc.classes, tc.claims...), tc.cat, nil})
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

// onProbation is a catalog of three zones, in one of which all offerings are on probation.
func onProbation(name string) catalog.State {
	cat := verifytest.Zones("z1", "z2", "z3")
	offerings := cat.InstanceTypes["default"][0].Offerings
	for i := range offerings {
		offerings[i].Probation = offerings[i].Zone == name
	}
	return cat
}

// A DaemonSet may run where pods choose the value of a label, and on no node as the catalog has it. What conflicts with its pods is rejected all the same.
func TestDaemonsOfAChosenLabel(t *testing.T) {
	ports := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "ports", Namespace: "kube-system", UID: "ports"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"team": "a"},
			Containers:   []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}},
		}}},
	}
	classes, cat := []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a").HostPort(8080))}, verifytest.Zones("z1")
	p := verifytest.PlanOf(classes, verifytest.Claim{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}})
	p.Claims[0].Labels["team"] = "a"
	w, err := clusterview.New(klog.Background(), clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil }, DaemonSets: []*appsv1.DaemonSet{ports},
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := verifytest.New(t).Check(t.Context(), w, classes, p, cat)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a pool=default type=m7g.large zone=z1 ct=spot NodePorts"; len(found.Verdicts) != 1 || show(found.Verdicts[0].Rejection) != want {
		t.Errorf("verdicts %+v, want %s", found.Verdicts, want)
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

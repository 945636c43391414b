package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// zoneExtender is an HTTP extender that refuses nodes in zone z1, after a delay.
type zoneExtender struct {
	delay time.Duration
	asked atomic.Int32
}

func (e *zoneExtender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.asked.Add(1)
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil || r.URL.Path != "/filter" || args.Nodes == nil {
		http.Error(w, "want a POST of ExtenderArgs with nodes to /filter", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(e.delay):
	case <-r.Context().Done():
		return
	}
	out := extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{}, FailedNodes: extenderv1.FailedNodesMap{}}
	for _, n := range args.Nodes.Items {
		if n.Labels[zone] == "z1" {
			out.FailedNodes[n.Name] = "zone z1 is closed"
			continue
		}
		out.Nodes.Items = append(out.Nodes.Items, n)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// An extender is asked about nodes that do not exist yet. What it refuses is not planned again, its silence ends soon and has a reason, and
// where it is ignorable it decides nothing.
func TestExtenders(t *testing.T) {
	for _, tc := range []struct {
		name   string
		delay  time.Duration
		change func(*config.Extender)
		zone   string
		// want are the beginning and the end of the one rejection; empty for none.
		want  [2]string
		asked int32
	}{
		{name: "it accepts the node", zone: "z2", asked: 2},
		{name: "it refuses the node", zone: "z1", want: [2]string{"a m7g.large/z1/spot ", ": zone z1 is closed"}, asked: 2},
		{name: "it is not interested", zone: "z1", change: func(e *config.Extender) {
			e.ManagedResources = []config.ExtenderManagedResource{{Name: "example.com/other"}}
		}},
		{name: "it does not answer", zone: "z2", delay: 10 * time.Second, want: [2]string{"a // extender ", "gave no answer"}, asked: 1},
		{name: "it does not answer and is ignorable", zone: "z2", delay: 10 * time.Second, change: func(e *config.Extender) { e.Ignorable = true }, asked: 1},
		{name: "it knows only nodes that exist", zone: "z1", change: func(e *config.Extender) { e.NodeCacheCapable = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &zoneExtender{delay: tc.delay}
			server := httptest.NewServer(e)
			defer server.Close()
			of := config.Extender{URLPrefix: server.URL, FilterVerb: "filter", HTTPTimeout: metav1.Duration{Duration: 5 * time.Second}}
			if tc.delay > 0 {
				of.HTTPTimeout.Duration = 50 * time.Millisecond
			}
			if tc.change != nil {
				tc.change(&of)
			}
			v := verifytest.New(t, func(c *verify.Config) { c.Extenders = []config.Extender{of} })
			classes := []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a"))}
			claims := verifytest.PlanOf(classes, verifytest.Claim{Name: "n1", Zone: tc.zone, Pods: map[int]int{0: 1}})
			for range 2 {
				got := said(check(t, v, scene{classes, claims, verifytest.Zones("z1", "z2"), nil}))
				if fine := len(got) == 0; fine != (tc.want[0] == "") {
					t.Errorf("rejections %q, want %q", got, tc.want)
				}
				for _, one := range got {
					if !strings.HasPrefix(one, tc.want[0]) || !strings.Contains(one, tc.want[1]) {
						t.Errorf("rejection %q, want %q", one, tc.want)
					}
				}
			}
			// What does not answer in its short time may not even be reached in it.
			if n := e.asked.Load(); n > tc.asked || tc.delay == 0 && n != tc.asked {
				t.Errorf("it was asked %d times, want %d", n, tc.asked)
			}
		})
	}
}

// said shows rejections as "CLASS TYPE/ZONE/CAPACITYTYPE REASON".
func said(list []plan.Rejection) []string {
	var out []string
	for _, r := range list {
		out = append(out, strings.TrimSpace(r.ClassKey+" "+r.InstanceType+"/"+r.Zone+"/"+r.CapacityType+" "+r.Reason))
	}
	return out
}

// The ways in which EC2 may launch a claim that an extender refuses are taken out of the claim, and all of them are rejected with the
// expected one, so that the next plan tries none of them.
func TestExtenderAndAlternatives(t *testing.T) {
	e := &zoneExtender{}
	server := httptest.NewServer(e)
	defer server.Close()
	v := verifytest.New(t, func(c *verify.Config) { c.Extenders = []config.Extender{{URLPrefix: server.URL, FilterVerb: "filter"}} })
	others(t, v, "zone z1 is closed")
}

// One question has 1,000 nodes. The ways in which EC2 may launch a claim that were not asked about are taken out of the claim as well, unless
// no extender has answered.
func TestExtenderAndManyAlternatives(t *testing.T) {
	const types, asked = 350, 1000
	e := &zoneExtender{}
	server := httptest.NewServer(e)
	defer server.Close()
	of := config.Extender{URLPrefix: server.URL, FilterVerb: "filter"}
	class := verifytest.Class("a", 1, verifytest.Pod("a"))
	var want []string
	for i := range types {
		for j, z := range []string{"z1", "z2", "z3"} {
			if z == "z1" || 3*i+j >= asked {
				want = append(want, fmt.Sprintf("m7g.%d/%s", i, z))
			}
		}
	}
	slices.Sort(want)
	v := verifytest.New(t, func(c *verify.Config) { c.Extenders = []config.Extender{of} })
	if diff := cmp.Diff(want, bad(alternatives(t, v, class, "z2", types))); diff != "" {
		t.Errorf("alternatives to leave out: -want +got\n%s", diff)
	}
	// The expected offering, about which the extender is asked anyway, is not one of the alternatives.
	last := plan.Offer{InstanceType: fmt.Sprintf("m7g.%d", types-1), Zone: "z2"}
	want = slices.DeleteFunc(want, func(x string) bool { return x == last.InstanceType+"/"+last.Zone })
	if diff := cmp.Diff(want, bad(alternativesTo(t, v, class, types, last))); diff != "" {
		t.Errorf("alternatives to the last one: -want +got\n%s", diff)
	}
	of.FilterVerb, of.Ignorable = "none", true
	v = verifytest.New(t, func(c *verify.Config) { c.Extenders = []config.Extender{of} })
	if got := bad(alternatives(t, v, class, "z2", types)); len(got) > 0 {
		t.Errorf("an ignorable extender without an answer takes out %v", got)
	}
}

// closedZone is a Filter plugin of others that refuses nodes in zone z1.
type closedZone struct{}

func (closedZone) Name() string { return "ClosedZone" }
func (closedZone) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node().Labels[zone] == "z1" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "zone z1 is closed")
	}
	return nil
}

// The same with a Filter plugin that is not Kubernetes' own.
func TestPluginOfOthersAndAlternatives(t *testing.T) {
	v := verifytest.New(t, func(c *verify.Config) {
		c.OutOfTree = frameworkruntime.Registry{"ClosedZone": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return closedZone{}, nil }}
		c.Profiles = []config.KubeSchedulerProfile{*c.Profiles[0].DeepCopy()}
		c.Profiles[0].Plugins.Filter.Enabled = append(c.Profiles[0].Plugins.Filter.Enabled, config.Plugin{Name: "ClosedZone"})
	})
	others(t, v, "ClosedZone: zone z1 is closed")
}

// others checks a claim that may be launched in zones z1, z2 and z3 by two instance types.
func others(t *testing.T, v *verify.Verifier, why string) {
	t.Helper()
	class := verifytest.Class("a", 1, verifytest.Pod("a"))
	if diff := cmp.Diff([]string{"m7g.0/z1", "m7g.1/z1"}, bad(alternatives(t, v, class, "z2", 2))); diff != "" {
		t.Errorf("alternatives to leave out: -want +got\n%s", diff)
	}
	var rejected []string
	for _, x := range alternatives(t, v, class, "z1", 2).Verdicts {
		rejected = append(rejected, x.InstanceType+"/"+x.Zone)
		if !strings.Contains(x.Reason, why) {
			t.Errorf("reason %q, want %q", x.Reason, why)
		}
	}
	slices.Sort(rejected)
	if diff := cmp.Diff([]string{"m7g.0/z1", "m7g.1/z1"}, slices.Compact(rejected)); diff != "" {
		t.Errorf("rejected with the expected offering: -want +got\n%s", diff)
	}
}

// alternatives checks a claim of the class that is expected in the zone as type m7g.0, and may be launched in zones z1, z2 and z3 by the given
// number of types.
func alternatives(t *testing.T, v *verify.Verifier, class plan.Class, zone string, types int) verify.Result {
	t.Helper()
	return alternativesTo(t, v, class, types, plan.Offer{InstanceType: "m7g.0", Zone: zone})
}

// alternativesTo is the same for a claim whose expected instance type is not the first one. It costs more than the type alone, by what interruptions are
// expected to cost.
func alternativesTo(t *testing.T, v *verify.Verifier, class plan.Class, types int, expected plan.Offer) verify.Result {
	t.Helper()
	cat := verifytest.Zones("z1", "z2", "z3")
	classes := []plan.Class{class}
	p := verifytest.PlanOf(classes, verifytest.Claim{Name: "n1", Zone: expected.Zone, Pods: map[int]int{0: 1}})
	p.Claims[0].Expected.InstanceType = expected.InstanceType
	p.Claims[0].Expected.Price += 0.005
	var list []catalog.InstanceType
	for i := range types {
		it := cat.InstanceTypes["default"][0]
		it.Name = fmt.Sprintf("m7g.%d", i)
		list = append(list, it)
		p.Claims[0].Alternatives = append(p.Claims[0].Alternatives, it.Name)
	}
	cat.InstanceTypes["default"] = list
	w, err := clusterview.New(klog.Background(), clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := v.Check(t.Context(), w, classes, p, cat)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bad lists the alternatives of the only claim that do not run its pods.
func bad(r verify.Result) []string {
	var out []string
	for _, of := range r.Bad[0] {
		out = append(out, of.InstanceType+"/"+of.Zone)
	}
	slices.Sort(out)
	return out
}

// The node affinity that a profile adds counts for alternatives as for the expected offering.
func TestAddedAffinityAndAlternatives(t *testing.T) {
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"z1"}}},
	}}}
	v := verifytest.New(t, func(c *verify.Config) {
		for _, plugin := range c.Profiles[0].PluginConfig {
			if args, ok := plugin.Args.(*config.NodeAffinityArgs); ok {
				args.AddedAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
			}
		}
	})
	class := verifytest.Class("a", 1, verifytest.Pod("a"))
	class.AddedAffinity = required
	if diff := cmp.Diff([]string{"m7g.0/z1", "m7g.1/z1"}, bad(alternatives(t, v, class, "z2", 2))); diff != "" {
		t.Errorf("alternatives to leave out: -want +got\n%s", diff)
	}
}

// A pod that selects the node class may be on every alternative: all nodes of the NodePool are of its class.
func TestNodeClassAndAlternatives(t *testing.T) {
	pod := verifytest.Pod("a").NodeSelector(map[string]string{catalog.LabelNodeClass: "default"}).NodeAffinityIn(zone, []string{"z2", "z3"}, st.NodeSelectorTypeMatchExpressions)
	if diff := cmp.Diff([]string{"m7g.0/z1", "m7g.1/z1"}, bad(alternatives(t, verifytest.New(t), verifytest.Class("a", 1, pod), "z2", 2))); diff != "" {
		t.Errorf("alternatives to leave out: -want +got\n%s", diff)
	}
}

// A topology spread whose selector is empty counts no pods: it keeps pods off no alternative.
func TestEmptySelectorAndAlternatives(t *testing.T) {
	pod := verifytest.Pod("a").SpreadConstraint(1, zone, corev1.DoNotSchedule, &metav1.LabelSelector{}, nil, nil, nil, nil)
	if got := bad(alternatives(t, verifytest.New(t), verifytest.Class("a", 1, pod), "z2", 2)); len(got) > 0 {
		t.Errorf("alternatives to leave out: %v", got)
	}
}

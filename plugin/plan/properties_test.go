package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// TestProperties plans random batches and holds each plan to what must be true of every plan.
func TestProperties(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			in := randomInput(t, seed)
			p := plan.Make(t.Context(), in)
			check(t, in, p)
			checkRelations(t, in, p)
			if again := plan.Make(t.Context(), randomInput(t, seed)); !reflect.DeepEqual(p, again) {
				t.Errorf("the same input gave another plan:\n%+v\n%+v", p, again)
			}
			other := reordered(randomInput(t, seed), seed)
			if diff := cmp.Diff(shape(in, p), shape(other, plan.Make(t.Context(), other))); diff != "" {
				t.Errorf("the order of the input changes the plan:\n%s", diff)
			}
		})
	}
}

// reordered is the input with its lists in another order.
func reordered(in plan.Input, seed uint64) plan.Input {
	rng := rand.New(rand.NewPCG(seed, 5))
	in.Classes, in.Nodes, in.DaemonSets, in.Rejected = mixed(rng, in.Classes), mixed(rng, in.Nodes), mixed(rng, in.DaemonSets), mixed(rng, in.Rejected)
	for i := range in.Classes {
		in.Classes[i].Pods = mixed(rng, in.Classes[i].Pods)
	}
	for name, types := range in.Catalog.InstanceTypes {
		types = mixed(rng, types)
		for i := range types {
			types[i].Offerings = mixed(rng, types[i].Offerings)
		}
		in.Catalog.InstanceTypes[name] = types
	}
	return in
}

func mixed[T any](rng *rand.Rand, list []T) []T {
	out := slices.Clone(list)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// shape is the plan without names of pods and claims: pods of a class are alike.
func shape(in plan.Input, p plan.Plan) []string {
	count := func(list []plan.Member) string {
		var out []string
		for _, m := range list {
			out = append(out, fmt.Sprintf("%s x%d", in.Classes[m.Class].Pod.Name, len(m.Pods)))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	out := []string{fmt.Sprintf("%.6f", p.CostPerHour)}
	for _, c := range p.Claims {
		out = append(out, fmt.Sprintf("%s %+v %v: %s", c.NodePool, c.Expected, c.Alternatives, count(c.Members)))
	}
	for _, pl := range p.Placements {
		out = append(out, pl.Node+": "+count(pl.Members))
	}
	for _, u := range p.Unplaced {
		out = append(out, fmt.Sprintf("unplaced %s %v", count([]plan.Member{{Class: u.Class, Pods: u.Pods}}), u.Reasons))
	}
	slices.Sort(out[1:])
	return out
}

func randomInput(t *testing.T, seed uint64) plan.Input {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	pools := []poolYAML{{Name: "default"}}
	if rng.IntN(2) == 0 {
		pools[0].Requirements = []string{"karpenter.sh/capacity-type In on-demand"}
	}
	if rng.IntN(3) == 0 {
		pools = append(pools, poolYAML{Name: "heavy", Weight: 10, Requirements: []string{"team Exists"}, Limits: map[string]string{"cpu": strconv.Itoa(20 + rng.IntN(100))}})
	}
	if rng.IntN(3) == 0 {
		pools = append(pools, poolYAML{Name: "tainted", Taints: []string{"dedicated=x:NoSchedule"}, Limits: map[string]string{"nodes": "2", "memory": "200Gi"}})
	}
	in := world(t, 40+rng.IntN(100), pools...)
	addDaemon(&in, rng)
	addNeighbours(&in, rng)
	for s := range 2 + rng.IntN(8) {
		add(&in, fmt.Sprintf("app-%d", s), 1+rng.IntN(30), func(p *corev1.Pod) {
			cpu := []int{50, 250, 500, 1000, 2000, 7000}[rng.IntN(6)]
			p.Spec.Containers[0].Resources.Requests = list(map[string]string{
				"cpu": strconv.Itoa(cpu) + "m", "memory": strconv.Itoa(cpu*(1+rng.IntN(8))) + "Mi",
			})
			for range rng.IntN(3) {
				twist(rng, p)
			}
		})
	}
	for range rng.IntN(3) {
		r := plan.Rejection{ClassKey: in.Classes[rng.IntN(len(in.Classes))].Key, Reason: "test"}
		switch rng.IntN(3) {
		case 0:
			r.Zone = "us-east-1b"
		case 1:
			r.With = []string{in.Classes[rng.IntN(len(in.Classes))].Key}
		case 2:
			r.MaxPerNode = 1 + rng.IntN(4)
		}
		in.Rejected = append(in.Rejected, r)
	}
	return in
}

func addDaemon(in *plan.Input, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		return
	}
	d := podYAML{Name: "agent", Requests: map[string]string{"cpu": "150m", "memory": "200Mi"}}
	if rng.IntN(2) == 0 {
		d.Spec.NodeSelector = map[string]string{"topology.kubernetes.io/zone": "us-east-1a"}
	}
	in.DaemonSets = append(in.DaemonSets, daemonSet(d))
}

func addNeighbours(in *plan.Input, rng *rand.Rand) {
	for i := range rng.IntN(4) {
		zone := "us-east-1" + string(rune('a'+i))
		n := plan.Node{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: fmt.Sprintf("node-%d", i), corev1.LabelArchStable: "amd64"}}
		if rng.IntN(2) == 0 {
			n.Free = list(map[string]string{"cpu": "3", "memory": "6Gi", "pods": "5"})
		}
		for range rng.IntN(3) {
			n.Pods = append(n.Pods, podYAML{Name: "old", Labels: map[string]string{"app": "app-0"}}.pod())
		}
		in.Nodes = append(in.Nodes, n)
	}
}

// twist gives the pod one more demand.
func twist(rng *rand.Rand, p *corev1.Pod) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-0"}}
	zone, host := corev1.LabelTopologyZone, corev1.LabelHostname
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	a := p.Spec.Affinity
	spread := func(key string, skew int32) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own,
		})
	}
	term := func(key string, s *metav1.LabelSelector) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: s}}
	}
	switch rng.IntN(12) {
	case 0:
		p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/arch": []string{"amd64", "arm64"}[rng.IntN(2)]}
	case 1:
		p.Spec.NodeSelector = map[string]string{zone: "us-east-1c"}
	case 2:
		p.Spec.NodeSelector = map[string]string{"team": []string{"red", "blue"}[rng.IntN(2)]}
	case 3:
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 4:
		spread(zone, 1+int32(rng.IntN(2)))
	case 5:
		spread(host, 1+int32(rng.IntN(4)))
	case 6:
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(host, own)}
	case 7:
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(slices.Concat([]string{zone}, []string{host})[rng.IntN(2)], other)}
	case 8:
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(zone, own)}
	case 9:
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(host, own)}
	case 10:
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(host, other)}
	case 11:
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8000 + int32(rng.IntN(2))}}
	}
}

func TestClassKey(t *testing.T) {
	pod := func(change func(*corev1.Pod)) string {
		p := podYAML{Name: "a", Labels: map[string]string{"app": "a"}, Requests: map[string]string{"cpu": "1"}}.pod()
		change(p)
		return plan.ClassKey(p)
	}
	same := pod(func(*corev1.Pod) {})
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		equal  bool
	}{
		"name":         {func(p *corev1.Pod) { p.Name = "b" }, true},
		"ordinal":      {func(p *corev1.Pod) { p.Labels["apps.kubernetes.io/pod-index"] = "3" }, true},
		"image":        {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "x" }, true},
		"same amount":  {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": "1000m"}) }, true},
		"namespace":    {func(p *corev1.Pod) { p.Namespace = "other" }, false},
		"label":        {func(p *corev1.Pod) { p.Labels["app"] = "b" }, false},
		"request":      {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": "2"}) }, false},
		"nodeSelector": {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, false},
		"toleration":   {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }, false},
		"claim": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, false},
	} {
		if got := pod(c.change) == same; got != c.equal {
			t.Errorf("%s: keys equal is %v, want %v", name, got, c.equal)
		}
	}
}

// TestNamesRepeat plans with a source of names that always says the same: every claim has a name of its own, and the plan ends.
func TestNamesRepeat(t *testing.T) {
	in := randomInput(t, 1)
	in.NewName = func(pool string) string { return pool }
	p := plan.Make(t.Context(), in)
	if len(p.Claims) < 2 {
		t.Fatalf("%d claims: this input shows nothing", len(p.Claims))
	}
	names := map[string]bool{}
	for _, c := range p.Claims {
		if c.Name == "" || names[c.Name] {
			t.Errorf("claim name %q is empty or another claim's", c.Name)
		}
		names[c.Name] = true
	}
}

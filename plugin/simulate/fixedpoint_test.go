package simulate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// churn is a random cluster that is consolidated again and again, with the planner and the filters of the scheduler, while some
// moves are called off and prices change. It counts what that does.
type churn struct {
	t   *testing.T
	rng *rand.Rand
	c   *cluster
	now time.Time
	// rounds in which something went, moves of pods that were made, called off ones, and evictions by pod.
	rounds, moves, off int
	evictions          map[string]int
	// bought are nodes that moves launched, given of them those that a later move gave up with pods on it.
	bought map[string]bool
	given  int
	// level is the catalogue around which prices drift.
	level map[string][]catalog.InstanceType
}

const churnPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidationPolicy: %s, consolidateAfter: 1m, budgets: [{nodes: "%s"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
`

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

// testMarket is a few instance types with their prices.
func testMarket(t *testing.T) *market.Market {
	t.Helper()
	var files market.Files
	for name, text := range map[string]*[]byte{"instance-types": &files.InstanceTypes, "prices": &files.Prices, "zones": &files.Zones} {
		var err error
		if *text, err = os.ReadFile("testdata/market/" + name + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	m, err := market.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newChurn(t *testing.T, seed uint64) *churn {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	m := testMarket(t)
	r := input.NewReader()
	policy, budget := pick(rng, "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "Balanced", "WhenEmpty"), pick(rng, "1", "2", "10%", "35%", "100%")
	if err := r.Read("pool.yaml", fmt.Appendf(nil, churnPool, policy, budget, pick(rng, "on-demand", "on-demand, spot"))); err != nil {
		t.Fatal(err)
	}
	for i := range 1 + rng.IntN(2) {
		spec := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &intstr.IntOrString{IntVal: int32(rng.IntN(3))}}
		spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app", i)}}
		r.Add(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pdb", i)}, Spec: spec})
	}
	h := &churn{t: t, rng: rng, evictions: map[string]int{}, bought: map[string]bool{}, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	for i := range 3 + rng.IntN(8) {
		h.node(r, fmt.Sprint("n", i))
	}
	objects := r.Finish()
	cat, _ := m.Catalog(t.Context(), objects)
	h.c = &cluster{objects: objects, cat: cat, shapes: map[string]int{}}
	for _, n := range objects.Nodes {
		h.c.o.taken = append(h.c.o.taken, n.Name)
	}
	return h
}

// node adds a node that is filled at random.
func (h *churn) node(r *input.Reader, name string) {
	kind := pick(h.rng, "m5.large", "m5.large", "m5.xlarge", "m5.2xlarge")
	cpu, memory := map[string]int{"m5.large": 1930, "m5.xlarge": 3920, "m5.2xlarge": 7910}[kind], map[string]int{"m5.large": 7000, "m5.xlarge": 14000, "m5.2xlarge": 29000}[kind]
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(memory)<<20, resource.BinarySI), corev1.ResourcePods: resource.MustParse("29"),
	}
	r.Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(h.now.Add(-24 * time.Hour)), Labels: map[string]string{
			karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyZone: pick(h.rng, "us-east-1a", "us-east-1b"),
			karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
	fill := h.rng.Float64()
	for i, used := 0, 0; i < 12; i++ {
		need := pick(h.rng, 100, 250, 400, 900)
		if float64(used+need) > fill*float64(cpu) {
			break
		}
		used += need
		r.Add(h.pod(name, i, need))
	}
}

func (h *churn) pod(node string, i, cpu int) *corev1.Pod {
	app := fmt.Sprint("app", h.rng.IntN(6))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("%s-%s-%d", app, node, i), Labels: map[string]string{"app": app}, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, Controller: new(true)}},
	}}
	switch h.rng.IntN(60) {
	case 0:
		pod.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
	case 1:
		pod.OwnerReferences = nil
	}
	pod.UID, pod.Spec.NodeName, pod.Status.Phase = types.UID("uid-"+pod.Name), node, corev1.PodRunning
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(cpu)<<20, resource.BinarySI),
	}}}}
	if h.rng.IntN(3) == 0 {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 2, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}
	}
	return pod
}

// podAge is the default of every NodePool.
func podAge(*karpv1.NodePool) time.Duration { return 0 }

func (h *churn) bill() (sum float64) {
	for _, n := range observe(h.c.objects, h.now).fleet(h.c.cat, podAge) {
		sum += n.Price
	}
	return sum
}

// settle consolidates until nothing is to be gained any more. calledOff is the share of moves that are called off once their nodes
// were bought, as when a pod comes that has no room: the pods stay, and so does what was bought.
func (h *churn) settle(calledOff float64) {
	h.t.Helper()
	for round := 0; ; round++ {
		if round > 100 {
			h.t.Fatal("no end after 100 rounds")
		}
		h.now = h.now.Add(11 * time.Minute)
		o := consolidate.DefaultOptions()
		o.Allowed, _ = observe(h.c.objects, h.now).allowances(h.c.objects.NodePools)
		nodes := observe(h.c.objects, h.now).fleet(h.c.cat, podAge)
		d, err := consolidate.Decide(h.t.Context(), nodes, o, h.c.ask)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(d.Moves) == 0 {
			return
		}
		h.rounds++
		h.judge(nodes, d, o)
		before, pods, promised := h.bill(), len(h.c.objects.Pods), 0.0
		var made []consolidate.Move
		for _, m := range d.Moves {
			if len(m.Targets) > 0 && h.rng.Float64() < calledOff {
				h.off++
				promised -= h.leftOver(m, o)
				continue
			}
			made = append(made, m)
			promised += m.Saving
		}
		if len(made) > 0 {
			h.apply(made)
		}
		if fell := before - h.bill(); fell < promised-1e-9 || len(h.c.objects.Pods) != pods {
			h.t.Fatalf("the bill fell by %v, promised was %v; %d pods, then %d", fell, promised, pods, len(h.c.objects.Pods))
		}
	}
}

// apply makes some moves of a decision: each can be made without the others.
func (h *churn) apply(made []consolidate.Move) {
	h.t.Helper()
	gone, at := map[string]bool{}, map[string]string{}
	after := *h.c.objects
	after.Nodes = slices.Clone(after.Nodes)
	for _, m := range made {
		if len(m.Targets) > 0 {
			h.moves++
		}
		for _, n := range m.Nodes {
			gone[n.Name] = true
			if h.bought[n.Name] && len(n.Pods) > 0 {
				h.given++
			}
		}
		for pod, to := range m.Targets {
			at[pod] = to
			h.evictions[pod]++
		}
		after.Nodes = append(after.Nodes, h.buy(m)...)
	}
	after.Nodes = slices.DeleteFunc(after.Nodes, func(n *corev1.Node) bool { return gone[n.Name] })
	after.Pods = slices.Clone(after.Pods)
	for i, p := range after.Pods {
		if to := at[p.Namespace+"/"+p.Name]; to != "" {
			after.Pods[i].Pod = onNode(p.Pod, to)
		} else if gone[p.Spec.NodeName] {
			h.t.Fatalf("pod %s is evicted without a slot", p.Name)
		}
	}
	h.c.objects = &after
	h.fits()
}

// buy launches the replacements of a move.
func (h *churn) buy(m consolidate.Move) (out []*corev1.Node) {
	for _, r := range m.Replacements {
		for _, t := range h.c.cat.InstanceTypes[h.c.cat.NodePools[r.NodePool].NodeClass] {
			if t.Name != r.InstanceType {
				continue
			}
			labels := maps.Clone(t.Labels)
			labels[karpv1.NodePoolLabelKey], labels[karpv1.CapacityTypeLabelKey] = r.NodePool, r.CapacityType
			labels[corev1.LabelTopologyZone], labels[corev1.LabelHostname] = r.Zone, r.Name
			labels[corev1.LabelInstanceTypeStable] = r.InstanceType
			out = append(out, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: r.Name, Labels: labels, CreationTimestamp: metav1.NewTime(h.now)},
				Status: corev1.NodeStatus{
					Capacity: t.Allocatable, Allocatable: t.Allocatable,
					Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				},
			})
		}
		h.bought[r.Name], h.c.o.taken = true, append(h.c.o.taken, r.Name)
	}
	if len(out) != len(m.Replacements) {
		h.t.Fatalf("%d of %d replacements are in the catalogue", len(out), len(m.Replacements))
	}
	return out
}

// leftOver buys what a move wants that is then called off, and returns what that costs.
func (h *churn) leftOver(m consolidate.Move, o consolidate.Options) (sum float64) {
	after := *h.c.objects
	after.Nodes = append(slices.Clone(after.Nodes), h.buy(m)...)
	h.c.objects = &after
	for _, r := range m.Replacements {
		sum += r.Price
	}
	if most := m.Most(o); sum > most+1e-9 {
		h.t.Errorf("a move buys for %v USD per hour, %v is what pays back", sum, most)
	}
	return sum
}

// fits holds the pods of each node against its room.
func (h *churn) fits() {
	h.t.Helper()
	used := map[string]*resource.Quantity{}
	for _, p := range h.c.objects.Pods {
		if used[p.Spec.NodeName] == nil {
			used[p.Spec.NodeName] = &resource.Quantity{}
		}
		used[p.Spec.NodeName].Add(*p.Spec.Containers[0].Resources.Requests.Cpu())
	}
	for _, n := range h.c.objects.Nodes {
		if u := used[n.Name]; u != nil && u.Cmp(*n.Status.Allocatable.Cpu()) > 0 {
			h.t.Fatalf("the pods of node %s ask for %s of %s", n.Name, u, n.Status.Allocatable.Cpu())
		}
		delete(used, n.Name)
	}
	if len(used) > 0 {
		h.t.Fatalf("pods run on nodes that are gone: %v", slices.Sorted(maps.Keys(used)))
	}
}

// drift has the prices of all offerings go up and down by up to share.
func (h *churn) drift(share float64) {
	if h.level == nil {
		h.level = h.c.cat.InstanceTypes
	}
	out := maps.Clone(h.level)
	for _, class := range slices.Sorted(maps.Keys(out)) {
		list := slices.Clone(out[class])
		for i := range list {
			list[i].Offerings = slices.Clone(list[i].Offerings)
			for j := range list[i].Offerings {
				list[i].Offerings[j].Price *= 1 + share*(2*h.rng.Float64()-1)
			}
		}
		out[class] = list
	}
	h.c.cat = catalog.State{Generation: h.c.cat.Generation + 1, InstanceTypes: out, NodePools: h.c.cat.NodePools, InFlight: h.c.cat.InFlight}
}

// Whatever the cluster, consolidation keeps to every rule, and comes to rest: after at most as many moves as there were nodes, with
// at most three evictions of any pod, and whatever was called off in between. It stays at rest, but for one move at most that has
// just become worth it, while prices go up and down by 2%.
func TestConsolidationComesToRest(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newChurn(t, seed)
			nodes, before := len(h.c.objects.Nodes), h.bill()
			h.settle(0.3)
			first, often := h.moves, most(h.evictions)
			t.Logf("%d nodes, %.3f -> %.3f USD/h: %d rounds, %d moves (%d called off), %d evictions, of one pod %d, %d bought nodes given up",
				nodes, before, h.bill(), h.rounds, first, h.off, total(h.evictions), often, h.given)
			if first > nodes || often > 3 {
				t.Errorf("%d moves of %d nodes, and %d evictions of one pod: that is churn", first, nodes, often)
			}
			for range 6 {
				h.drift(0.02)
				h.settle(0)
			}
			if later := h.moves - first; later > 1 {
				t.Errorf("%d moves while prices drift by 2%% at a time", later)
			}
		})
	}
}

func total(of map[string]int) (sum int) {
	for _, n := range of {
		sum += n
	}
	return sum
}

func most(of map[string]int) (n int) {
	for _, v := range of {
		n = max(n, v)
	}
	return n
}

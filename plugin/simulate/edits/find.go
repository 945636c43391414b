package edits

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

const (
	// mostClasses bounds the classes that edits are searched for, the largest first.
	mostClasses = 20
	// MostPods bounds the pods that are named of each class.
	MostPods = 100
	// within bounds the search for all classes.
	within = 20 * time.Second
)

// Unplaced is a class of pods that cannot be placed, with the edits that help.
type Unplaced struct {
	// Namespace of the pods.
	Namespace string `json:"namespace"`
	// Owner is their controller, such as "ReplicaSet web-5d4f", or "Pod web".
	Owner string `json:"owner"`
	// Pods by name, at most 100.
	Pods []string `json:"pods"`
	// Count is the number of pods.
	Count int `json:"count"`
	// Edits of which each alone helps all of them, the smallest first; empty for none.
	Edits []Edit `json:"edits"`
	// Incomplete means that the time ended before all candidates were checked.
	Incomplete bool `json:"incomplete,omitempty"`
	// Unsearched means that no edits were searched for: 20 classes are larger, or as large.
	Unsearched bool `json:"unsearched,omitempty"`
}

// World is what is planned: an input, what can be bought, and the planner's options.
type World struct {
	// Objects of the input.
	Objects *input.Objects
	// Market that they buy from.
	Market *market.Market
	// Options of the planner.
	Options simulate.Options
}

// Find returns the classes that the outcome of the world leaves unplaced, the largest first, with the edits that help. Edits are searched for the first
// 20. A name as namespace/name limits them to the class of that pod. Pods that wait for something other than a node are not among them.
func Find(ctx context.Context, w World, outcome *simulate.Outcome, pod string) ([]Unplaced, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	list := slices.Clone(outcome.Plan.Unplaced)
	slices.SortStableFunc(list, func(a, b plan.Unplaced) int { return len(b.Pods) - len(a.Pods) })
	if pod != "" {
		list = slices.DeleteFunc(list, func(u plan.Unplaced) bool {
			return !slices.ContainsFunc(u.Pods, func(ref catalog.PodRef) bool { return ref.Namespace+"/"+ref.Name == pod })
		})
	}
	pools := Pools{All: w.Objects.NodePools, Usage: map[string]corev1.ResourceList{}}
	for name, p := range outcome.Input.Catalog.NodePools {
		pools.Usage[name] = p.Usage
	}
	owners := outcome.Owners()
	out := []Unplaced{}
	for i, u := range list {
		class := outcome.Input.Classes[u.Class]
		one := unplacedOf(u, class.Pod)
		if i >= mostClasses {
			one.Unsearched = true
			out = append(out, one)
			continue
		}
		first := u.Pods[0].Namespace + "/" + u.Pods[0].Name
		found, complete, err := Search(ctx, Class{Pod: class.Pod, Owner: owners[first], Reasons: u.Reasons}, pools, w.check(outcome, u.Class))
		if err != nil {
			return nil, err
		}
		one.Edits, one.Incomplete = append(one.Edits, found...), !complete
		out = append(out, one)
	}
	return out, nil
}

// unplacedOf returns the class with the names of its pods.
func unplacedOf(u plan.Unplaced, pod *corev1.Pod) Unplaced {
	out := Unplaced{Namespace: u.Pods[0].Namespace, Owner: OwnerOf(pod, u.Pods[0].Name), Count: len(u.Pods), Edits: []Edit{}}
	for _, ref := range u.Pods[:min(len(u.Pods), MostPods)] {
		out.Pods = append(out.Pods, ref.Name)
	}
	return out
}

// OwnerOf returns the controller of a pod, such as "ReplicaSet web-5d4f", or "Pod web" with the name if it has none. A nil pod is one that is not known.
func OwnerOf(pod *corev1.Pod, name string) string {
	if pod != nil {
		if c := metav1.GetControllerOf(pod); c != nil {
			return c.Kind + " " + c.Name
		}
	}
	return "Pod " + name
}

// check returns a Check that simulates the world with a change for the pods of a class.
func (w World) check(before *simulate.Outcome, class int) Check {
	pods, owners := map[string]bool{}, before.Owners()
	for _, ref := range before.Input.Classes[class].Pods {
		pods[ref.Namespace+"/"+ref.Name] = true
	}
	first := before.Input.Classes[class].Pods[0]
	owner := owners[first.Namespace+"/"+first.Name]
	mates := func(name string) bool { return owners[name] == owner }
	missing := unplacedPods(before, nil)
	return func(ctx context.Context, c Change) (Placed, error) {
		market := *w.Market // It notes what it assumes.
		after, err := simulate.Run(ctx, w.with(c, pods, mates), &market, w.Options)
		if err != nil {
			return Placed{}, err
		}
		out := Placed{Added: after.Plan.CostPerHour - before.Plan.CostPerHour}
		out.All = unplacedPods(after, pods) == 0 && unplacedPods(after, nil) <= missing-unplacedPods(before, pods)
		for i := range after.Plan.Claims {
			claim := &after.Plan.Claims[i]
			if n := nodeOf(claim, after.Input.Catalog); has(claim.Members, pods) {
				out.Nodes, out.Own = slices.Insert(out.Nodes, out.Own, n), out.Own+1
			} else {
				out.Nodes = append(out.Nodes, n)
			}
		}
		return out, nil
	}
}

// with returns the objects with a change. The pods get the change's spec; others of their workload have its rules between pods too, once the workload
// has replaced them.
func (w World) with(c Change, pods map[string]bool, mates func(name string) bool) *input.Objects {
	out := *w.Objects
	if c.NodePool != nil {
		out.NodePools = slices.Clone(out.NodePools)
		for i, p := range out.NodePools {
			if p.Name == c.NodePool.Name {
				out.NodePools[i] = c.NodePool
			}
		}
	}
	if c.Pod != nil {
		out.Pods = slices.Clone(out.Pods)
		for i, p := range out.Pods {
			edited, name := *p.Pod, p.Namespace+"/"+p.Name
			switch {
			case pods[name]:
				edited.Spec = c.Pod.Spec
			case mates(name):
				edited.Spec.Affinity, edited.Spec.TopologySpreadConstraints = c.Pod.Spec.Affinity, c.Pod.Spec.TopologySpreadConstraints
			default:
				continue
			}
			out.Pods[i].Pod, out.Pods[i].Shape = &edited, -1
		}
	}
	return &out
}

// unplacedPods returns how many pods have no place: of those in pods, or of all if it is nil.
func unplacedPods(o *simulate.Outcome, pods map[string]bool) int {
	n := 0
	for _, u := range o.Plan.Unplaced {
		for _, ref := range u.Pods {
			if pods == nil || pods[ref.Namespace+"/"+ref.Name] {
				n++
			}
		}
	}
	return n
}

// has reports whether one of the pods is a member.
func has(members []plan.Member, pods map[string]bool) bool {
	return slices.ContainsFunc(members, func(m plan.Member) bool {
		return slices.ContainsFunc(m.Pods, func(ref catalog.PodRef) bool { return pods[ref.Namespace+"/"+ref.Name] })
	})
}

// nodeOf returns a node to launch.
func nodeOf(c *plan.Claim, cat catalog.State) Node {
	pool := cat.NodePools[c.NodePool]
	out := Node{NodePool: c.NodePool, InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone, CapacityType: c.Expected.CapacityType, Labels: c.Labels}
	types := cat.InstanceTypes[pool.TypesKey()]
	if i := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == c.Expected.InstanceType }); i >= 0 {
		out.Capacity = maps.Clone(types[i].Capacity)
		out.Capacity[catalog.LimitUSD] = c.LimitedUSD(cat)
	}
	return out
}

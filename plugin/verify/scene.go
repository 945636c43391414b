package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// spot is a node with the pods of one class on it.
type spot struct {
	// class and index of the pods.
	class *plan.Class
	index int
	node  *framework.NodeInfo
	pods  []*framework.PodInfo
	refs  []catalog.PodRef
	// claim is set for a node to launch. Otherwise the node exists or is in flight.
	claim *plan.Claim
	// others are the keys of the other classes that the plan puts on the node, by UID of their pods.
	others map[types.UID]string
	// daemons are the DaemonSets of the node's DaemonSet pods, by UID of the pods.
	daemons map[types.UID]*appsv1.DaemonSet
}

// scene is the final state: the cluster with all placements of the plan.
type scene struct {
	view    *clusterview.View
	claims  []plan.Claim
	cat     catalog.State
	classes []plan.Class
	spots   map[int][]*spot
	order   []int
	changed map[string]*framework.NodeInfo
	virtual []*framework.NodeInfo
	// domains are the empty nodes among the virtual ones.
	domains []*framework.NodeInfo
	// ofClaim are the spots of each claim. shapes and known cache the parts of alternatives.
	ofClaim map[int][]*spot
	shapes  map[string]*shape
	known   map[string]map[place]*variant
	// variantsOf caches the variants of claims by variantsKey.
	variantsOf map[string][]*variant
	// keys are the label keys of nodes that matter to any pod; nil until they are asked for.
	keys map[string]bool
}

func newScene(ctx context.Context, view *clusterview.View, classes []plan.Class, p plan.Plan, cat catalog.State) (*scene, error) {
	s := &scene{
		view: view, claims: p.Claims, cat: cat, classes: classes, spots: map[int][]*spot{}, changed: map[string]*framework.NodeInfo{},
		ofClaim: map[int][]*spot{}, shapes: map[string]*shape{}, known: map[string]map[place]*variant{},
		variantsOf: map[string][]*variant{},
	}
	infos := map[int]*framework.PodInfo{}
	var err error
	for i := range p.Claims {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("placing the pods of %s: %w", catalog.CountText(len(p.Claims), "claim"), ctx.Err())
		}
		c := &p.Claims[i]
		ni := framework.NewNodeInfo()
		ni.SetNode(clusterview.VirtualNode(c.Name, clusterview.ClaimLabels(c), c.Taints, c.Allocatable))
		at := spot{node: ni, claim: c, others: map[types.UID]string{}, daemons: view.AddDaemons(ni, nil)}
		s.virtual = append(s.virtual, ni)
		if s.ofClaim[i], err = s.place(at, c.Members, infos); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.Name, err)
		}
	}
	existing := map[string]*framework.NodeInfo{}
	if len(p.Placements) > 0 {
		for _, ni := range view.Existing() {
			existing[ni.Node().Name] = ni
		}
	}
	for _, pl := range p.Placements {
		ni := s.changed[pl.Node]
		if ni == nil {
			from := existing[pl.Node]
			if pl.InFlight {
				from = view.InFlight()[pl.Node]
			}
			if from == nil {
				return nil, fmt.Errorf("placement on %s: no such node (in flight: %t)", pl.Node, pl.InFlight)
			}
			ni = from.SnapshotConcrete()
			s.changed[pl.Node] = ni
		}
		if _, err = s.place(spot{node: ni, others: map[types.UID]string{}}, pl.Members, infos); err != nil {
			return nil, fmt.Errorf("placement on %s: %w", pl.Node, err)
		}
	}
	s.order = slices.Sorted(maps.Keys(s.spots))
	if slices.ContainsFunc(s.order, func(i int) bool { return spreadsHard(classes[i].Pod) }) {
		s.domains = view.Domains(cat, left(cat, p.Claims))
		s.virtual = append(s.virtual, s.domains...)
	}
	return s, nil
}

// shareHost gives the empty nodes the hostname of the first node that the plan uses for the class. An empty zone is a domain of a topology spread, but a
// host that does not exist is none: in the cluster each node has its DaemonSet pods, and a spread may count these. The label itself has to be there,
// because PodTopologySpread counts only nodes that have the keys of all constraints.
func (s *scene) shareHost(index int) {
	overHosts := slices.ContainsFunc(s.classes[index].Pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.TopologyKey == corev1.LabelHostname && c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
	if !overHosts || len(s.spots[index]) == 0 {
		return
	}
	host := s.spots[index][0].node.Node().Labels[corev1.LabelHostname]
	for _, ni := range s.domains {
		ni.Node().Labels[corev1.LabelHostname] = host
	}
}

// of returns the spots of the claim, which is one of the scene's.
func (s *scene) of(claim *plan.Claim) []*spot {
	for i := range s.claims {
		if &s.claims[i] == claim {
			return s.ofClaim[i]
		}
	}
	return nil
}

// matters returns the label keys of nodes that matter to any pod.
func (s *scene) matters() map[string]bool {
	if s.keys == nil {
		var classes []*plan.Class
		for _, index := range s.order {
			classes = append(classes, &s.classes[index])
		}
		s.keys = keysThatMatter(classes, s.nodes())
	}
	return s.keys
}

// place adds the members to the node of the spot, and returns the spot of each class.
func (s *scene) place(on spot, members []plan.Member, infos map[int]*framework.PodInfo) ([]*spot, error) {
	var out []*spot
	for _, m := range members {
		if m.Class < 0 || m.Class >= len(s.classes) {
			return nil, fmt.Errorf("class %d is not in the input", m.Class)
		}
		if len(m.Pods) == 0 {
			continue
		}
		of := infos[m.Class]
		if of == nil {
			// As in the scheduler's cache, a term that cannot be parsed does not count.
			of, _ = framework.NewPodInfo(s.classes[m.Class].Pod)
			infos[m.Class] = of
		}
		at := on
		at.refs, at.class, at.index = m.Pods, &s.classes[m.Class], m.Class
		for _, ref := range m.Pods {
			info := renamed(of, ref)
			at.node.AddPodInfo(info)
			at.pods = append(at.pods, info)
			at.others[types.UID(ref.UID)] = s.classes[m.Class].Key
		}
		s.spots[m.Class] = append(s.spots[m.Class], &at)
		out = append(out, &at)
	}
	return out, nil
}

// nodes lists all nodes of the final state.
func (s *scene) nodes() []*framework.NodeInfo {
	out := make([]*framework.NodeInfo, 0, len(s.view.Existing())+len(s.view.InFlight())+len(s.virtual))
	add := func(ni *framework.NodeInfo) {
		if c := s.changed[ni.Node().Name]; c != nil {
			ni = c
		}
		out = append(out, ni)
	}
	for _, ni := range s.view.Existing() {
		add(ni)
	}
	for _, name := range slices.Sorted(maps.Keys(s.view.InFlight())) {
		add(s.view.InFlight()[name])
	}
	return append(out, s.virtual...)
}

func spreadsHard(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

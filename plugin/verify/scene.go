package verify

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// spot is the pods of one class on one node.
type spot struct {
	node *framework.NodeInfo
	pods []*framework.PodInfo
	refs []catalog.PodRef
	// claim is set for a node to launch, otherwise the node exists or is in flight.
	claim *plan.Claim
	// others are the keys of the other classes that the plan puts on the node, by UID of their pods.
	others map[types.UID]string
}

// scene is the final state: the world with everything that the plan places.
type scene struct {
	world   *World
	claims  []plan.Claim
	classes []plan.Class
	spots   map[int][]*spot
	order   []int
	changed map[string]*framework.NodeInfo
	virtual []*framework.NodeInfo
}

func newScene(w *World, classes []plan.Class, p plan.Plan, cat catalog.State) (*scene, error) {
	s := &scene{world: w, claims: p.Claims, classes: classes, spots: map[int][]*spot{}, changed: map[string]*framework.NodeInfo{}}
	infos := map[int]*framework.PodInfo{}
	for i := range p.Claims {
		c := &p.Claims[i]
		ni := framework.NewNodeInfo()
		ni.SetNode(virtualNode(c.Name, claimLabels(c), c.Taints, c.Allocatable))
		w.addDaemons(ni, nil)
		s.virtual = append(s.virtual, ni)
		if err := s.place(ni, c, c.Members, infos); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.Name, err)
		}
	}
	existing := map[string]*framework.NodeInfo{}
	if len(p.Placements) > 0 {
		for _, ni := range w.existing {
			existing[ni.Node().Name] = ni
		}
	}
	for _, pl := range p.Placements {
		ni := s.changed[pl.Node]
		if ni == nil {
			from := existing[pl.Node]
			if pl.InFlight {
				from = w.inFlight[pl.Node]
			}
			if from == nil {
				return nil, fmt.Errorf("placement on %s: no such node (in flight: %t)", pl.Node, pl.InFlight)
			}
			ni = from.SnapshotConcrete()
			s.changed[pl.Node] = ni
		}
		if err := s.place(ni, nil, pl.Members, infos); err != nil {
			return nil, fmt.Errorf("placement on %s: %w", pl.Node, err)
		}
	}
	s.order = slices.Sorted(maps.Keys(s.spots))
	if slices.ContainsFunc(s.order, func(i int) bool { return spreadsHard(classes[i].Pod) }) {
		s.virtual = append(s.virtual, w.domains(cat)...)
	}
	return s, nil
}

// place puts the members on the node.
func (s *scene) place(ni *framework.NodeInfo, claim *plan.Claim, members []plan.Member, infos map[int]*framework.PodInfo) error {
	keys := map[types.UID]string{}
	for _, m := range members {
		if m.Class < 0 || m.Class >= len(s.classes) {
			return fmt.Errorf("class %d is not in the input", m.Class)
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
		at := &spot{node: ni, claim: claim, others: keys, refs: m.Pods}
		for _, ref := range m.Pods {
			info := renamed(of, ref)
			ni.AddPodInfo(info)
			at.pods = append(at.pods, info)
			keys[types.UID(ref.UID)] = s.classes[m.Class].Key
		}
		s.spots[m.Class] = append(s.spots[m.Class], at)
	}
	return nil
}

// nodes lists all nodes of the final state.
func (s *scene) nodes() []*framework.NodeInfo {
	out := make([]*framework.NodeInfo, 0, len(s.world.existing)+len(s.world.inFlight)+len(s.virtual))
	add := func(ni *framework.NodeInfo) {
		if c := s.changed[ni.Node().Name]; c != nil {
			ni = c
		}
		out = append(out, ni)
	}
	for _, ni := range s.world.existing {
		add(ni)
	}
	for _, name := range slices.Sorted(maps.Keys(s.world.inFlight)) {
		add(s.world.inFlight[name])
	}
	return append(out, s.virtual...)
}

func claimLabels(c *plan.Claim) map[string]string {
	out := maps.Clone(c.Labels)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range map[string]string{
		corev1.LabelTopologyZone:       c.Expected.Zone,
		corev1.LabelInstanceTypeStable: c.Expected.InstanceType,
		"karpenter.sh/capacity-type":   c.Expected.CapacityType,
		"karpenter.sh/nodepool":        c.NodePool,
		// The EBS driver's own zone key, in the node affinity of its volumes.
		"topology.ebs.csi.aws.com/zone": c.Expected.Zone,
	} {
		if out[key] == "" && value != "" {
			out[key] = value
		}
	}
	return out
}

func spreadsHard(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

// domains are empty nodes, one for each place where a node could be launched: PodTopologySpread knows only the domains
// of nodes that it sees, and a zone that has no node yet is a domain all the same.
func (w *World) domains(cat catalog.State) []*framework.NodeInfo {
	var out []*framework.NodeInfo
	for _, name := range slices.Sorted(maps.Keys(cat.NodePools)) {
		pool := cat.NodePools[name]
		wanted, err := catalog.NewRequirements(pool.Requirements)
		if !pool.Ready || err != nil {
			continue
		}
		seen := map[string]bool{}
		for _, t := range cat.InstanceTypes[pool.NodeClass] {
			for _, o := range t.Offerings {
				key := o.Zone + "/" + o.CapacityType + "/" + t.Labels[corev1.LabelArchStable]
				if !o.Available || seen[key] {
					continue
				}
				labels := offeringLabels(pool, t, o)
				if _, ok := wanted.Match(labels); !ok {
					continue
				}
				seen[key] = true
				ni := framework.NewNodeInfo()
				ni.SetNode(virtualNode("empty/"+name+"/"+key, labels, pool.Taints, t.Allocatable))
				out = append(out, ni)
			}
		}
	}
	return out
}

func offeringLabels(pool catalog.NodePool, t catalog.InstanceType, o catalog.Offering) map[string]string {
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, pool.Labels)
	labels[corev1.LabelTopologyZone] = o.Zone
	labels["topology.ebs.csi.aws.com/zone"] = o.Zone
	labels["karpenter.sh/capacity-type"] = o.CapacityType
	labels["karpenter.sh/nodepool"] = pool.Name
	if o.ZoneID != "" {
		labels["topology.k8s.aws/zone-id"] = o.ZoneID
	}
	return labels
}

package verify

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	labelCapacityType = "karpenter.sh/capacity-type"
	// limitOfNodes is the entry of a NodePool's limits that counts nodes.
	limitOfNodes corev1.ResourceName = "nodes"
	// labelEBSZone is the EBS driver's own zone key, in the node affinity of its volumes.
	labelEBSZone = "topology.ebs.csi.aws.com/zone"
)

// spot is the pods of one class on one node.
type spot struct {
	// class and index of the pods.
	class *plan.Class
	index int
	node  *framework.NodeInfo
	pods  []*framework.PodInfo
	refs  []catalog.PodRef
	// claim is set for a node to launch, otherwise the node exists or is in flight.
	claim *plan.Claim
	// others are the keys of the other classes that the plan puts on the node, by UID of their pods.
	others map[types.UID]string
	// daemons are the DaemonSets of the node's daemon pods, by UID of the pods.
	daemons map[types.UID]*appsv1.DaemonSet
}

// scene is the final state: the world with everything that the plan places.
type scene struct {
	world   *World
	claims  []plan.Claim
	cat     catalog.State
	classes []plan.Class
	spots   map[int][]*spot
	order   []int
	changed map[string]*framework.NodeInfo
	virtual []*framework.NodeInfo
	// ofClaim are the spots of each claim; shapes and known remember what alternatives are made of.
	ofClaim map[int][]*spot
	shapes  map[string]*shape
	known   map[string]map[place]*variant
	// variantsOf are those of claims, by what claims of the same ones have in common.
	variantsOf map[string][]*variant
	// keys are the labels of nodes that matter to any pod, sorted.
	keys []string
}

func newScene(w *World, classes []plan.Class, p plan.Plan, cat catalog.State) (*scene, error) {
	s := &scene{
		world: w, claims: p.Claims, cat: cat, classes: classes, spots: map[int][]*spot{}, changed: map[string]*framework.NodeInfo{},
		ofClaim: map[int][]*spot{}, shapes: map[string]*shape{}, known: map[string]map[place]*variant{},
		variantsOf: map[string][]*variant{},
	}
	infos := map[int]*framework.PodInfo{}
	var err error
	for i := range p.Claims {
		c := &p.Claims[i]
		ni := framework.NewNodeInfo()
		ni.SetNode(virtualNode(c.Name, claimLabels(c), c.Taints, c.Allocatable))
		at := spot{node: ni, claim: c, others: map[types.UID]string{}, daemons: w.addDaemons(ni, nil)}
		s.virtual = append(s.virtual, ni)
		if s.ofClaim[i], err = s.place(at, c.Members, infos); err != nil {
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
		if _, err = s.place(spot{node: ni, others: map[types.UID]string{}}, pl.Members, infos); err != nil {
			return nil, fmt.Errorf("placement on %s: %w", pl.Node, err)
		}
	}
	s.order = slices.Sorted(maps.Keys(s.spots))
	if slices.ContainsFunc(s.order, func(i int) bool { return spreadsHard(classes[i].Pod) }) {
		s.virtual = append(s.virtual, w.domains(cat, s.left())...)
	}
	return s, nil
}

// place puts the members on the node of the spot, and returns the spot of each class.
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
		labelCapacityType:              c.Expected.CapacityType,
		"karpenter.sh/nodepool":        c.NodePool,
	} {
		if out[key] == "" && value != "" {
			out[key] = value
		}
	}
	addAliases(out)
	return out
}

// addAliases adds the deprecated and driver-specific names of labels, by which some pods and volumes select nodes.
func addAliases(labels map[string]string) {
	for _, a := range [...]struct{ normal, alias string }{
		{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone},
		{corev1.LabelTopologyZone, labelEBSZone},
		{corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion},
		{corev1.LabelArchStable, "beta.kubernetes.io/arch"},
		{corev1.LabelOSStable, "beta.kubernetes.io/os"},
		{corev1.LabelInstanceTypeStable, corev1.LabelInstanceType},
	} {
		if value, ok := labels[a.normal]; ok && labels[a.alias] == "" {
			labels[a.alias] = value
		}
	}
}

func spreadsHard(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

func offeringLabels(pool catalog.NodePool, t catalog.InstanceType, o catalog.Offering) map[string]string {
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, pool.Labels)
	labels[corev1.LabelTopologyZone] = o.Zone
	labels[labelCapacityType] = o.CapacityType
	labels["karpenter.sh/nodepool"] = pool.Name
	if o.ZoneID != "" {
		labels["topology.k8s.aws/zone-id"] = o.ZoneID
	}
	if labels[corev1.LabelTopologyRegion] == "" {
		labels[corev1.LabelTopologyRegion] = plan.RegionOf(o.Zone)
	}
	if labels[corev1.LabelOSStable] == "" {
		labels[corev1.LabelOSStable] = string(corev1.Linux)
	}
	addAliases(labels)
	return labels
}

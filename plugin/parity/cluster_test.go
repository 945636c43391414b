package parity_test

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// cluster is one case: all that a plan depends on, as the objects that `slipway simulate` reads.
type cluster struct {
	// seed of the case; 0 where it is read from a file.
	seed       uint64
	zones      []string
	types      []instance
	pools      []catalog.NodePool
	namespaces []*corev1.Namespace
	nodes      []*corev1.Node
	// pods are bound (to one of the nodes) or pending.
	pods       []*corev1.Pod
	daemonSets []*appsv1.DaemonSet
	volumes    []*corev1.PersistentVolume
	claims     []*corev1.PersistentVolumeClaim
	classes    []*storagev1.StorageClass
	// preferenceShare is how much more than the bill without them preferences may cost.
	preferenceShare float64
}

// instance is an instance type with its prices: on demand in all zones, spot by zone.
type instance struct {
	catalog.Facts
	onDemand float64
	spot     map[string]float64
	// reserved is how many instances a capacity reservation in the first zone by name still holds.
	reserved int64
	// attach is how many volumes a node of the type takes; 0 for as many as EC2 says.
	attach int64
	// sold are "zone/capacityType" that EC2 has no capacity for.
	sold map[string]bool
}

// class is the name of the one EC2NodeClass.
const class = "default"

func (c *cluster) clone() *cluster {
	out := *c
	out.types, out.pools, out.pods = slices.Clone(c.types), slices.Clone(c.pools), slices.Clone(c.pods)
	out.zones, out.namespaces, out.nodes = slices.Clone(c.zones), slices.Clone(c.namespaces), slices.Clone(c.nodes)
	out.daemonSets, out.volumes = slices.Clone(c.daemonSets), slices.Clone(c.volumes)
	out.claims, out.classes = slices.Clone(c.claims), slices.Clone(c.classes)
	return &out
}

func (c *cluster) pending() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

func (c *cluster) bound() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
}

// state is the catalog as the launcher would tell it.
func (c *cluster) state() (catalog.State, error) {
	out := catalog.State{
		NodePools: map[string]catalog.NodePool{}, InstanceTypes: map[string][]catalog.InstanceType{},
		InFlight: map[string]catalog.InFlightNode{},
	}
	for _, p := range c.pools {
		p.Usage = c.usage(p)
		out.NodePools[p.Name] = p
	}
	for _, n := range c.nodes {
		if starting(n) {
			out.InFlight[n.Name] = c.inFlight(n)
		}
	}
	for _, t := range c.types {
		it, err := t.shape(c.zones)
		if err != nil {
			return catalog.State{}, err
		}
		out.InstanceTypes[class] = append(out.InstanceTypes[class], it)
	}
	return out, nil
}

// startingAnnotation marks a node that exists and is not initialized yet: its daemon pods are still to come.
const startingAnnotation = "parity/starting"

func starting(n *corev1.Node) bool { return n.Annotations[startingAnnotation] != "" }

// inFlight is the node as the launcher tells of it.
func (c *cluster) inFlight(n *corev1.Node) catalog.InFlightNode {
	out := catalog.InFlightNode{
		NodeClaim: n.Name, NodeName: n.Name, NodePool: n.Labels["karpenter.sh/nodepool"], Phase: catalog.PhaseNodeCreated, Labels: n.Labels,
		Taints: n.Spec.Taints, Allocatable: n.Status.Allocatable, InstanceType: n.Labels[corev1.LabelInstanceTypeStable],
		Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels["karpenter.sh/capacity-type"],
	}
	for _, p := range c.bound() {
		if p.Spec.NodeName == n.Name {
			out.Pods = append(out.Pods, catalog.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
		}
	}
	return out
}

// usage of a pool is the capacity of its nodes.
func (c *cluster) usage(p catalog.NodePool) corev1.ResourceList {
	out := corev1.ResourceList{}
	count := 0
	for _, n := range c.nodes {
		if n.Labels["karpenter.sh/nodepool"] != p.Name {
			continue
		}
		count++
		for name, q := range n.Status.Capacity {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	out["nodes"] = quantity(int64(count))
	return out
}

func (t *instance) shape(zones []string) (catalog.InstanceType, error) {
	it, err := catalog.New(t.Facts, catalog.NodeClass{AMIFamily: catalog.FamilyAL2023})
	if err != nil {
		return it, err
	}
	if t.attach > 0 {
		it.VolumeAttachments = t.attach
	}
	add := func(zone, capacityType string, price float64) {
		it.Offerings = append(it.Offerings, catalog.Offering{
			Zone: zone, ZoneID: "use1-az" + zone[len(zone)-1:], CapacityType: capacityType, Price: price,
			Available: !t.sold[zone+"/"+capacityType],
		})
	}
	if t.reserved > 0 {
		add(slices.Min(zones), "reserved", 1e-4)
		o := &it.Offerings[0]
		o.ReservationID, o.Remaining = "cr-"+t.Name, t.reserved
	}
	for _, z := range zones {
		if t.onDemand > 0 {
			add(z, "on-demand", t.onDemand)
		}
		if p, ok := t.spot[z]; ok {
			add(z, "spot", p)
		}
	}
	return it, nil
}

// nodeLabels are those of a node of the offering, but for labels that the pool leaves open.
func nodeLabels(pool catalog.NodePool, it catalog.InstanceType, o catalog.Offering) map[string]string {
	out := map[string]string{}
	maps.Copy(out, it.Labels)
	maps.Copy(out, pool.Labels)
	maps.Copy(out, map[string]string{
		corev1.LabelTopologyZone: o.Zone, corev1.LabelTopologyRegion: o.Zone[:len(o.Zone)-1],
		corev1.LabelFailureDomainBetaZone: o.Zone, corev1.LabelFailureDomainBetaRegion: o.Zone[:len(o.Zone)-1],
		"topology.ebs.csi.aws.com/zone": o.Zone, "topology.k8s.aws/zone-id": o.ZoneID,
		"karpenter.sh/capacity-type": o.CapacityType, "karpenter.sh/nodepool": pool.Name,
		"karpenter.k8s.aws/ec2nodeclass": pool.NodeClass,
		corev1.LabelInstanceType:         it.Name, "beta.kubernetes.io/arch": it.Labels[corev1.LabelArchStable],
		"beta.kubernetes.io/os": it.Labels[corev1.LabelOSStable],
	})
	for _, key := range catalog.ReservationLabelKeys() {
		if value, ok := o.ReservationLabel(key); ok {
			out[key] = value
		}
	}
	return out
}

// newNode is a Node as the launcher makes it, ready.
func newNode(name string, labels map[string]string, taints []corev1.Taint, it catalog.InstanceType) *corev1.Node {
	own := maps.Clone(labels)
	own[corev1.LabelHostname] = name
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: own},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Capacity: it.Capacity, Allocatable: it.Allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

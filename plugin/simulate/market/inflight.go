package market

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// inFlight adds a NodeClaim whose node is in flight, as the launcher would report it. A NodeClaim with unknown resources is left
// out.
func (b *builder) inFlight(claim *karpv1.NodeClaim, nodes map[string]*corev1.Node) {
	if !conditions.InFlight(claim) {
		return
	}
	out := catalog.InFlightNode{
		NodeClaim: claim.Name, NodeName: claim.Status.NodeName, NodePool: claim.Labels[karpv1.NodePoolLabelKey],
		Phase: catalog.PhaseRecorded, Labels: maps.Clone(claim.Labels), Taints: claim.Spec.Taints,
		Allocatable:  claim.Status.Allocatable,
		InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone],
		CapacityType: claim.Labels[karpv1.CapacityTypeLabelKey],
	}
	if parts := strings.Split(claim.Annotations[catalog.ExpectedAnnotation], "/"); len(parts) == 4 {
		out.InstanceType, out.Zone = cmp.Or(out.InstanceType, parts[0]), cmp.Or(out.Zone, parts[1])
		out.CapacityType = cmp.Or(out.CapacityType, parts[2])
	}
	if len(out.Allocatable) == 0 {
		out.Allocatable = catalog.WithRequested(b.lowest(claim, out.InstanceType), claim.Spec.Resources.Requests)
	}
	if node := nodes[out.NodeName]; node != nil {
		out.Phase, out.Labels = catalog.PhaseNodeCreated, node.Labels
		if node.Labels[karpv1.NodeRegisteredLabelKey] == "true" && claim.Annotations[catalog.StandbyAnnotation] == "" {
			out.Taints = catalog.LastingTaints(node, claim.Spec.StartupTaints)
		}
	}
	// A list that cannot be read promises nothing.
	pods, _ := catalog.ParsePods(claim.Annotations[catalog.PodsAnnotation])
	for _, ref := range pods {
		if pod := b.pods[ref.UID]; pod != nil {
			ref.Namespace, ref.Name = pod.Namespace, pod.Name
			out.Pods = append(out.Pods, ref)
		}
	}
	if state, _, _ := strings.Cut(claim.Annotations[catalog.StandbyStateAnnotation], "/"); state != "awake" {
		out.Standby = claim.Annotations[catalog.StandbyAnnotation]
	}
	if len(out.Allocatable) > 0 && !out.Sleeps() { // The pods that would wake it are not known here.
		b.state.InFlight[claim.Name] = out
	}
}

// capacity returns the capacity of the instance type that the claim is expected to get.
func (b *builder) capacity(claim *karpv1.NodeClaim) corev1.ResourceList {
	for _, t := range b.state.InstanceTypes[b.typesKey(claim)] {
		if t.Name == b.state.InFlight[claim.Name].InstanceType {
			return t.Capacity
		}
	}
	return nil
}

func classOf(claim *karpv1.NodeClaim) string {
	if claim.Spec.NodeClassRef == nil {
		return ""
	}
	return claim.Spec.NodeClassRef.Name
}

// lowest returns the smallest capacity among the claim's instance types, for each resource.
func (b *builder) lowest(claim *karpv1.NodeClaim, expected string) corev1.ResourceList {
	names := strings.Split(claim.Annotations[catalog.InstanceTypesAnnotation], ",")
	if claim.Annotations[catalog.InstanceTypesAnnotation] == "" {
		names = []string{expected}
	}
	var out corev1.ResourceList
	for _, t := range b.state.InstanceTypes[b.typesKey(claim)] {
		if !slices.Contains(names, t.Name) {
			continue
		}
		if out == nil {
			out = t.Allocatable.DeepCopy()
			continue
		}
		for name, q := range out {
			if other := t.Allocatable[name]; other.Cmp(q) < 0 {
				out[name] = other
			}
		}
	}
	return out
}

package server

import (
	"math"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

func instanceType(t catalog.InstanceType) *api.InstanceType {
	out := &api.InstanceType{
		Name: t.Name, Labels: t.Labels, Capacity: texts(t.Capacity), Allocatable: texts(t.Allocatable),
		Offerings: make([]*api.Offering, 0, len(t.Offerings)), VolumeAttachments: t.VolumeAttachments,
		Charges: &api.Charges{
			Volumes: t.Charges.Volumes, PublicIpv4: t.Charges.PublicIPv4, BaselineCpu: t.Charges.BaselineCPU, SurplusCpu: t.Charges.SurplusCPU,
		},
	}
	for _, o := range t.Offerings {
		out.Offerings = append(out.Offerings, &api.Offering{
			Zone: o.Zone, ZoneId: o.ZoneID, CapacityType: o.CapacityType, Price: o.Price, Available: o.Available,
			UnavailableUntil: millis(o.UnavailableUntil),
			RefusalCode:      string(o.Refusal.Code), RefusedSince: millis(o.Refusal.Since), RefusedAttempts: int32(min(o.Refusal.Attempts, math.MaxInt32)),
			ReservationId: o.ReservationID, ReservationType: o.ReservationType, Interruptible: o.Interruptible, Remaining: o.Remaining, Overlaid: o.Overlaid,
			LossPerPod: o.LossPerPod, SettlesAt: millis(o.SettlesAt), Lasts: o.Lasts.Milliseconds(),
		})
	}
	return out
}

func committed(list []commitment.Commitment) *api.Commitments {
	out := &api.Commitments{}
	for i := range list {
		c := &list[i]
		out.List = append(out.List, &api.Commitment{
			Id: c.ID, Kind: string(c.Kind), UsdPerHour: c.USDPerHour, Discount: c.Discount, Rates: c.Rates, Family: c.Family,
			InstanceType: c.InstanceType, Count: int32(min(c.Count, math.MaxInt32)), Zone: c.Zone, Share: c.Share,
		})
	}
	return out
}

// nodePool describes a pool; message is why it may not launch, empty if it may. partitions are those of its class's placement group, which the
// pods of a node choose as they choose other labels that a pool leaves open.
func nodePool(p *karpv1.NodePool, usage corev1.ResourceList, message string, partitions int64) *api.NodePool {
	spec := p.Spec.Template.Spec
	out := &api.NodePool{
		Name: p.Name, Labels: template.Decided(p), Taints: taints(spec.Taints), StartupTaints: taints(spec.StartupTaints),
		Limits: texts(corev1.ResourceList(p.Spec.Limits)), Usage: texts(usage), Ready: message == "", NotReadyMessage: message,
		Generation: p.Generation,
	}
	if spec.NodeClassRef != nil {
		out.NodeClass = spec.NodeClassRef.Name
	}
	if p.Spec.Weight != nil {
		out.Weight = *p.Spec.Weight
	}
	declared, _ := catalog.DeclaredCost(p.Annotations) // A condition of the NodePool reports the error.
	out.NodeCost, out.IdleCpu = declared.NodeCost, declared.IdleCPU
	out.OnDemandShare, _ = catalog.OnDemandShare(p.Annotations) // A condition as well.
	for _, r := range template.Needs(p) {
		out.Requirements = append(out.Requirements, &api.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values, MinValues: r.MinValues})
	}
	if names := catalog.PartitionNames(partitions); len(names) > 0 {
		out.Requirements = append(out.Requirements, &api.Requirement{Key: catalog.LabelPlacementGroupPartition, Operator: string(corev1.NodeSelectorOpIn), Values: names})
	}
	return out
}

func taints(list []corev1.Taint) []*api.Taint {
	out := make([]*api.Taint, 0, len(list))
	for _, t := range list {
		out = append(out, &api.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

func texts(list corev1.ResourceList) map[string]string {
	out := make(map[string]string, len(list))
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// notReady returns why a pool may not launch; "" if it may.
func notReady(p *karpv1.NodePool, o offered) string {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return "the NodePool is being deleted"
	case !conditions.PoolReady(p):
		for _, c := range p.Status.Conditions {
			if c.Type != status.ConditionReady && c.Status == "False" && c.Message != "" {
				return c.Message
			}
		}
		return "its condition Ready is not True yet"
	}
	if p.Spec.Replicas != nil {
		return "the NodePool keeps a fixed number of nodes (spec.replicas): nothing is launched for pods"
	}
	return o.problem
}

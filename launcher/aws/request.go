package aws

import (
	"maps"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// overridesOf maps each group to its overrides, cheapest first.
type overridesOf map[group][]ec2types.FleetLaunchTemplateOverridesRequest

// fill writes the CreateFleet call: one launch template per group, with the group's options as overrides. The group of the cheapest option
// comes first, because some EC2 stand-ins try only the first.
func (r *launchRequest) fill(in cloud.LaunchInput, order []group, groups overridesOf, spec templateSpec) error {
	tags := maps.Clone(spec.tags)
	tags[catalog.LaunchAnnotation] = in.LaunchID
	r.fleet = &ec2.CreateFleetInput{
		Type:        ec2types.FleetTypeInstant,
		ClientToken: awssdk.String(in.LaunchID),
		Context:     contextOf(in),
		TagSpecifications: []ec2types.TagSpecification{
			{ResourceType: ec2types.ResourceTypeFleet, Tags: ec2Tags(tags)},
			{ResourceType: ec2types.ResourceTypeInstance, Tags: ec2Tags(tags)},
			{ResourceType: ec2types.ResourceTypeVolume, Tags: ec2Tags(tags)},
		},
	}
	for _, g := range order {
		spec.imageID, spec.maxPods, spec.efas, spec.reservation, spec.hibernates = g.imageID, g.maxPods, g.efas, g.reservation, g.hibernates
		t, err := spec.template()
		if err != nil {
			return &cloud.NodeClassError{Class: in.Class.Name, Reason: "UserDataInvalid", Message: err.Error()}
		}
		r.templates = append(r.templates, t)
		r.fleet.LaunchTemplateConfigs = append(r.fleet.LaunchTemplateConfigs, ec2types.FleetLaunchTemplateConfigRequest{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: t.LaunchTemplateName, Version: awssdk.String("$Latest"),
			},
			Overrides: groups[g],
		})
	}
	// One call buys one capacity type, of one kind of reservation.
	target := capacityTypeOf(spec.capacityType).target(r.fleet, spec.reservation, in.Prioritized)
	r.fleet.TargetCapacitySpecification = &ec2types.TargetCapacitySpecificationRequest{
		DefaultTargetCapacityType: target, TotalTargetCapacity: awssdk.Int32(int32(r.count)),
	}
	return nil
}

// asksEnclaves reports whether the NodeClaims of the call, which are equal in this, request room for Nitro Enclaves, whose nodes have them enabled as with Karpenter.
func asksEnclaves(in cloud.LaunchInput) bool {
	_, asks := in.Claims[0].Spec.Resources.Requests[awsv1.ResourceNIPSlots]
	return asks
}

// contextOf returns the class's context for EC2. As with Karpenter, NodeClaims whose minValues were relaxed are launched without it.
func contextOf(in cloud.LaunchInput) *string {
	if in.Claims[0].Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] == "true" {
		return nil
	}
	return in.Class.Spec.Context
}

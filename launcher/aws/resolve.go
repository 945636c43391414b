package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/smithy-go"
	"github.com/awslabs/operatorpkg/status"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// Resolve implements cloud.Cloud. If AWS rejects a request, the condition of that part becomes False with AWS's reason. If AWS could not
// answer (throttled, unreachable), the other parts are resolved first and then the call fails.
func (c *Cloud) Resolve(ctx context.Context, class *awsv1.EC2NodeClass) (_ awsv1.EC2NodeClassStatus, err error) {
	defer c.metrics.measure("Resolve")(&err)
	out := class.DeepCopy()
	conditions := out.StatusConditions()
	for _, step := range []func(context.Context, *awsv1.EC2NodeClass, status.ConditionSet) error{
		c.resolveSubnets, c.resolveSecurityGroups, c.resolveImages, c.resolveReservations, c.resolveProfile,
		c.placements.resolve, c.resolveValidation,
	} {
		if stepErr := step(ctx, out, conditions); stepErr != nil && err == nil {
			err = fmt.Errorf("EC2NodeClass %s: %w", class.Name, stepErr)
		}
	}
	if err != nil {
		return awsv1.EC2NodeClassStatus{}, err
	}
	return out.Status, nil
}

// conditionOf sets a condition False if AWS's error is permanent, and returns the error if a retry may succeed.
func conditionOf(conditions status.ConditionSet, kind string, err error) error {
	if isTransient(err) && !isNotImplemented(err) {
		return err
	}
	reason := "AWSRefused"
	switch {
	case isNotImplemented(err):
		reason = "NotOffered"
	case code(err).IsDenied():
		reason = "Unauthorized"
	case isAbsent(err):
		reason = "NotFound"
	}
	conditions.SetFalse(kind, reason, refusalText(err))
	return nil
}

// refusalText returns AWS's refusal for people: what was wanted, and behind a full stop AWS's own words, without those of the SDK.
func refusalText(err error) string {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err.Error()
	}
	wanted, _, found := strings.Cut(err.Error(), ": operation error ")
	if !found {
		return withCode(code(err), api.ErrorMessage())
	}
	if code(err).IsDenied() && !isRoleDenied(err) {
		return judge(err).message
	}
	return wanted + ". AWS: " + withCode(code(err), ec2error.Clip(api.ErrorMessage()))
}

func (c *Cloud) resolveSubnets(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	found, err := c.selectSubnets(ctx, class.Spec.SubnetSelectorTerms)
	if err != nil {
		return conditionOf(conditions, awsv1.ConditionTypeSubnetsReady, err)
	}
	selected := len(found)
	// The error is reported by the validation.
	if known, err := c.describeCluster(ctx); err == nil && known.IPv6 {
		found = withIPv6(found)
	}
	class.Status.Subnets = nil
	for _, s := range found {
		class.Status.Subnets = append(class.Status.Subnets, awsv1.Subnet{ID: s.id, Zone: s.zone, ZoneID: s.zoneID})
	}
	switch {
	case len(found) == 0 && selected > 0:
		conditions.SetFalse(awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound",
			fmt.Sprintf("spec.subnetSelectorTerms selects %s without an IPv6 range: the cluster's IP family is IPv6", catalog.CountText(selected, "subnet")))
		return nil
	case len(found) == 0:
		conditions.SetFalse(awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound", "spec.subnetSelectorTerms selects no subnet")
		return nil
	}
	conditions.SetTrue(awsv1.ConditionTypeSubnetsReady)
	return nil
}

func (c *Cloud) resolveSecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	found, err := c.selectSecurityGroups(ctx, class.Spec.SecurityGroupSelectorTerms)
	if err != nil {
		return conditionOf(conditions, awsv1.ConditionTypeSecurityGroupsReady, err)
	}
	class.Status.SecurityGroups = found
	if len(found) == 0 {
		conditions.SetFalse(awsv1.ConditionTypeSecurityGroupsReady, "SecurityGroupsNotFound",
			"spec.securityGroupSelectorTerms selects no security group")
		return nil
	}
	conditions.SetTrue(awsv1.ConditionTypeSecurityGroupsReady)
	return nil
}

func (c *Cloud) resolveImages(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	found, err := c.selectImages(ctx, class)
	if err != nil {
		return conditionOf(conditions, awsv1.ConditionTypeAMIsReady, err)
	}
	class.Status.AMIs = found
	if len(found) == 0 {
		why, err := c.noImage(ctx, class)
		conditions.SetFalse(awsv1.ConditionTypeAMIsReady, "AMINotFound", why)
		return err
	}
	conditions.SetTrue(awsv1.ConditionTypeAMIsReady)
	return nil
}

// noImage returns the reason why no AMI is selected, and what to check.
func (c *Cloud) noImage(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	family, version, ok := fromec2.Alias(class)
	if !ok {
		for i, term := range class.Spec.AMISelectorTerms {
			if term.SSMParameter == "" {
				continue
			}
			if id, err := c.parameter(ctx, term.SSMParameter, true); err != nil || id == "" {
				return fmt.Sprintf("spec.amiSelectorTerms[%d]: SSM has no parameter %s", i, term.SSMParameter), err
			}
		}
		return "spec.amiSelectorTerms selects no available AMI of architecture x86_64 or arm64", nil
	}
	known, err := c.describeCluster(ctx)
	if err != nil {
		return "", err
	}
	parameters := aliasParameters(family, version, known.version)
	if len(parameters) == 0 {
		return fmt.Sprintf("spec.amiSelectorTerms: AMI family %s is not supported yet", family), nil
	}
	return fmt.Sprintf("spec.amiSelectorTerms: there is no AMI of %s@%s for Kubernetes %s. SSM has no parameter such as %s",
		strings.ToLower(family), version, known.version, parameters[0].name), nil
}

func (c *Cloud) resolveProfile(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	if class.Spec.Role == "" && class.Spec.InstanceProfile == nil {
		class.Status.InstanceProfile = ""
		conditions.SetFalse(awsv1.ConditionTypeInstanceProfileReady, "RoleMissing",
			"neither spec.role nor spec.instanceProfile is set: nodes could not join")
		return nil
	}
	name, err := c.ensureProfile(ctx, class)
	if err != nil {
		return conditionOf(conditions, awsv1.ConditionTypeInstanceProfileReady, err)
	}
	class.Status.InstanceProfile = name
	conditions.SetTrue(awsv1.ConditionTypeInstanceProfileReady)
	return nil
}

func (c *Cloud) resolveValidation(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	known, err := c.describeCluster(ctx)
	if err != nil {
		return conditionOf(conditions, awsv1.ConditionTypeValidationSucceeded, err)
	}
	if fault, ok := faultOf(class, known); ok {
		conditions.SetFalse(awsv1.ConditionTypeValidationSucceeded, fault.reason, fault.message)
		return nil
	}
	if note := noteOn(class); note != "" {
		conditions.SetTrueWithReason(awsv1.ConditionTypeValidationSucceeded, awsv1.ConditionTypeValidationSucceeded, note)
		return nil
	}
	conditions.SetTrue(awsv1.ConditionTypeValidationSucceeded)
	return nil
}

package model

import (
	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// probes returns the probes of the model's operations, by service and action.
func probes() map[string]map[string]probe {
	cfg := awssdk.Config{
		Region: "us-east-1", BaseEndpoint: awssdk.String("http://127.0.0.1"), HTTPClient: sink{},
		Credentials: credentials.NewStaticCredentialsProvider("MODEL", "secret", ""),
		Retryer:     func() awssdk.Retryer { return awssdk.NopRetryer{} },
	}
	return map[string]map[string]probe{
		wire.EC2: ec2Probes(ec2.NewFromConfig(cfg)),
		wire.IAM: iamProbes(iam.NewFromConfig(cfg)),
		wire.SQS: sqsProbes(sqs.NewFromConfig(cfg)),
		wire.SSM: ssmProbes(ssm.NewFromConfig(cfg)),
		wire.Pricing: {
			"GetProducts": of(pricing.NewFromConfig(cfg).GetProducts),
		},
		wire.SavingsPlans: {
			"DescribeSavingsPlans":     of(savingsplans.NewFromConfig(cfg).DescribeSavingsPlans),
			"DescribeSavingsPlanRates": of(savingsplans.NewFromConfig(cfg).DescribeSavingsPlanRates),
		},
		wire.STS: {
			"GetCallerIdentity": of(sts.NewFromConfig(cfg).GetCallerIdentity),
		},
	}
}

func ec2Probes(c *ec2.Client) map[string]probe {
	return map[string]probe{
		"CreateFleet":                    of(c.CreateFleet),
		"CreateLaunchTemplate":           of(c.CreateLaunchTemplate),
		"CreatePlacementGroup":           of(c.CreatePlacementGroup),
		"CreateTags":                     of(c.CreateTags),
		"DeleteLaunchTemplate":           of(c.DeleteLaunchTemplate),
		"DeletePlacementGroup":           of(c.DeletePlacementGroup),
		"DeleteTags":                     of(c.DeleteTags),
		"DescribeAvailabilityZones":      of(c.DescribeAvailabilityZones),
		"DescribeCapacityReservations":   of(c.DescribeCapacityReservations),
		"DescribeImages":                 of(c.DescribeImages),
		"DescribeInstanceAttribute":      of(c.DescribeInstanceAttribute),
		"DescribeInstanceStatus":         of(c.DescribeInstanceStatus),
		"DescribeInstanceTypeOfferings":  of(c.DescribeInstanceTypeOfferings),
		"DescribeInstanceTypes":          of(c.DescribeInstanceTypes),
		"DescribeInstances":              of(c.DescribeInstances),
		"DescribeLaunchTemplateVersions": of(c.DescribeLaunchTemplateVersions),
		"DescribeLaunchTemplates":        of(c.DescribeLaunchTemplates),
		"DescribePlacementGroups":        of(c.DescribePlacementGroups),
		"GetSpotPlacementScores":         of(c.GetSpotPlacementScores),
		"DescribeReservedInstances":      of(c.DescribeReservedInstances),
		"DescribeRegions":                of(c.DescribeRegions),
		"DescribeSecurityGroups":         of(c.DescribeSecurityGroups),
		"DescribeSpotPriceHistory":       of(c.DescribeSpotPriceHistory),
		"DescribeSubnets":                of(c.DescribeSubnets),
		"DescribeTags":                   of(c.DescribeTags),
		"DescribeVolumes":                of(c.DescribeVolumes),
		"DescribeVpcs":                   of(c.DescribeVpcs),
		"RunInstances":                   of(c.RunInstances),
		"StartInstances":                 of(c.StartInstances),
		"StopInstances":                  of(c.StopInstances),
		"TerminateInstances":             of(c.TerminateInstances),
	}
}

func iamProbes(c *iam.Client) map[string]probe {
	return map[string]probe{
		"AddRoleToInstanceProfile":      of(c.AddRoleToInstanceProfile),
		"CreateInstanceProfile":         of(c.CreateInstanceProfile),
		"CreateRole":                    of(c.CreateRole),
		"DeleteInstanceProfile":         of(c.DeleteInstanceProfile),
		"GetInstanceProfile":            of(c.GetInstanceProfile),
		"GetRole":                       of(c.GetRole),
		"ListInstanceProfiles":          of(c.ListInstanceProfiles),
		"RemoveRoleFromInstanceProfile": of(c.RemoveRoleFromInstanceProfile),
		"TagInstanceProfile":            of(c.TagInstanceProfile),
	}
}

func sqsProbes(c *sqs.Client) map[string]probe {
	return map[string]probe{
		"ChangeMessageVisibility": of(c.ChangeMessageVisibility),
		"CreateQueue":             of(c.CreateQueue),
		"DeleteMessage":           of(c.DeleteMessage),
		"DeleteMessageBatch":      of(c.DeleteMessageBatch),
		"DeleteQueue":             of(c.DeleteQueue),
		"GetQueueAttributes":      of(c.GetQueueAttributes),
		"GetQueueUrl":             of(c.GetQueueUrl),
		"ListQueues":              of(c.ListQueues),
		"PurgeQueue":              of(c.PurgeQueue),
		// The enumeration is that of GetQueueAttributes. ReceiveMessage takes the names of message attributes here, as before there was
		// MessageSystemAttributeNames.
		"ReceiveMessage": of(c.ReceiveMessage).accepts("AttributeNames", names(sqstypes.MessageSystemAttributeName("").Values())...),
	}
}

func ssmProbes(c *ssm.Client) map[string]probe {
	return map[string]probe{
		"GetParameter":        of(c.GetParameter),
		"GetParameters":       of(c.GetParameters),
		"GetParametersByPath": of(c.GetParametersByPath),
	}
}

// names returns the values of an enumeration as text.
func names[T ~string](values []T) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// tagFilters converts the tags of a selector term to filters; the value * matches any value.
func tagFilters(tags map[string]string) []ec2types.Filter {
	var out []ec2types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if tags[key] == "*" {
			out = append(out, filter("tag-key", key))
		} else {
			out = append(out, filter("tag:"+key, tags[key]))
		}
	}
	return out
}

func cacheKey(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		// Selector terms consist of strings and maps of strings: marshaling cannot fail.
		return fmt.Sprintf("%#v", v)
	}
	return string(text)
}

// selectSubnets returns the subnets that any of the terms selects, sorted by ID.
func (c *Cloud) selectSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]subnet, error) {
	return c.subnets.get(ctx, cacheKey(terms), func(ctx context.Context) ([]subnet, error) {
		found := map[string]subnet{}
		for i, term := range terms {
			filters := tagFilters(term.Tags)
			if term.ID != "" {
				filters = append(filters, filter("subnet-id", term.ID))
			}
			pages := ec2.NewDescribeSubnetsPaginator(c.ec2, &ec2.DescribeSubnetsInput{Filters: filters})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return nil, fmt.Errorf("describing subnets of spec.subnetSelectorTerms[%d]: %w", i, err)
				}
				for _, s := range page.Subnets {
					id := awssdk.ToString(s.SubnetId)
					found[id] = subnet{
						id: id, zone: awssdk.ToString(s.AvailabilityZone), zoneID: awssdk.ToString(s.AvailabilityZoneId),
						free: int64(awssdk.ToInt32(s.AvailableIpAddressCount)), public: awssdk.ToBool(s.MapPublicIpOnLaunch), ipv6: hasIPv6(s),
					}
				}
			}
		}
		c.taken.reset(slices.Collect(maps.Keys(found)))
		return sorted(found, func(a, b subnet) int { return strings.Compare(a.id, b.id) }), nil
	})
}

// publicAddress reports whether nodes of the class get a public IPv4 address: as the class says, or else as one of its subnets does, as far as
// EC2 has described them.
func publicAddress(class *awsv1.EC2NodeClass, subnets *cached[[]subnet]) bool {
	if class.Spec.AssociatePublicIPAddress != nil {
		return *class.Spec.AssociatePublicIPAddress
	}
	return slices.ContainsFunc(subnets.latest(cacheKey(class.Spec.SubnetSelectorTerms)), func(s subnet) bool { return s.public })
}

// selectSecurityGroups returns the security groups that any of the terms selects, sorted by ID.
func (c *Cloud) selectSecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]awsv1.SecurityGroup, error) {
	return c.groups.get(ctx, cacheKey(terms), func(ctx context.Context) ([]awsv1.SecurityGroup, error) {
		found := map[string]awsv1.SecurityGroup{}
		for i, term := range terms {
			filters := tagFilters(term.Tags)
			if term.ID != "" {
				filters = append(filters, filter("group-id", term.ID))
			}
			if term.Name != "" {
				filters = append(filters, filter("group-name", term.Name))
			}
			pages := ec2.NewDescribeSecurityGroupsPaginator(c.ec2, &ec2.DescribeSecurityGroupsInput{Filters: filters})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return nil, fmt.Errorf("describing security groups of spec.securityGroupSelectorTerms[%d]: %w", i, err)
				}
				for _, g := range page.SecurityGroups {
					id := awssdk.ToString(g.GroupId)
					found[id] = awsv1.SecurityGroup{ID: id, Name: awssdk.ToString(g.GroupName)}
				}
			}
		}
		return sorted(found, func(a, b awsv1.SecurityGroup) int { return strings.Compare(a.ID, b.ID) }), nil
	})
}

func sorted[V any](m map[string]V, compare func(a, b V) int) []V {
	return slices.SortedFunc(maps.Values(m), compare)
}

package cloudcontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

const zoneIDLabel = "topology.k8s.aws/zone-id"

// EC2 is the call of the SDK's client that the controllers need.
type EC2 interface {
	// DescribeInstances is ec2.Client's.
	DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, opts ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
}

// cloud is a cloudprovider.Interface that has instances and nothing else.
type cloud struct{ instances instances }

var (
	_ cloudprovider.Interface   = cloud{}
	_ cloudprovider.InstancesV2 = instances{}
)

// Initialize has nothing to do.
func (cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer is not supported.
func (cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances is replaced by InstancesV2.
func (cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 answers about EC2 instances.
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instances, true }

// Zones is replaced by InstancesV2.
func (cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not supported.
func (cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes is not supported.
func (cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName is what providerIDs begin with.
func (cloud) ProviderName() string { return "aws" }

// HasClusterID reports that instances carry a cluster's tag.
func (cloud) HasClusterID() bool { return true }

// instances answers as cloud-provider-aws does (pkg/providers/v1/instances_v2.go): an instance that EC2 does not know or
// calls terminated does not exist; any error, also of looking up a Node without providerID by its name, is an error, and
// then no Node is deleted.
type instances struct {
	ec2    EC2
	region string
	ipv6   bool
}

// InstanceExists reports whether the Node's instance exists.
func (i instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	found, err := i.find(ctx, node)
	if err != nil || found == nil {
		return false, err
	}
	return stateOf(found) != ec2types.InstanceStateNameTerminated, nil
}

// InstanceShutdown reports whether the Node's instance is stopped.
func (i instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	found, err := i.find(ctx, node)
	if err != nil {
		return false, err
	}
	return found != nil && stateOf(found) == ec2types.InstanceStateNameStopped, nil
}

// InstanceMetadata is what a Node learns about its instance when it is initialised.
func (i instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, err := i.find(ctx, node)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	placement := found.Placement
	if placement == nil {
		placement = &ec2types.Placement{}
	}
	zone := aws.ToString(placement.AvailabilityZone)
	out := &cloudprovider.InstanceMetadata{
		ProviderID:    "aws:///" + zone + "/" + aws.ToString(found.InstanceId),
		InstanceType:  string(found.InstanceType),
		Zone:          zone,
		Region:        i.region,
		NodeAddresses: i.addresses(found),
	}
	if id := aws.ToString(placement.AvailabilityZoneId); id != "" {
		out.AdditionalLabels = map[string]string{zoneIDLabel: id}
	}
	return out, nil
}

// addresses returns those of one IP family. There is no DNS name for IPv6 (pkg/providers/v1/aws.go, extractIPv6NodeAddresses): the controller
// keeps the Node's own hostname.
func (i instances) addresses(of *ec2types.Instance) []corev1.NodeAddress {
	if !i.ipv6 {
		return ipv4Addresses(of)
	}
	var out []corev1.NodeAddress
	for _, nic := range of.NetworkInterfaces {
		if nic.Status == ec2types.NetworkInterfaceStatusInUse && len(nic.Ipv6Addresses) > 0 {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: aws.ToString(nic.Ipv6Addresses[0].Ipv6Address)})
		}
	}
	return out
}

func ipv4Addresses(i *ec2types.Instance) []corev1.NodeAddress {
	all := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: aws.ToString(i.PrivateIpAddress)},
		{Type: corev1.NodeExternalIP, Address: aws.ToString(i.PublicIpAddress)},
		{Type: corev1.NodeInternalDNS, Address: aws.ToString(i.PrivateDnsName)},
		{Type: corev1.NodeHostName, Address: aws.ToString(i.PrivateDnsName)},
		{Type: corev1.NodeExternalDNS, Address: aws.ToString(i.PublicDnsName)},
	}
	return slices.DeleteFunc(all, func(a corev1.NodeAddress) bool { return a.Address == "" })
}

func stateOf(i *ec2types.Instance) ec2types.InstanceStateName {
	if i.State == nil {
		return ""
	}
	return i.State.Name
}

// find returns the Node's instance; nil without an error if the Node names one by its providerID that EC2 does not know.
func (i instances) find(ctx context.Context, node *corev1.Node) (*ec2types.Instance, error) {
	if node.Spec.ProviderID == "" {
		return i.findByName(ctx, node.Name)
	}
	id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	if !strings.HasPrefix(node.Spec.ProviderID, "aws://") || !strings.HasPrefix(id, "i-") {
		return nil, fmt.Errorf("node %s: providerID %q is not AWS's", node.Name, node.Spec.ProviderID)
	}
	found, err := i.describe(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorCode() == "InvalidInstanceID.NotFound" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: instance %s: %w", node.Name, id, err)
	}
	return found, nil
}

func (i instances) findByName(ctx context.Context, name string) (*ec2types.Instance, error) {
	found, err := i.describe(ctx, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("private-dns-name"), Values: []string{name}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "shutting-down", "stopping", "stopped"}},
	}})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if found == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	return found, nil
}

// describe returns the one instance that the request finds, nil if it finds none.
func (i instances) describe(ctx context.Context, in *ec2.DescribeInstancesInput) (*ec2types.Instance, error) {
	out, err := i.ec2.DescribeInstances(ctx, in)
	if err != nil {
		return nil, err
	}
	var found []ec2types.Instance
	for _, r := range out.Reservations {
		found = append(found, r.Instances...)
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	default:
		return nil, fmt.Errorf("%d instances match", len(found))
	}
}

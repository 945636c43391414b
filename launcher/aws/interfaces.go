package aws

import (
	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

type networkInterface = ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest

// setNetwork puts the security groups where EC2 expects them: into the network interfaces if there are any, otherwise into the template
// itself. The interfaces are those of the class, or one EFA per network card if a pod requests EFA, or one.
func (s templateSpec) setNetwork(data *ec2types.RequestLaunchTemplateData) {
	groups := make([]string, 0, len(s.class.Status.SecurityGroups))
	for _, g := range s.class.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	spec := s.class.Spec
	switch {
	case len(spec.NetworkInterfaces) > 0:
		for _, in := range spec.NetworkInterfaces {
			data.NetworkInterfaces = append(data.NetworkInterfaces, s.classInterface(in, groups))
		}
	case s.efas > 0:
		for card := range int32(s.efas) {
			// The first device of the first card is the primary interface; EC2 rejects a second device 0.
			nic := s.addressed(groups)
			nic.NetworkCardIndex, nic.DeviceIndex = awssdk.Int32(card), awssdk.Int32(min(card, 1))
			nic.InterfaceType = awssdk.String(string(ec2types.NetworkInterfaceTypeEfa))
			data.NetworkInterfaces = append(data.NetworkInterfaces, nic)
		}
	case !s.cluster.IPv6 && spec.AssociatePublicIPAddress == nil && spec.IPPrefixCount == nil && connectionTracking(spec.ConnectionTracking) == nil:
		data.SecurityGroupIds = groups
	default:
		nic := s.addressed(groups)
		nic.DeviceIndex = awssdk.Int32(0)
		data.NetworkInterfaces = []networkInterface{nic}
	}
}

// classInterface converts one entry of spec.networkInterfaces. An EFA-only interface has no address, and EC2 rejects address settings on it.
func (s templateSpec) classInterface(in *awsv1.NetworkInterface, groups []string) networkInterface {
	nic := networkInterface{Groups: groups}
	if in.InterfaceType != awsv1.InterfaceTypeEFAOnly {
		nic = s.addressed(groups)
	}
	nic.NetworkCardIndex, nic.DeviceIndex = awssdk.Int32(in.NetworkCardIndex), awssdk.Int32(in.DeviceIndex)
	nic.InterfaceType = awssdk.String(string(in.InterfaceType))
	return nic
}

// addressed returns an interface with addresses: in an IPv6 cluster one IPv6 address, which is the primary one and so does not change, and prefixes
// of the cluster's IP family.
func (s templateSpec) addressed(groups []string) networkInterface {
	spec := s.class.Spec
	nic := networkInterface{
		Groups: groups, AssociatePublicIpAddress: spec.AssociatePublicIPAddress,
		ConnectionTrackingSpecification: connectionTracking(spec.ConnectionTracking),
	}
	if s.cluster.IPv6 {
		nic.PrimaryIpv6, nic.Ipv6AddressCount, nic.Ipv6PrefixCount = awssdk.Bool(true), awssdk.Int32(1), spec.IPPrefixCount
	} else {
		nic.Ipv4PrefixCount = spec.IPPrefixCount
	}
	return nic
}

func connectionTracking(in *awsv1.ConnectionTracking) *ec2types.ConnectionTrackingSpecificationRequest {
	if in == nil || in.TCPEstablishedTimeout == nil && in.UDPStreamTimeout == nil && in.UDPTimeout == nil {
		return nil
	}
	return &ec2types.ConnectionTrackingSpecificationRequest{
		TcpEstablishedTimeout: in.TCPEstablishedTimeout, UdpStreamTimeout: in.UDPStreamTimeout, UdpTimeout: in.UDPTimeout,
	}
}

func cpuOptions(in *awsv1.CPUOptions) *ec2types.LaunchTemplateCpuOptionsRequest {
	if in == nil || in.NestedVirtualization == nil {
		return nil
	}
	return &ec2types.LaunchTemplateCpuOptionsRequest{
		NestedVirtualization: ec2types.NestedVirtualizationSpecification(*in.NestedVirtualization),
	}
}

package aws

import (
	"net/netip"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// isIPv6 reports whether the text is an IPv6 range.
func isIPv6(cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Addr().Is6()
}

func familyName(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}

// usualDNS returns the tenth address of the Services' range, where EKS puts the cluster's DNS; empty if the text is no range.
func usualDNS(cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return ""
	}
	ip := prefix.Masked().Addr()
	for range 10 {
		ip = ip.Next()
	}
	return ip.String()
}

// hasIPv6 reports whether EC2 can give IPv6 addresses in the subnet.
func hasIPv6(in ec2types.Subnet) bool {
	return slices.ContainsFunc(in.Ipv6CidrBlockAssociationSet, func(a ec2types.SubnetIpv6CidrBlockAssociation) bool {
		return a.Ipv6CidrBlockState != nil && a.Ipv6CidrBlockState.State == ec2types.SubnetCidrBlockStateCodeAssociated
	})
}

// nodeIP returns the address that the kubelet reports: the instance's primary IPv6 address, which only instances of IPv6 clusters have, or else
// its private IPv4 address.
func nodeIP(in ec2types.Instance) string {
	for _, nic := range in.NetworkInterfaces {
		if nic.Attachment == nil || awssdk.ToInt32(nic.Attachment.DeviceIndex) != 0 || awssdk.ToInt32(nic.Attachment.NetworkCardIndex) != 0 {
			continue
		}
		for _, a := range nic.Ipv6Addresses {
			if awssdk.ToBool(a.IsPrimaryIpv6) {
				return awssdk.ToString(a.Ipv6Address)
			}
		}
	}
	return awssdk.ToString(in.PrivateIpAddress)
}

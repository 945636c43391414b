package aws_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

type nicSpec = ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest

// launchWith launches one instance with the network interfaces, and returns the code of EC2's refusal; empty for none.
func launchWith(t *testing.T, server *aws.Server, kind string, nics ...nicSpec) (*ec2.CreateFleetOutput, string) {
	t.Helper()
	in := fleetInput(t, server, 1, kind)
	return launchTemplateWith(t, server, in, func(data *ec2types.RequestLaunchTemplateData) {
		data.NetworkInterfaces, data.SecurityGroupIds = nics, nil
	})
}

// launchTemplateWith makes the call with a launch template that set adapts.
func launchTemplateWith(
	t *testing.T, server *aws.Server, in *ec2.CreateFleetInput, set func(*ec2types.RequestLaunchTemplateData),
) (*ec2.CreateFleetOutput, string) {
	t.Helper()
	client := ec2Client(server)
	name := "slipway.dev/" + strings.ReplaceAll(strings.ReplaceAll(t.Name(), "/", "-"), "#", "-")
	template := templateInput(t, client, name)
	set(template.LaunchTemplateData)
	if _, err := client.CreateLaunchTemplate(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = client.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
	})
	for i := range in.LaunchTemplateConfigs {
		in.LaunchTemplateConfigs[i].LaunchTemplateSpecification.LaunchTemplateName = &name
	}
	out := createFleet(t, server, in)
	// A zone in which the type is not offered refuses for that reason.
	out.Errors = slices.DeleteFunc(out.Errors, func(e ec2types.CreateFleetError) bool {
		return awssdk.ToString(e.ErrorCode) == "InvalidFleetConfiguration"
	})
	if len(out.Errors) > 0 {
		return out, awssdk.ToString(out.Errors[0].ErrorCode)
	}
	if len(launched(out)) == 0 {
		t.Fatal("nothing was launched, and no error says why")
	}
	return out, ""
}

// describedOne returns the instance as EC2 describes it, which a new one is not at once.
func describedOne(t *testing.T, server *aws.Server, id string) ec2types.Instance {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		out, err := ec2Client(server).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err == nil && len(out.Reservations) == 1 {
			return out.Reservations[0].Instances[0]
		}
	}
	t.Fatalf("instance %s is not described", id)
	return ec2types.Instance{}
}

// The interfaces of a launch template are those of the instance; EC2 refuses what the instance type cannot have.
func TestNetworkInterfaces(t *testing.T) {
	server := start(t, nil)
	nic := func(kind string, card, device int32, set ...func(*nicSpec)) nicSpec {
		n := nicSpec{InterfaceType: &kind, NetworkCardIndex: &card, DeviceIndex: &device}
		for _, s := range set {
			s(&n)
		}
		return n
	}
	prefixes := func(count int32) func(*nicSpec) { return func(n *nicSpec) { n.Ipv4PrefixCount = &count } }
	ipv6 := func(addresses, prefixes int32) func(*nicSpec) {
		return func(n *nicSpec) {
			n.Ipv6AddressCount, n.Ipv6PrefixCount, n.PrimaryIpv6 = &addresses, &prefixes, awssdk.Bool(true)
		}
	}
	public := func(n *nicSpec) { n.AssociatePublicIpAddress = awssdk.Bool(true) }
	for name, tc := range map[string]struct {
		kind string
		nics []nicSpec
		want string
	}{
		"EFA on each card":           {"p4d.24xlarge", []nicSpec{nic("efa", 0, 0), nic("efa", 1, 1), nic("efa", 2, 1), nic("efa", 3, 1)}, "efa 0/0 ip, efa 1/1 ip, efa 2/1 ip, efa 3/1 ip"},
		"EFA only beside":            {"p4d.24xlarge", []nicSpec{nic("interface", 0, 0), nic("efa-only", 0, 1)}, "interface 0/0 ip, efa-only 0/1"},
		"prefixes":                   {"m5.large", []nicSpec{nic("interface", 0, 0, prefixes(2), public)}, "interface 0/0 ip 2 prefixes"},
		"EFA where there is none":    {"m5.large", []nicSpec{nic("efa", 0, 0)}, "InvalidParameterCombination"},
		"two EFAs of one card":       {"p4d.24xlarge", []nicSpec{nic("efa", 0, 0), nic("efa-only", 0, 1)}, "InvalidParameterCombination"},
		"the same device twice":      {"p4d.24xlarge", []nicSpec{nic("efa", 0, 0), nic("interface", 0, 0)}, "InvalidParameterValue"},
		"no primary interface":       {"p4d.24xlarge", []nicSpec{nic("efa", 1, 1)}, "InvalidParameterCombination"},
		"EFA only as primary":        {"p4d.24xlarge", []nicSpec{nic("efa-only", 0, 0)}, "InvalidParameterCombination"},
		"addresses of EFA only":      {"p4d.24xlarge", []nicSpec{nic("interface", 0, 0), nic("efa-only", 1, 1, prefixes(1))}, "InvalidParameterValue"},
		"public address beside":      {"p4d.24xlarge", []nicSpec{nic("efa", 0, 0, public), nic("efa", 1, 1, public)}, "InvalidParameterCombination"},
		"a card that there is not":   {"m5.large", []nicSpec{nic("interface", 0, 0), nic("interface", 1, 1)}, "AttachmentLimitExceeded"},
		"more devices than the card": {"m5.large", []nicSpec{nic("interface", 0, 0), nic("interface", 0, 3)}, "AttachmentLimitExceeded"},
		"more prefixes than fit":     {"m5.large", []nicSpec{nic("interface", 0, 0, prefixes(10))}, "InvalidParameterValue"},
		"IPv6 in a subnet without":   {"m5.large", []nicSpec{nic("interface", 0, 0, ipv6(1, 0))}, "InvalidParameterValue"},
		"another kind":               {"m5.large", []nicSpec{nic("trunk", 0, 0)}, "InvalidParameterValue"},
	} {
		t.Run(name, func(t *testing.T) {
			out, refused := launchWith(t, server, tc.kind, tc.nics...)
			if refused != "" {
				if refused != tc.want {
					t.Errorf("refused with %s, want %s: %s", refused, tc.want, awssdk.ToString(out.Errors[0].ErrorMessage))
				}
				return
			}
			if got := interfacesOf(t, server, launched(out)[0]); got != tc.want {
				t.Errorf("network interfaces %s, want %s", got, tc.want)
			}
		})
	}
}

// An instance whose interface asks for a public address has one, with a name.
func TestPublicAddress(t *testing.T) {
	server := start(t, nil)
	for _, public := range []bool{false, true} {
		t.Run(strconv.FormatBool(public), func(t *testing.T) {
			out, refused := launchWith(t, server, "m5.large", nicSpec{DeviceIndex: awssdk.Int32(0), AssociatePublicIpAddress: &public})
			if refused != "" {
				t.Fatal(refused)
			}
			i := describedOne(t, server, launched(out)[0])
			ip, name := awssdk.ToString(i.PublicIpAddress), awssdk.ToString(i.PublicDnsName)
			if (ip != "") != public || (name != "") != public {
				t.Errorf("address %q with the name %q", ip, name)
			}
			if want := "ec2-" + strings.ReplaceAll(ip, ".", "-") + ".compute-1.amazonaws.com"; public && name != want {
				t.Errorf("the name of %s is %s, want %s", ip, name, want)
			}
		})
	}
}

// In a subnet with an IPv6 range, each interface has an IPv6 address. The launch template says which one is primary, and how many there are.
func TestIPv6Interfaces(t *testing.T) {
	server := start(t, func(cfg *aws.Config) { cfg.IPv6 = true })
	nic := func(kind string, card, device, addresses, prefixes int32) nicSpec {
		n := nicSpec{InterfaceType: &kind, NetworkCardIndex: &card, DeviceIndex: &device}
		if addresses > 0 {
			n.PrimaryIpv6, n.Ipv6AddressCount, n.Ipv6PrefixCount = awssdk.Bool(true), &addresses, &prefixes
		}
		return n
	}
	for name, tc := range map[string]struct {
		kind string
		nics []nicSpec
		want string
	}{
		"primary":          {"m5.large", []nicSpec{nic("interface", 0, 0, 1, 0)}, "interface 0/0 ip 1 IPv6 primary"},
		"prefixes":         {"m5.large", []nicSpec{nic("interface", 0, 0, 1, 2)}, "interface 0/0 ip 1 IPv6 primary 2 IPv6 prefixes"},
		"of the subnet":    {"m5.large", []nicSpec{nic("interface", 0, 0, 0, 0)}, "interface 0/0 ip 1 IPv6"},
		"beside EFA only":  {"p4d.24xlarge", []nicSpec{nic("interface", 0, 0, 1, 0), nic("efa-only", 0, 1, 0, 0)}, "interface 0/0 ip 1 IPv6 primary, efa-only 0/1"},
		"of EFA only":      {"p4d.24xlarge", []nicSpec{nic("interface", 0, 0, 1, 0), nic("efa-only", 0, 1, 1, 0)}, "InvalidParameterValue"},
		"more than fit":    {"m5.large", []nicSpec{nic("interface", 0, 0, 11, 0)}, "InvalidParameterValue"},
		"more with blocks": {"m5.large", []nicSpec{nic("interface", 0, 0, 1, 10)}, "InvalidParameterValue"},
	} {
		t.Run(name, func(t *testing.T) {
			out, refused := launchWith(t, server, tc.kind, tc.nics...)
			if refused == "" {
				refused = interfacesOf(t, server, launched(out)[0])
			}
			if refused != tc.want {
				t.Errorf("%s, want %s", refused, tc.want)
			}
		})
	}
	subnets, err := ec2Client(server).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subnets.Subnets {
		if len(s.Ipv6CidrBlockAssociationSet) != 1 || !awssdk.ToBool(s.AssignIpv6AddressOnCreation) {
			t.Errorf("subnet %s: IPv6 ranges %v", *s.SubnetId, s.Ipv6CidrBlockAssociationSet)
		}
	}
}

// interfacesOf lists an instance's network interfaces as DescribeInstances does.
func interfacesOf(t *testing.T, server *aws.Server, id string) string {
	t.Helper()
	var out []string
	for _, n := range describedOne(t, server, id).NetworkInterfaces {
		text := fmt.Sprintf("%s %d/%d", awssdk.ToString(n.InterfaceType), *n.Attachment.NetworkCardIndex, *n.Attachment.DeviceIndex)
		if n.PrivateIpAddress != nil {
			text += " ip"
		}
		if len(n.Ipv4Prefixes) > 0 {
			text += fmt.Sprintf(" %d prefixes", len(n.Ipv4Prefixes))
		}
		if len(n.Ipv6Addresses) > 0 {
			text += fmt.Sprintf(" %d IPv6", len(n.Ipv6Addresses))
			if awssdk.ToBool(n.Ipv6Addresses[0].IsPrimaryIpv6) {
				text += " primary"
			}
		}
		if len(n.Ipv6Prefixes) > 0 {
			text += fmt.Sprintf(" %d IPv6 prefixes", len(n.Ipv6Prefixes))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

package aws_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	awsfake "github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func ipv6(cfg *awsfake.Config) { cfg.IPv6, cfg.WithoutIPv6 = true, []string{"us-east-1b"} }

// In an IPv6 cluster, nodes of each Linux family are launched in subnets with an IPv6 range, get the cluster's facts in their user data, and
// have an IPv6 address.
func TestIPv6OnTheWire(t *testing.T) {
	server := startAWS(t, ipv6)
	c := newCloud(t, server)
	for family, want := range map[string]string{
		"al2023":       "cidr: fd30:1c53:5f8a::/108",
		"bottlerocket": "cluster-dns-ip = 'fd30:1c53:5f8a::a'",
	} {
		t.Run(family, func(t *testing.T) {
			of := class()
			of.Spec.IPPrefixCount, of.Spec.AMISelectorTerms = new(int32(1)), []awsv1.AMISelectorTerm{{Alias: family + "@latest"}}
			status, err := c.Resolve(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			of.Status = status
			if !slices.Equal(zonesOf(status), []string{"us-east-1a", "us-east-1c"}) {
				t.Errorf("subnets in %v, want those of a and c: b's has no IPv6 range", zonesOf(status))
			}
			types, err := c.InstanceTypes(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			// The CNI assigns prefixes, but the kubelet's limit stays that of the addresses, as Karpenter counts.
			if m5 := slices.IndexFunc(types, func(it catalog.InstanceType) bool { return it.Name == "m5.large" }); types[m5].Capacity.Pods().Value() != 29 {
				t.Errorf("m5.large has room for %s pods, want 29", types[m5].Capacity.Pods())
			}
			o := types[0].Offerings[0]
			out, err := c.Launch(t.Context(), cloud.LaunchInput{
				LaunchID: "launch-" + family, Class: of, Claims: []*karpv1.NodeClaim{{}},
				Options: []cloud.Option{{InstanceType: types[0].Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}},
			})
			if err != nil || len(out.InstanceIDs) != 1 {
				t.Fatalf("%+v, %v", out, err)
			}
			got := described(t, c, "launch-"+family)
			if ip, err := netip.ParseAddr(got.PrivateIP); err != nil || !ip.Is6() || !strings.HasPrefix(got.PrivateDNSName, "ip-192-168-") {
				t.Errorf("node %s has the address %q, want an IPv6 address", got.PrivateDNSName, got.PrivateIP)
			}
			i := slices.IndexFunc(server.Instances(), func(i awsfake.Instance) bool { return i.ID == got.ID })
			if text := server.Instances()[i].UserData; !strings.Contains(text, want) {
				t.Errorf("user data without %s:\n%s", want, text)
			}
		})
	}
}

func zonesOf(status awsv1.EC2NodeClassStatus) []string {
	var out []string
	for _, s := range status.Subnets {
		out = append(out, s.Zone)
	}
	slices.Sort(out)
	return out
}

// described returns the instance of a launch, which EC2 does not describe at once.
func described(t *testing.T, c *aws.Cloud, launch string) cloud.Instance {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, err := c.Instances(t.Context(), cloud.Selector{LaunchIDs: []string{launch}})
		if err == nil && len(got) == 1 {
			return got[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, %v", launch, got, err)
		}
	}
}

// What cannot work in an IPv6 cluster is reported at the class: Windows, and subnets without an IPv6 range.
func TestClassesThatIPv6Refuses(t *testing.T) {
	server := startAWS(t, ipv6)
	c := newCloud(t, server)
	windows := class()
	windows.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
	subnet := class()
	for _, s := range server.Resources().Subnets {
		if s.IPv6CIDR == "" {
			subnet.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: s.ID}}
		}
	}
	for condition, tc := range map[string]struct {
		class         *awsv1.EC2NodeClass
		reason, about string
	}{
		awsv1.ConditionTypeValidationSucceeded: {windows, "NotSupported", "AMI family Windows2022"},
		awsv1.ConditionTypeSubnetsReady:        {subnet, "SubnetsNotFound", "IPv6 range"},
	} {
		status, err := c.Resolve(t.Context(), tc.class)
		if err != nil {
			t.Fatal(err)
		}
		tc.class.Status = status
		got := tc.class.StatusConditions().Get(condition)
		if !got.IsFalse() || got.Reason != tc.reason || !strings.Contains(got.Message, tc.about) {
			t.Errorf("%s is %+v, want False, %s, about %s", condition, got, tc.reason, tc.about)
		}
	}
}

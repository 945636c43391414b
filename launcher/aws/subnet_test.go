package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// newZone is a zone with two subnets, which have 400 and 380 free addresses. EC2 launches all that a call asks for.
func newZone(t *testing.T, change ...func(*Config)) (*wire, *Cloud) {
	t.Helper()
	w, c := newWire(t, change...)
	w.on("DescribeSubnets", ok(`<DescribeSubnetsResponse><subnetSet>`+subnetXML("subnet-1", zoneA, 400)+subnetXML("subnet-2", zoneA, 380)+
		`</subnetSet></DescribeSubnetsResponse>`))
	w.handle("CreateFleet", func(v url.Values) answer {
		ids := ""
		n, _ := strconv.Atoi(v.Get("TargetCapacitySpecification.TotalTargetCapacity"))
		for i := range n {
			ids += fmt.Sprintf("<item>i-%s-%d</item>", v.Get("ClientToken"), i)
		}
		return ok("<CreateFleetResponse><fleetInstanceSet><item><launchTemplateAndOverrides><overrides><instanceType>m7g.large</instanceType><subnetId>" +
			v.Get("LaunchTemplateConfigs.1.Overrides.1.SubnetId") + "</subnetId></overrides></launchTemplateAndOverrides><instanceIds>" + ids +
			"</instanceIds></item></fleetInstanceSet></CreateFleetResponse>")
	})
	return w, c
}

// A node takes addresses for its pods soon after its launch: the next launch goes where there are more. A launch is not
// divided for the pods that may come, but for the nodes alone. In an IPv6 cluster a node takes one IPv4 address.
func TestSubnetsByFreeAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		cidr     string
		launches []int
		want     []string
	}{
		"two launches":              {"10.100.0.0/16", []int{10, 10}, []string{"10 in subnet-1", "10 in subnet-2"}},
		"more pods than both hold":  {"10.100.0.0/16", []int{40, 27, 14}, []string{"40 in subnet-1", "27 in subnet-2", "14 in subnet-2"}},
		"more nodes than one holds": {"10.100.0.0/16", []int{410, 10}, []string{"400 in subnet-1", "10 in subnet-2"}},
		"IPv6":                      {"fd00::/108", []int{10, 100, 5}, []string{"10 in subnet-1", "100 in subnet-1", "5 in subnet-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newZone(t, func(cfg *Config) { cfg.ServiceCIDR = tc.cidr })
			var got []string
			for i, n := range tc.launches {
				out, err := c.Launch(t.Context(), launchInput(fmt.Sprintf("launch-%d", i), n, option("m7g.large", zoneA, "on-demand")))
				if err != nil || len(out.Failures) > 0 {
					t.Fatalf("%+v, %v", out.Failures, err)
				}
				got = append(got, fmt.Sprintf("%d in %s", len(out.InstanceIDs), w.made("CreateFleet")[i].Get("LaunchTemplateConfigs.1.Overrides.1.SubnetId")))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("launched %v, want %v", got, tc.want)
			}
			if len(c.taken.expected) != 0 {
				t.Errorf("calls that ended are still charged: %v", c.taken.expected)
			}
		})
	}
}

// The nodes of a call are charged before its answer, and no longer once it has failed or is repeated.
func TestCallsAreChargedWhileTheyLast(t *testing.T) {
	w, c := newZone(t)
	options := launchInput("", 1, option("m7g.large", zoneA, "on-demand"), option("m7g.xlarge", zoneA, "on-demand")).Options
	options[1].MaxPods = 58
	if n := addressesOf(options, false); n != 29 {
		t.Errorf("%d addresses for each node, want those of the smallest type", n)
	}
	usable := []subnet{{id: "subnet-1", zone: zoneA, free: 400}, {id: "subnet-2", zone: zoneA, free: 380}, {id: "subnet-3", zone: zoneB, free: 9}}
	first := c.taken.pick(usable, options, 10, 29)
	if second := c.taken.pick(usable, options, 10, 29); first.subnets[zoneA].id != "subnet-1" || second.subnets[zoneA].id != "subnet-2" || len(second.subnets) != 1 {
		t.Errorf("two calls at once: %v and %v", first.subnets, second.subnets)
	} else {
		c.taken.release(second)
	}
	c.taken.release(first)
	launches := w.answers["CreateFleet"]
	w.on("CreateFleet", refuse(http.StatusServiceUnavailable, "ServiceUnavailable", "later"))
	in := launchInput("launch-1", 10, option("m7g.large", zoneA, "on-demand"))
	if _, err := c.Launch(t.Context(), in); err == nil || len(c.taken.expected) != 0 {
		t.Errorf("a call that failed is charged: %v, %v", c.taken.expected, err)
	}
	w.handle("CreateFleet", launches)
	templates := w.answers["CreateLaunchTemplate"]
	w.on("CreateLaunchTemplate", refuse(http.StatusBadRequest, "MalformedParameter", "no"))
	if _, err := c.Launch(t.Context(), launchInput("launch-2", 10, option("m7g.xlarge", zoneA, "spot"))); err == nil || len(c.taken.expected) != 0 {
		t.Errorf("a launch without its launch template is charged: %v, %v", c.taken.expected, err)
	}
	w.handle("CreateLaunchTemplate", templates)
	if _, err := c.Launch(t.Context(), in); err != nil || len(c.taken.expected) != 0 || c.taken.launched["subnet-1"] != 290 {
		t.Errorf("the repeated call: %v, %v, %v", c.taken.expected, c.taken.launched, err)
	}
}

// A subnet without a free block of addresses is full for classes with prefixes alone. The others need single addresses.
func TestSubnetWithoutBlocks(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet(nil, fleetError("InsufficientCidrBlocks", "no", "subnet-3")), fleet([]string{"i-1"}))
	prefixed, other := nodeClass(), nodeClass()
	prefixed.Spec.IPPrefixCount = awssdk.Int32(1)
	other.Name = "other"
	of := func(id string, class *awsv1.EC2NodeClass) cloud.LaunchInput {
		in := launchInput(id, 1, option("m7g.large", zoneB, "spot"))
		in.Class = class
		return in
	}
	out, err := c.Launch(t.Context(), of("launch-1", prefixed))
	if err != nil || len(out.Failures) != 1 || out.Failures[0].Reason != ec2error.InsufficientCidrBlocks {
		t.Fatalf("%+v, %v", out, err)
	}
	if offers(t, c, prefixed, "m7g.large", zoneB) || !offers(t, c, prefixed, "m7g.large", zoneA) {
		t.Error("want the zone of the subnet to be unavailable to the class with prefixes, and no other zone")
	}
	if !offers(t, c, other, "m7g.large", zoneB) {
		t.Error("a class without prefixes loses the zone")
	}
	if out, err := c.Launch(t.Context(), of("launch-2", prefixed)); err != nil || len(out.Failures) != 1 || len(w.made("CreateFleet")) != 1 {
		t.Errorf("the class with prefixes tries the subnet again: %+v, %v", out, err)
	}
	if out, err := c.Launch(t.Context(), of("launch-3", other)); err != nil || len(out.InstanceIDs) != 1 {
		t.Errorf("the class without prefixes: %+v, %v", out, err)
	}
	later := time.Now().Add(time.Hour)
	if c.without.expire(later); c.without.exhausted(prefixed, "subnet-3", later).holds(later) {
		t.Error("the mark does not end")
	}
}

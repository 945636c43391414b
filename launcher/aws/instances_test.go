package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func idsOf(v url.Values) []string {
	var out []string
	for i := 1; v.Get(fmt.Sprintf("InstanceId.%d", i)) != ""; i++ {
		out = append(out, v.Get(fmt.Sprintf("InstanceId.%d", i)))
	}
	return out
}

// One protected instance and one unknown one among many: all others end, the protected one is the error.
func TestTerminateSplitsARefusedCall(t *testing.T) {
	w, c := newWire(t)
	ended := map[string]bool{}
	w.handle("TerminateInstances", func(v url.Values) answer {
		ids := idsOf(v)
		switch {
		case slices.Contains(ids, "i-unknown"):
			return refuse(http.StatusBadRequest, "InvalidInstanceID.NotFound", "The instance ID 'i-unknown' does not exist")
		case slices.Contains(ids, "i-protected"):
			return refuse(http.StatusBadRequest, "OperationNotPermitted", "may not be terminated")
		}
		for _, id := range ids {
			ended[id] = true
		}
		return ok("<TerminateInstancesResponse/>")
	})
	ids := []string{"i-unknown", "i-protected"}
	for i := range 30 {
		ids = append(ids, fmt.Sprintf("i-%d", i))
	}
	err := c.Terminate(t.Context(), ids)
	if err == nil || !strings.Contains(err.Error(), "i-protected") || strings.Contains(err.Error(), "i-unknown") {
		t.Errorf("error: %v, want it about the protected instance alone", err)
	}
	if len(ended) != 30 {
		t.Errorf("ended %d, want 30", len(ended))
	}
}

// Throttling is no reason to ask more often.
func TestTerminateDoesNotSplitWhenThrottled(t *testing.T) {
	w, c := newWire(t)
	w.on("TerminateInstances", refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "slow down"))
	if err := c.Terminate(t.Context(), []string{"i-1", "i-2"}); err == nil {
		t.Error("no error")
	}
	if n := len(w.made("TerminateInstances")); n != reportedAfter {
		t.Errorf("%d calls, want %d attempts", n, reportedAfter)
	}
}

func TestTagUnknownInstance(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateTags", refuse(http.StatusBadRequest, "InvalidInstanceID.NotFound", "The instance ID 'i-1' does not exist"))
	if err := c.Tag(t.Context(), "i-1", map[string]string{"a": "b"}); !cloud.IsNotFound(err) {
		t.Errorf("got %v, want NotFoundError", err)
	}
}

func TestInstancesAsksInChunksAndPages(t *testing.T) {
	w, c := newWire(t)
	w.handle("DescribeInstances", func(v url.Values) answer {
		if v.Get("NextToken") == "" {
			return ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-a</instanceId>" +
				"<instanceLifecycle>spot</instanceLifecycle><instanceState><name>running</name></instanceState></item></instancesSet></item>" +
				"</reservationSet><nextToken>more</nextToken></DescribeInstancesResponse>")
		}
		return ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-b</instanceId></item>" +
			"</instancesSet></item></reservationSet></DescribeInstancesResponse>")
	})
	ids := []string{"i-a", "i-b"}
	for i := range 250 {
		ids = append(ids, fmt.Sprintf("i-%d", i))
	}
	got, err := c.Instances(t.Context(), cloud.Selector{IDs: ids})
	if err != nil || len(got) != 2 || got[0].CapacityType != "spot" || got[1].CapacityType != "on-demand" {
		t.Errorf("%+v, %v, want i-a and i-b, each once", got, err)
	}
	calls := w.made("DescribeInstances")
	if len(calls) != 4 {
		t.Errorf("%d calls, want two chunks of two pages", len(calls))
	}
	if calls[0].Get("Filter.1.Name") != "instance-id" || calls[0].Has("Filter.2.Name") {
		t.Errorf("the first filters are %q and %q, want that of the IDs alone", calls[0].Get("Filter.1.Name"), calls[0].Get("Filter.2.Name"))
	}
	if _, err := c.Instances(t.Context(), cloud.Selector{}); err != nil {
		t.Fatal(err)
	}
	if listed := w.made("DescribeInstances")[4]; listed.Get("Filter.1.Name") != "tag:eks:eks-cluster-name" || listed.Get("Filter.1.Value.1") != "prod" {
		t.Errorf("the first filter of a list is %s=%s, want this cluster's tag", listed.Get("Filter.1.Name"), listed.Get("Filter.1.Value.1"))
	}
}

// A public address is that of an instance whose node has IPv4 addresses. A Node of an IPv6 cluster has none of them.
func TestPublicAddressOfAnInstance(t *testing.T) {
	w, c := newWire(t)
	const public = "<privateIpAddress>10.0.0.1</privateIpAddress><ipAddress>54.0.0.1</ipAddress><dnsName>ec2-54-0-0-1.compute-1.amazonaws.com</dnsName>"
	w.on("DescribeInstances", ok("<DescribeInstancesResponse><reservationSet><item><instancesSet>"+
		"<item><instanceId>i-4</instanceId>"+public+"</item>"+
		"<item><instanceId>i-6</instanceId>"+public+"<networkInterfaceSet><item><attachment><deviceIndex>0</deviceIndex></attachment>"+
		"<ipv6AddressesSet><item><ipv6Address>2600:1f18::4</ipv6Address><isPrimaryIpv6>true</isPrimaryIpv6></item></ipv6AddressesSet></item></networkInterfaceSet></item>"+
		"</instancesSet></item></reservationSet></DescribeInstancesResponse>"))
	got, err := c.Instances(t.Context(), cloud.Selector{IDs: []string{"i-4", "i-6"}})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].PublicIP != "54.0.0.1" || got[0].PublicDNSName != "ec2-54-0-0-1.compute-1.amazonaws.com" {
		t.Errorf("with IPv4 the public address is %q with the name %q", got[0].PublicIP, got[0].PublicDNSName)
	}
	if got[1].PrivateIP != "2600:1f18::4" || got[1].PublicIP != "" || got[1].PublicDNSName != "" {
		t.Errorf("with IPv6 the address is %q, the public one %q with the name %q", got[1].PrivateIP, got[1].PublicIP, got[1].PublicDNSName)
	}
}

// Only launch templates of this cluster that were not used are swept.
func TestSweepTemplates(t *testing.T) {
	w, c := newWire(t)
	c.cfg.Periods.LaunchTemplates = 0
	w.on("CreateFleet", fleet([]string{"i-1"}))
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, option("m7g.large", zoneA, "spot"))); err != nil {
		t.Fatal(err)
	}
	name := w.made("CreateLaunchTemplate")[0].Get("LaunchTemplateName")
	w.on("DescribeLaunchTemplates", ok("<DescribeLaunchTemplatesResponse><launchTemplates>"+
		"<item><launchTemplateId>lt-1</launchTemplateId><launchTemplateName>"+name+"</launchTemplateName></item>"+
		"<item><launchTemplateId>lt-2</launchTemplateId><launchTemplateName>slipway.dev/of-before</launchTemplateName></item>"+
		"</launchTemplates></DescribeLaunchTemplatesResponse>"))
	w.on("DeleteLaunchTemplate", ok("<DeleteLaunchTemplateResponse/>"))
	w.on("ListInstanceProfiles", ok("<ListInstanceProfilesResponse/>"))
	// What an earlier process left counts as used when it is first seen: the first sweep spares it.
	for _, want := range []string{"lt-1", "lt-2"} {
		if err := c.sweepTemplates(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls := w.made("DeleteLaunchTemplate")
		if got := calls[len(calls)-1].Get("LaunchTemplateId"); got != want {
			t.Errorf("the last one deleted is %s, want %s", got, want)
		}
	}
	if call := w.made("DescribeLaunchTemplates")[0]; call.Get("Filter.1.Value.1") != "prod" {
		t.Errorf("asked for cluster %q", call.Get("Filter.1.Value.1"))
	}
}

// EC2 may end an instance at launch for a lack of capacity, after CreateFleet succeeded: the offering counts as unavailable from then on, once for each
// instance, however often it is described.
func TestInstanceThatEC2EndsForALackOfCapacity(t *testing.T) {
	w, c := newWire(t)
	// marked returns until when the offering is unavailable once this instance was described.
	marked := func(id, reason string, age time.Duration) time.Time {
		t.Helper()
		w.on("DescribeInstances", ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>"+id+"</instanceId>"+
			"<instanceType>m7g.large</instanceType><placement><availabilityZone>us-east-1a</availabilityZone></placement><launchTime>"+
			time.Now().UTC().Add(-age).Format(time.RFC3339Nano)+"</launchTime><instanceState><name>terminated</name></instanceState><stateReason><code>"+reason+
			"</code><message>why</message></stateReason></item></instancesSet></item></reservationSet></DescribeInstancesResponse>"))
		got, err := c.Instances(t.Context(), cloud.Selector{})
		if err != nil || len(got) != 1 || got[0].StateReason != (cloud.StateReason{Code: reason, Message: "why"}) {
			t.Fatalf("got %+v, %v", got, err)
		}
		return c.without.of(offeringKey{"on-demand", "m7g.large", "us-east-1a"}, time.Now()).until
	}
	const lacks = "Server.InsufficientInstanceCapacity"
	for _, reason := range []string{"Client.InternalError", "Client.VolumeLimitExceeded", "Server.SpotInstanceTermination", "Client.UserInitiatedShutdown"} {
		if until := marked("i-a", reason, 0); !until.IsZero() {
			t.Errorf("%s: the offering is unavailable until %s", reason, until)
		}
	}
	if until := marked("i-a", lacks, time.Hour); !until.IsZero() {
		t.Errorf("launched an hour ago: the offering is unavailable until %s", until)
	}
	first := marked("i-a", lacks, time.Second)
	if again := marked("i-a", lacks, time.Second); first.IsZero() || !again.Equal(first) {
		t.Errorf("described twice: the offering is unavailable until %s, then %s", first, again)
	}
	if next := marked("i-b", lacks, 0); !next.After(first) {
		t.Errorf("another instance: the offering is unavailable until %s, was %s", next, first)
	}
}

// An instance is in a reservation that it was launched for, as long as that lasts; one that EC2 put into an open one is on-demand.
func TestReservedInstances(t *testing.T) {
	const target = "<capacityReservationSpecification><capacityReservationPreference>capacity-reservations-only</capacityReservationPreference>" +
		"<capacityReservationTarget><capacityReservationId>cr-1</capacityReservationId></capacityReservationTarget></capacityReservationSpecification>"
	const open = "<capacityReservationSpecification><capacityReservationPreference>open</capacityReservationPreference></capacityReservationSpecification>"
	const in = "<capacityReservationId>cr-1</capacityReservationId>" + target
	for name, c := range map[string]struct {
		xml, reservation, capacity, kind string
		interruptible                    bool
	}{
		"launched for it": {in, "cr-1", "reserved", "default", false},
		"a block":         {in + "<instanceLifecycle>capacity-block</instanceLifecycle>", "cr-1", "reserved", "capacity-block", false},
		"interruptible":   {in + "<instanceLifecycle>interruptible-capacity-reservation</instanceLifecycle>", "cr-1", "reserved", "default", true},
		"it has ended":    {target, "", "on-demand", "", false},
		"an open one":     {"<capacityReservationId>cr-2</capacityReservationId>" + open, "", "on-demand", "", false},
		"none":            {"", "", "on-demand", "", false},
	} {
		w, client := newWire(t)
		w.on("DescribeInstances", ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-a</instanceId>"+c.xml+
			"</item></instancesSet></item></reservationSet></DescribeInstancesResponse>"))
		got, err := client.Instances(t.Context(), cloud.Selector{IDs: []string{"i-a"}})
		if err != nil || len(got) != 1 || got[0].ReservationID != c.reservation || got[0].CapacityType != c.capacity ||
			got[0].ReservationType != c.kind || got[0].ReservationInterruptible != c.interruptible {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

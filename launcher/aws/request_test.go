package aws

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// given are those parameters of a call that begin with a prefix, without it.
func given(v url.Values, prefix string) map[string]string {
	out := map[string]string{}
	for key := range v {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			out[rest] = v.Get(key)
		}
	}
	return out
}

func reserved(id string, kind string, interruptible bool) cloud.Option {
	o := option("m7g.large", zoneA, karpv1.CapacityTypeReserved)
	o.Reservation = cloud.Reservation{ID: id, Type: kind, Interruptible: interruptible}
	return o
}

// Reserved capacity comes first, each reservation through its own launch template that uses this reservation only. Once a reservation is
// full, the next launch uses other capacity.
func TestReservedFirst(t *testing.T) {
	w, c := newWire(t)
	full := fleetError("ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and available capacity", "subnet-2")
	w.handle("CreateFleet", func(v url.Values) answer {
		name := "<launchTemplateSpecification><launchTemplateName>" + v.Get("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName") +
			"</launchTemplateName></launchTemplateSpecification><overrides>"
		return fleet(nil, strings.Replace(full, "<overrides>", name, 1))
	})
	in := launchInput("launch-1", 1, reserved("cr-1", "default", false), option("m7g.large", zoneA, "spot"))
	in.Class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
	out, err := c.Launch(t.Context(), in)
	if err != nil || len(out.Failures) != 1 || out.Failures[0].Option.Reservation.ID != "cr-1" || out.Failures[0].Cause != cloud.CauseCapacity {
		t.Fatalf("%+v, %v", out, err)
	}
	call := w.made("CreateFleet")[0]
	if got := call.Get("TargetCapacitySpecification.DefaultTargetCapacityType"); got != "on-demand" || call.Get("LaunchTemplateConfigs.1.Overrides.2.InstanceType") != "" {
		t.Errorf("target %s, overrides %v", got, given(call, "LaunchTemplateConfigs.1.Overrides."))
	}
	if diff := cmp.Diff(map[string]string{
		"CapacityReservationPreference": "capacity-reservations-only", "CapacityReservationTarget.CapacityReservationId": "cr-1",
	}, given(w.made("CreateLaunchTemplate")[0], "LaunchTemplateData.CapacityReservationSpecification.")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.on("CreateFleet", fleet([]string{"i-1"}))
	in.LaunchID = "launch-2"
	if _, err := c.Launch(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	c.Settled("launch-2")
	if _, kept := c.launches.peek("launch-2"); kept {
		t.Error("the request of a launch that is settled is kept")
	}
	if _, kept := c.launches.peek("launch-1"); !kept {
		t.Error("the request of a launch that may be repeated is not kept")
	}
	if got := w.made("CreateFleet")[1].Get("TargetCapacitySpecification.DefaultTargetCapacityType"); got != "spot" {
		t.Errorf("after the reservation was full: %s", got)
	}
	template := w.made("CreateLaunchTemplate")[1]
	if got := template.Get("LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference"); got != "none" {
		t.Errorf("a spot launch of a class with reservations has preference %q", got)
	}
}

// EC2 refuses a call that names an instance type and zone twice: of two reservations there the call has the one with the most free instances, and the
// next call the other. EC2's answer names a launch template by its ID alone. Of three reservations in two zones only the full one is left out, and a
// launch into another one is counted there.
func TestReservationsAreToldApart(t *testing.T) {
	for name, created := range map[string]answer{
		"template created": {},
		// The launch template of an earlier process: the first sweep has not listed it yet.
		"template exists": refuse(http.StatusBadRequest, "InvalidLaunchTemplateName.AlreadyExistsException", "exists"),
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWire(t)
			w.handle("CreateLaunchTemplate", func(v url.Values) answer {
				if created.status != 0 {
					return created
				}
				return ok("<CreateLaunchTemplateResponse><launchTemplate><launchTemplateId>lt-" + targetOf(v) + "</launchTemplateId></launchTemplate></CreateLaunchTemplateResponse>")
			})
			of := func(reservation, subnet string) string {
				return "<launchTemplateAndOverrides><launchTemplateSpecification><launchTemplateId>lt-" + reservation + "</launchTemplateId><version>1</version>" +
					"</launchTemplateSpecification><overrides><instanceType>m7g.large</instanceType><subnetId>" + subnet + "</subnetId></overrides></launchTemplateAndOverrides>"
			}
			w.on("CreateFleet",
				ok("<CreateFleetResponse><fleetInstanceSet><item>"+of("cr-3", "subnet-3")+"<instanceIds><item>i-1</item><item>i-2</item></instanceIds></item></fleetInstanceSet>"+
					"<errorSet><item>"+of("cr-2", "subnet-2")+"<errorCode>ReservationCapacityExceeded</errorCode><errorMessage>full</errorMessage></item></errorSet></CreateFleetResponse>"),
				ok("<CreateFleetResponse><fleetInstanceSet><item>"+of("cr-1", "subnet-2")+"<instanceIds><item>i-3</item></instanceIds></item></fleetInstanceSet></CreateFleetResponse>"))
			c.reserved.set(map[string]int64{"cr-1": 5, "cr-2": 6, "cr-3": 5})
			other := reserved("cr-3", "default", false)
			other.Zone = "us-east-1b"
			for i, tc := range []struct {
				claims                   int
				launched, requests, full string
				left                     map[string]int64
			}{
				{3, "i-1 i-2", "cr-2 cr-3", "cr-2", map[string]int64{"cr-1": 5, "cr-2": 6, "cr-3": 3}},
				{1, "i-3", "cr-1", "cr-2", map[string]int64{"cr-1": 4, "cr-2": 6, "cr-3": 3}},
			} {
				in := launchInput("launch-"+strconv.Itoa(i), tc.claims, reserved("cr-1", "default", false), reserved("cr-2", "default", false), other)
				in.Class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}, {ID: "cr-2"}, {ID: "cr-3"}}
				had := len(w.made("CreateLaunchTemplate"))
				out, err := c.Launch(t.Context(), in)
				if err != nil || strings.Join(out.InstanceIDs, " ") != tc.launched {
					t.Fatalf("%d: launched %v, %v", i, out.InstanceIDs, err)
				}
				var named []string
				for _, v := range w.made("CreateLaunchTemplate")[had:] {
					named = append(named, targetOf(v))
				}
				slices.Sort(named)
				if got := strings.Join(named, " "); got != tc.requests {
					t.Errorf("%d: launch templates for %q, want %q", i, got, tc.requests)
				}
				var full []string
				left := map[string]int64{}
				for _, id := range []string{"cr-1", "cr-2", "cr-3"} {
					if c.without.reservation(id, time.Now()).holds(time.Now()) {
						full = append(full, id)
					}
					left[id] = c.reserved.of(id)
				}
				if got := strings.Join(full, " "); got != tc.full {
					t.Errorf("%d: full: %q, want %q", i, got, tc.full)
				}
				if diff := cmp.Diff(tc.left, left); diff != "" {
					t.Errorf("%d: left (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// targetOf returns the capacity reservation that a new launch template launches into.
func targetOf(v url.Values) string {
	return v.Get("LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId")
}

// Each kind of reservation has its market, and one call buys of one kind.
func TestKindsOfReservations(t *testing.T) {
	for name, tc := range map[string]struct {
		option, after  cloud.Option
		target, market string
	}{
		"capacity block": {reserved("cr-2", "capacity-block", false), reserved("cr-1", "capacity-block", false), "capacity-block", "capacity-block"},
		"a block first":  {reserved("cr-1", "capacity-block", false), reserved("cr-2", "default", true), "capacity-block", "capacity-block"},
		"interruptible": {
			reserved("cr-1", "default", true), option("m7g.large", zoneA, karpv1.CapacityTypeOnDemand), "reserved-capacity",
			"interruptible-capacity-reservation",
		},
		"an ordinary one first": {reserved("cr-1", "default", false), reserved("cr-2", "capacity-block", false), "on-demand", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWire(t)
			w.on("CreateFleet", fleet([]string{"i-1"}))
			if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, tc.after, tc.option)); err != nil {
				t.Fatal(err)
			}
			if got := w.made("CreateFleet")[0].Get("TargetCapacitySpecification.DefaultTargetCapacityType"); got != tc.target {
				t.Errorf("target %q", got)
			}
			if calls := w.made("CreateLaunchTemplate"); len(calls) != 1 || calls[0].Get("LaunchTemplateData.InstanceMarketOptions.MarketType") != tc.market {
				t.Errorf("%d launch templates, the first with market %q", len(calls), calls[0].Get("LaunchTemplateData.InstanceMarketOptions.MarketType"))
			}
			target := "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
			if got := w.made("CreateLaunchTemplate")[0].Get(target); got != "cr-1" {
				t.Errorf("launched into %q", got)
			}
		})
	}
}

// Where priorities are asked for, EC2 gets slipway's order.
func TestPrioritized(t *testing.T) {
	for capacityType, field := range map[string]string{"spot": "SpotOptions", "on-demand": "OnDemandOptions"} {
		w, c := newWire(t)
		w.on("CreateFleet", fleet([]string{"i-1"}))
		in := launchInput("launch-1", 1, option("m7g.xlarge", zoneA, capacityType), option("m7g.large", zoneA, capacityType))
		in.Prioritized = true
		if _, err := c.Launch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		call := w.made("CreateFleet")[0]
		if got := call.Get(field + ".AllocationStrategy"); !strings.HasSuffix(got, "prioritized") {
			t.Errorf("%s: %q", capacityType, got)
		}
		overrides := given(call, "LaunchTemplateConfigs.1.Overrides.")
		if overrides["1.InstanceType"] != "m7g.xlarge" || overrides["1.Priority"] != "0" || overrides["2.Priority"] != "1" {
			t.Errorf("%s: %v", capacityType, overrides)
		}
	}
}

// The class's settings of network, processors and tenancy are in its launch templates.
func TestTemplateFields(t *testing.T) {
	const data = "LaunchTemplateData."
	nic := data + "NetworkInterface."
	for name, tc := range map[string]struct {
		set  func(*cloud.LaunchInput)
		want map[string]string
	}{
		"nothing": {func(*cloud.LaunchInput) {}, map[string]string{
			data + "SecurityGroupId.1": "sg-1", nic + "1.DeviceIndex": "", data + "Placement.Tenancy": "default",
			data + "MetadataOptions.HttpTokens": "required", data + "MetadataOptions.InstanceMetadataTags": "disabled",
			data + "CapacityReservationSpecification.CapacityReservationPreference": "none",
		}},
		"open reservations": {func(*cloud.LaunchInput) {}, map[string]string{
			data + "CapacityReservationSpecification.CapacityReservationPreference": "",
		}},
		"open reservations, of a class that selects some": {func(in *cloud.LaunchInput) {
			in.Class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
		}, map[string]string{data + "CapacityReservationSpecification.CapacityReservationPreference": "none"}},
		"nested virtualization": {func(in *cloud.LaunchInput) {
			in.Class.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: awssdk.String("enabled")}
		}, map[string]string{data + "CpuOptions.NestedVirtualization": "enabled"}},
		"network interfaces": {func(in *cloud.LaunchInput) {
			in.Class.Spec.IPPrefixCount = awssdk.Int32(2)
			in.Class.Spec.NetworkInterfaces = []*awsv1.NetworkInterface{
				{InterfaceType: awsv1.InterfaceTypeInterface}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly},
			}
		}, map[string]string{
			data + "SecurityGroupId.1": "", nic + "1.InterfaceType": "interface", nic + "1.Ipv4PrefixCount": "2", nic + "1.SecurityGroupId.1": "sg-1",
			nic + "2.InterfaceType": "efa-only", nic + "2.NetworkCardIndex": "1", nic + "2.DeviceIndex": "1", nic + "2.Ipv4PrefixCount": "",
		}},
		"IPv6": {func(in *cloud.LaunchInput) { in.Class.Spec.IPPrefixCount = awssdk.Int32(2) }, map[string]string{
			data + "SecurityGroupId.1": "", nic + "1.DeviceIndex": "0", nic + "1.SecurityGroupId.1": "sg-1", nic + "1.PrimaryIpv6": "true",
			nic + "1.Ipv6AddressCount": "1", nic + "1.Ipv6PrefixCount": "2", nic + "1.Ipv4PrefixCount": "", data + "MetadataOptions.HttpProtocolIpv6": "enabled",
		}},
		"IPv6 beside EFA": {func(in *cloud.LaunchInput) {
			in.Class.Spec.NetworkInterfaces = []*awsv1.NetworkInterface{
				{InterfaceType: awsv1.InterfaceTypeInterface}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly},
			}
		}, map[string]string{
			nic + "1.PrimaryIpv6": "true", nic + "1.Ipv6AddressCount": "1", nic + "2.PrimaryIpv6": "", nic + "2.Ipv6AddressCount": "",
		}},
		"EFA": {func(in *cloud.LaunchInput) { in.Options[0].EFAs = 2 }, map[string]string{
			nic + "1.InterfaceType": "efa", nic + "1.DeviceIndex": "0", nic + "2.NetworkCardIndex": "1", nic + "2.DeviceIndex": "1", nic + "3.DeviceIndex": "",
		}},
		"us-iso-east-1": {func(in *cloud.LaunchInput) {
			in.Class.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPProtocolIPv6: awssdk.String("disabled")}
		}, map[string]string{data + "MetadataOptions.HttpProtocolIpv6": "", data + "MetadataOptions.HttpTokens": "required"}},
		"dedicated": {func(in *cloud.LaunchInput) {
			in.Tenancy = catalog.TenancyDedicated
		}, map[string]string{data + "Placement.Tenancy": "dedicated"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWire(t, func(cfg *Config) {
				if strings.HasPrefix(name, "IPv6") {
					cfg.ServiceCIDR = "fd00::/108"
				}
				if name == "us-iso-east-1" {
					cfg.AWS.Region = name
				}
				cfg.OpenReservations = strings.HasPrefix(name, "open reservations")
			})
			w.on("CreateFleet", fleet([]string{"i-1"}))
			in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
			tc.set(&in)
			if _, err := c.Launch(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			template := w.made("CreateLaunchTemplate")[0]
			for key, want := range tc.want {
				if got := template.Get(key); got != want {
					t.Errorf("%s is %q, want %q; all: %v", key, got, want, given(template, data))
				}
			}
		})
	}
}

// An account without the service-linked role of EC2 Spot gets the code of it, and buys on-demand meanwhile.
func TestSpotRoleIsMissing(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet(nil, fleetError(string(ec2error.SpotServiceLinkedRole), "The provided credentials do not have permission", "subnet-2")), fleet([]string{"i-1"}))
	spot, onDemand := option("m7g.large", zoneA, "spot"), option("m7g.large", zoneA, "on-demand")
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, spot, onDemand))
	if err != nil || len(out.Failures) != 1 || out.Failures[0].Cause != cloud.CauseSpotRole || out.Failures[0].Reason != ec2error.SpotServiceLinkedRole || out.Failures[0].Attempts != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	out, err = c.Launch(t.Context(), launchInput("launch-2", 1, spot, onDemand))
	if err != nil || len(out.InstanceIDs) != 1 || w.made("CreateFleet")[1].Get("TargetCapacitySpecification.DefaultTargetCapacityType") != "on-demand" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A class whose template was deleted is launched again: EC2's error counts against no offering.
func TestFleetWithoutItsTemplate(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet(nil, fleetError("InvalidLaunchTemplateId.NotFound", "does not exist", "subnet-2")), fleet([]string{"i-1"}))
	a := option("m7g.large", zoneA, "spot")
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, a))
	if err != nil || len(out.Failures) != 1 || !out.Failures[0].Cause.Passing() || !available(t, c, a) {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err = c.Launch(t.Context(), launchInput("launch-2", 1, a)); err != nil || len(out.InstanceIDs) != 1 || len(w.made("CreateLaunchTemplate")) != 2 {
		t.Errorf("%+v, %v, %d launch templates", out, err, len(w.made("CreateLaunchTemplate")))
	}
}

// Concurrent launches create a launch template once.
func TestTemplatesAreMadeOnce(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	w.on("CreateLaunchTemplate", refuse(http.StatusBadRequest, "SomethingOdd", "no"), ok("<CreateLaunchTemplateResponse/>"))
	done := make(chan error)
	for i := range 20 {
		go func() {
			_, err := c.Launch(t.Context(), launchInput("launch-"+string(rune('a'+i)), 1, option("m7g.large", zoneA, "spot")))
			done <- err
		}()
	}
	failed := 0
	for range 20 {
		if <-done != nil {
			failed++
		}
	}
	if n := len(w.made("CreateLaunchTemplate")); n != 2 || failed != 1 {
		t.Errorf("%d calls, %d launches failed; want one that fails and one that makes it for all others", n, failed)
	}
}

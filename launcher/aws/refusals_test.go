package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const scpDenial = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: " +
	"ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:instance/* with an explicit deny in a service control policy."

// newWireWith is newWire with n on-demand types, m1g.large the cheapest of them, and returns their options in zone a.
func newWireWith(t *testing.T, n int) (*wire, *Cloud, []cloud.Option) {
	t.Helper()
	w, c := newWire(t)
	facts, prices := map[string]catalog.Facts{}, onDemandPrices{}
	var options []cloud.Option
	for i := range n {
		name := fmt.Sprintf("m%dg.large", i+1)
		facts[name] = catalog.Facts{Name: name, Arch: "arm64", VCPUs: 2, MemoryMiB: 8192, Zones: []string{zoneA, zoneB}, CapacityTypes: []string{"on-demand"}}
		prices[name] = 0.01 * float64(i+1)
		options = append(options, option(name, zoneA, "on-demand"))
	}
	c.known.set(market{onDemandAt: time.Now(), spotAt: time.Now(), ratesAt: time.Now(), dedicatedAt: time.Now(), facts: facts, onDemand: prices})
	return w, c, options
}

// denyFirst answers a call with a denial of its first override alone, as EC2 may for a call of many.
func denyFirst(call url.Values) answer {
	const first = "LaunchTemplateConfigs.1.Overrides.1."
	return fleet(nil, fleetErrorOf(call.Get(first+"InstanceType"), "UnauthorizedOperation", scpDenial, call.Get(first+"SubnetId")))
}

func offers(t *testing.T, c *Cloud, class *awsv1.EC2NodeClass, instanceType, zone string) bool {
	t.Helper()
	list, err := c.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range list {
		for _, o := range it.Offerings {
			if it.Name == instanceType && o.Zone == zone {
				return o.Available
			}
		}
	}
	t.Fatalf("no offering of %s in %s", instanceType, zone)
	return false
}

// A policy denies one of the types: that one is not offered again to this class, in no zone, until the class is edited.
func TestRefusalOfOneType(t *testing.T) {
	w, c, options := newWireWith(t, 3)
	w.handle("CreateFleet", denyFirst)
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, options...))
	if err != nil || len(out.Failures) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if f := out.Failures[0]; f.Option != options[0] || f.Cause != cloud.CauseUnauthorized || f.Cause.Passing() || f.Attempts != 1 ||
		f.Condition != ec2error.ReasonInstanceTypeRefused || f.Message != scpDenial {
		t.Errorf("%+v", f)
	}
	class, other := nodeClass(), nodeClass()
	other.Name = "other"
	if offers(t, c, class, "m1g.large", zoneA) || offers(t, c, class, "m1g.large", zoneB) {
		t.Error("the type that EC2 refuses is offered")
	}
	if !offers(t, c, class, "m2g.large", zoneA) || !offers(t, c, other, "m1g.large", zoneA) {
		t.Error("the refusal concerns other types, or other classes")
	}
	class.Generation++
	if !offers(t, c, class, "m1g.large", zoneA) {
		t.Error("the edited class does not offer the type again")
	}
}

// The types that EC2 did not refuse are tried. A launch of the refused type alone is answered without a call.
func TestRefusedTypeIsNotTriedAgain(t *testing.T) {
	w, c, options := newWireWith(t, 3)
	w.handle("CreateFleet", denyFirst)
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, options...)); err != nil {
		t.Fatal(err)
	}
	w.on("CreateFleet", fleet([]string{"i-1"}))
	if out, err := c.Launch(t.Context(), launchInput("launch-2", 1, options...)); err != nil || len(out.InstanceIDs) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if first := w.made("CreateFleet")[1].Get("LaunchTemplateConfigs.1.Overrides.1.InstanceType"); first != "m2g.large" {
		t.Errorf("the next call asks for %s first", first)
	}
	out, err := c.Launch(t.Context(), launchInput("launch-3", 1, options[0]))
	if err != nil || len(out.Failures) != 1 || out.Failures[0].Condition != ec2error.ReasonInstanceTypeRefused || len(w.made("CreateFleet")) != 2 {
		t.Errorf("a launch of that type alone: %+v, %v", out, err)
	}
}

// A class that is not known to work is at fault once EC2 has refused several types, or all that were asked for.
func TestRefusalsOfAClassThatNeverLaunched(t *testing.T) {
	w, c, options := newWireWith(t, 5)
	w.handle("CreateFleet", denyFirst)
	for i, broken := range []bool{false, false, true, true} {
		out, err := c.Launch(t.Context(), launchInput(fmt.Sprintf("launch-%d", i), 1, options...))
		fault, found := cloud.IsNodeClass(err)
		if found != broken || !found && len(out.Failures) != 1 {
			t.Fatalf("call %d: %+v, %v", i, out, err)
		}
		if found && (fault.Reason != "Unauthorized" || fault.Class != "default" || fault.Code != ec2error.UnauthorizedOperation) {
			t.Errorf("call %d: %+v", i, fault)
		}
	}
	edited := launchInput("launch-of-two", 1, options[:2]...)
	edited.Class.Generation++
	if _, err := c.Launch(t.Context(), edited); err != nil {
		t.Errorf("one of two types of the edited class: %v", err)
	}
	edited.LaunchID = "launch-of-one"
	if _, err := c.Launch(t.Context(), edited); err == nil {
		t.Error("EC2 has refused all types, and the class is not at fault")
	}
}

// A class of which EC2 shows an instance works, although this process has launched none: it was restarted.
func TestRefusalsOfAClassThatHasAnInstance(t *testing.T) {
	w, c, options := newWireWith(t, 5)
	w.on("DescribeInstances", ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><name>running</name>"+
		"</instanceState><tagSet><item><key>"+awsv1.LabelNodeClass+"</key><value>default</value></item></tagSet></item></instancesSet></item></reservationSet></DescribeInstancesResponse>"))
	if _, err := c.Instances(t.Context(), cloud.Selector{}); err != nil {
		t.Fatal(err)
	}
	w.handle("CreateFleet", denyFirst)
	for i := range 4 {
		if _, err := c.Launch(t.Context(), launchInput(fmt.Sprintf("launch-%d", i), 1, options...)); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if out, err := c.Launch(t.Context(), launchInput("launch-last", 1, options[4])); err != nil || len(out.Failures) != 1 || out.Failures[0].Condition != ec2error.ReasonInstanceTypeRefused {
		t.Errorf("a pod of one tenant asks for a type that EC2 refuses: %+v, %v", out, err)
	}
}

// What EC2 says of the class itself is the class's fault whichever offering it names.
func TestFaultThatNamesAnOffering(t *testing.T) {
	for code, want := range map[string]string{"InvalidAMIID.NotFound": "AMINotFound", "PendingVerification": "AccountPendingVerification", "Blocked": "Unauthorized"} {
		w, c, options := newWireWith(t, 5)
		w.on("CreateFleet", fleet(nil, fleetErrorOf("m1g.large", code, "why", "subnet-2")))
		_, err := c.Launch(t.Context(), launchInput("launch-1", 1, options...))
		if fault, found := cloud.IsNodeClass(err); !found || fault.Reason != want {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// A subnet that a class may not use takes no type from its other zones, and a type that the same call launched elsewhere is not refused.
func TestRefusedSubnet(t *testing.T) {
	w, c, options := newWireWith(t, 2)
	w.on("CreateFleet", fleet(nil, fleetErrorOf("m1g.large", "InvalidSubnetID.NotFound", "The subnet ID 'subnet-2' does not exist", "subnet-2")))
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, options...)); err != nil {
		t.Fatal(err)
	}
	if offers(t, c, nodeClass(), "m1g.large", zoneA) || !offers(t, c, nodeClass(), "m1g.large", zoneB) {
		t.Error("want the type to be refused in the zone of the subnet, and there alone")
	}
	w.on("CreateFleet", ok("<CreateFleetResponse><fleetInstanceSet><item><launchTemplateAndOverrides><overrides><instanceType>m2g.large</instanceType><subnetId>subnet-2</subnetId>"+
		"</overrides></launchTemplateAndOverrides><instanceIds><item>i-1</item></instanceIds></item></fleetInstanceSet><errorSet>"+
		fleetErrorOf("m2g.large", "UnauthorizedOperation", scpDenial, "subnet-3")+"</errorSet></CreateFleetResponse>"))
	in := launchInput("launch-2", 2, options[1], option("m2g.large", zoneB, "on-demand"))
	if out, err := c.Launch(t.Context(), in); err != nil || len(out.InstanceIDs) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if !offers(t, c, nodeClass(), "m2g.large", zoneA) {
		t.Error("a type that was launched is refused")
	}
}

// A class that launches is in order, however many types are refused to it. An error that names no offering is the class's even then.
func TestRefusalsOfAClassThatHasLaunched(t *testing.T) {
	w, c, options := newWireWith(t, 5)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	if _, err := c.Launch(t.Context(), launchInput("launch-0", 1, options...)); err != nil {
		t.Fatal(err)
	}
	w.handle("CreateFleet", denyFirst)
	for i := range 4 {
		if out, err := c.Launch(t.Context(), launchInput(fmt.Sprintf("launch-%d", i+1), 1, options[i])); err != nil || len(out.Failures) != 1 {
			t.Errorf("%+v, %v", out, err)
		}
	}
	w.on("CreateFleet", fleet(nil, "<item><errorCode>UnauthorizedOperation</errorCode><errorMessage>no</errorMessage></item>"))
	if _, err := c.Launch(t.Context(), launchInput("launch-last", 1, options[4])); err == nil {
		t.Error("EC2 named no offering, and the class is not at fault")
	}
}

// EC2 refuses one type after the other: after ten calls the class is left alone for half a minute, whichever types are asked for, so that there is no call
// for each type. A launch ends that.
func TestManyRefusalsPauseTheClass(t *testing.T) {
	w, c, options := newWireWith(t, 28)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	if _, err := c.Launch(t.Context(), launchInput("launch", 1, options...)); err != nil {
		t.Fatal(err)
	}
	w.handle("CreateFleet", denyFirst)
	begin := time.Now()
	for i := range 40 {
		asked := options[:14]
		if i >= 20 {
			asked = options[14:]
		}
		if out, err := c.Launch(t.Context(), launchInput(fmt.Sprintf("launch-%d", i), 1, asked...)); err != nil || len(out.Failures) == 0 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if n := len(w.made("CreateFleet")); n != 1+pauseTypes {
		t.Errorf("%d calls were made, want %d", n, 1+pauseTypes)
	}
	var left []bool
	for _, o := range options[:14] {
		left = append(left, c.without.refusals.of(idOf(nodeClass()), "on-demand", o.InstanceType, zoneA, begin.Add(2*time.Minute)).holds(begin.Add(2*time.Minute)))
	}
	if want := append(slices.Repeat([]bool{true}, 10), false, false, false, false); !slices.Equal(left, want) {
		t.Errorf("two minutes later these are still refused: %v", left)
	}
	hour := begin.Add(time.Hour)
	if next := c.without.expire(hour); !next.IsZero() || c.without.refusals.of(idOf(nodeClass()), "on-demand", "m1g.large", zoneA, hour).holds(hour) {
		t.Errorf("the refusals do not end: %s", next)
	}
	if c.without.expire(hour); len(c.without.refusals.by["default"].marks) != 0 {
		t.Error("refusals that ended long ago are kept")
	}
}

// Without room for the volumes of a class, its offering waits. Other classes have other volumes, and no class is at fault.
func TestNoRoomForVolumes(t *testing.T) {
	for _, code := range []ec2error.Code{ec2error.MaxIOPSLimitExceeded, ec2error.VolumeLimitExceeded, ec2error.InsufficientVolumeCapacity} {
		for what, a := range map[string]answer{
			"of an offering": fleet(nil, fleetErrorOf("m1g.large", string(code), "no", "subnet-2")),
			"of the call":    refuse(http.StatusBadRequest, string(code), "no"),
		} {
			w, c, options := newWireWith(t, 2)
			w.on("CreateFleet", a)
			for _, id := range []string{"launch-1", "launch-2"} {
				out, err := c.Launch(t.Context(), launchInput(id, 1, options[0]))
				if err != nil || len(out.Failures) != 1 || out.Failures[0].Reason != code || out.Failures[0].Condition != code.Reason() {
					t.Fatalf("%s %s: %+v, %v", code, what, out, err)
				}
			}
			if n := len(w.made("CreateFleet")); n != 1 {
				t.Errorf("%s %s: %d calls", code, what, n)
			}
			class, other := nodeClass(), nodeClass()
			other.Name = "other"
			if offers(t, c, class, "m1g.large", zoneA) || !offers(t, c, class, "m1g.large", zoneB) || !offers(t, c, class, "m2g.large", zoneA) {
				t.Errorf("%s %s: want the offering to be unavailable to the class, and no other", code, what)
			}
			if !offers(t, c, other, "m1g.large", zoneA) {
				t.Errorf("%s %s: another class loses the offering", code, what)
			}
			class.Generation++
			if !offers(t, c, class, "m1g.large", zoneA) {
				t.Errorf("%s %s: the class with other volumes does not offer it again", code, what)
			}
		}
	}
}

// A call gets one instance, and has no room for the volumes of the other: that is not forgotten for the one.
func TestNoRoomForTheVolumesOfSome(t *testing.T) {
	w, c, options := newWireWith(t, 2)
	w.on("CreateFleet", fleet([]string{"i-1"}, fleetErrorOf("m1g.large", string(ec2error.VolumeLimitExceeded), "no", "subnet-2")))
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 2, options[0])); err != nil {
		t.Fatal(err)
	}
	if offers(t, c, nodeClass(), "m1g.large", zoneA) {
		t.Error("the offering is offered to the class again at once")
	}
}

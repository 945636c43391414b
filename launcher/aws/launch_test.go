package aws

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const zoneA, zoneB = "us-east-1a", "us-east-1b"

func TestLaunchAsksForSpotFirst(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1", "i-2"}))
	in := launchInput("launch-1", 2, option("m7g.large", zoneA, "on-demand"),
		option("m7g.large", zoneA, "spot"), option("m7g.large", zoneB, "spot"))
	out, err := c.Launch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cloud.LaunchOutput{InstanceIDs: []string{"i-1", "i-2"}}, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	call := w.made("CreateFleet")[0]
	for key, want := range map[string]string{
		"Type": "instant", "ClientToken": "launch-1",
		"TargetCapacitySpecification.TotalTargetCapacity":       "2",
		"TargetCapacitySpecification.DefaultTargetCapacityType": "spot",
		"SpotOptions.AllocationStrategy":                        "price-capacity-optimized",
		"LaunchTemplateConfigs.1.Overrides.1.InstanceType":      "m7g.large",
		// Of two subnets in the zone the one with more free addresses.
		"LaunchTemplateConfigs.1.Overrides.1.SubnetId": "subnet-2",
		"LaunchTemplateConfigs.1.Overrides.2.SubnetId": "subnet-3",
		"LaunchTemplateConfigs.1.Overrides.3.SubnetId": "",
	} {
		if got := call.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	want := map[string]string{
		"eks:eks-cluster-name": "prod", "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodepool": "pool",
		"kubernetes.io/cluster/prod": "owned", "slipway.dev/launch": "launch-1", "team": "a",
	}
	for _, prefix := range []string{"TagSpecification.1.Tag.", "TagSpecification.2.Tag.", "TagSpecification.3.Tag."} {
		if diff := cmp.Diff(want, tagsOf(call, prefix)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prefix, diff)
		}
	}
	delete(want, "slipway.dev/launch")
	template := w.made("CreateLaunchTemplate")[0]
	if diff := cmp.Diff(want, tagsOf(template, "TagSpecification.1.Tag.")); diff != "" {
		t.Errorf("launch template (-want +got):\n%s", diff)
	}
	text, err := base64.StdEncoding.DecodeString(template.Get("LaunchTemplateData.UserData"))
	if err != nil || !strings.Contains(string(text), "--node-labels=a=b,karpenter.sh/capacity-type=spot") ||
		!strings.Contains(string(text), "maxPods: 29") {
		t.Errorf("user data: %v\n%s", err, text)
	}
	if id := template.Get("LaunchTemplateData.ImageId"); id != "ami-arm" {
		t.Errorf("image %s", id)
	}
}

func tagsOf(v url.Values, prefix string) map[string]string {
	out := map[string]string{}
	for key, values := range v {
		if n, found := strings.CutPrefix(key, prefix); found && strings.HasSuffix(n, ".Key") {
			out[values[0]] = v.Get(prefix + strings.TrimSuffix(n, ".Key") + ".Value")
		}
	}
	return out
}

func TestLaunchTemplatesAreReusedByContent(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	launch := func(id string, change func(*cloud.LaunchInput)) {
		t.Helper()
		in := launchInput(id, 1, option("m7g.large", zoneA, "on-demand"))
		change(&in)
		if _, err := c.Launch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	launch("launch-1", func(*cloud.LaunchInput) {})
	launch("launch-2", func(*cloud.LaunchInput) {})
	if n := len(w.made("CreateLaunchTemplate")); n != 1 {
		t.Errorf("equal launches made %d launch templates, want 1", n)
	}
	launch("launch-3", func(in *cloud.LaunchInput) { in.Labels["a"] = "c" })
	launch("launch-4", func(in *cloud.LaunchInput) { in.Options[0].MaxPods = 58 })
	launch("launch-5", func(in *cloud.LaunchInput) { in.Class.Spec.Tags["team"] = "b" })
	if n := len(w.made("CreateLaunchTemplate")); n != 4 {
		t.Errorf("four kinds of launches made %d launch templates, want 4", n)
	}
}

func TestLaunchTemplateIsThereAlready(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateLaunchTemplate", refuse(http.StatusBadRequest, "InvalidLaunchTemplateName.AlreadyExistsException", "in use"))
	w.on("CreateFleet", fleet([]string{"i-1"}))
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, option("m7g.large", zoneA, "spot"))); err != nil {
		t.Error(err)
	}
}

func TestLaunchTemplateIsGone(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1"}),
		refuse(http.StatusBadRequest, "InvalidLaunchTemplateName.NotFoundException", "does not exist"), fleet([]string{"i-2"}))
	for _, id := range []string{"launch-1", "launch-2"} {
		out, err := c.Launch(t.Context(), launchInput(id, 1, option("m7g.large", zoneA, "spot")))
		if err != nil || len(out.InstanceIDs) != 1 {
			t.Fatalf("%s: %+v, %v", id, out, err)
		}
	}
	if made, fleets := len(w.made("CreateLaunchTemplate")), w.made("CreateFleet"); made != 2 || len(fleets) != 3 {
		t.Errorf("made %d launch templates in %d calls, want 2 in 3", made, len(fleets))
	}
}

func TestLaunchOutlivesThrottling(t *testing.T) {
	w, c := newWire(t)
	slow := refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
	w.on("CreateFleet", slow, slow, fleet([]string{"i-1"}))
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, option("m7g.large", zoneA, "spot")))
	if err != nil || len(out.InstanceIDs) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, call := range w.made("CreateFleet") {
		if call.Get("ClientToken") != "launch-1" {
			t.Errorf("an attempt had client token %q", call.Get("ClientToken"))
		}
	}
}

// A throttled call says whether an earlier attempt of it may have launched.
func TestThrottledLaunchSaysWhatWasLost(t *testing.T) {
	slow := refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
	for name, tc := range map[string]struct {
		first answer
		lost  bool
	}{
		"throttled alone":        {slow, false},
		"no answer of EC2":       {answer{http.StatusBadGateway, ""}, true},
		"an error of the server": {refuse(http.StatusInternalServerError, "InternalError", "later"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWire(t)
			w.on("CreateFleet", tc.first, slow)
			_, err := c.Launch(t.Context(), launchInput("launch-1", 2, option("m7g.large", zoneA, "spot")))
			e, ok := cloud.AsLaunch(err)
			if !ok || e.Cause != cloud.CauseThrottled || e.Lost != tc.lost || len(w.made("CreateFleet")) < 2 {
				t.Errorf("%+v after %d attempts, want Lost %t", err, len(w.made("CreateFleet")), tc.lost)
			}
		})
	}
}

// TestRepeatedLaunchIsTheSame: EC2 refuses a client token with other parameters, so neither a spot price nor a lack of
// capacity learned meanwhile may change the request of a launch id.
func TestRepeatedLaunchIsTheSame(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", refuse(http.StatusBadRequest, "SomethingOdd", "no"))
	a, b := option("m7g.large", zoneA, "spot"), option("m7g.large", zoneB, "spot")
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, a, b)); err == nil {
		t.Fatal("no error")
	}
	c.without.remember([]fleetFailure{{OfferingFailure: cloud.OfferingFailure{Option: a, Reason: ec2error.InsufficientInstanceCapacity}}}, time.Now())
	w.on("CreateFleet", fleet([]string{"i-1"}))
	if _, err := c.Launch(t.Context(), launchInput("launch-1", 1, a, b)); err != nil {
		t.Fatal(err)
	}
	calls := w.made("CreateFleet")
	if diff := cmp.Diff(calls[0], calls[1]); diff != "" {
		t.Errorf("the second call differs:\n%s", diff)
	}
}

func TestLaunchWithoutCapacity(t *testing.T) {
	w, c := newWire(t)
	// What Refresh asks for beside.
	w.on("DescribeLaunchTemplates", ok("<DescribeLaunchTemplatesResponse/>"))
	w.on("DescribeInstanceTypeOfferings", refuse(http.StatusBadRequest, "NotNow", "no"))
	refreshing(t, c)
	w.on("CreateFleet", fleet(nil,
		fleetError("InsufficientInstanceCapacity", "We currently do not have sufficient capacity", "subnet-2")))
	a, b := option("m7g.large", zoneA, "spot"), option("m7g.xlarge", zoneA, "spot")
	changed := c.Changed()
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, a, b))
	if err != nil || len(out.Failures) != 1 || out.Failures[0].Option != a || out.Failures[0].Reason != "InsufficientInstanceCapacity" {
		t.Fatalf("%+v, %v", out, err)
	}
	<-changed
	if available(t, c, a) || !available(t, c, b) {
		t.Error("want the first option unavailable and the second available")
	}
	// A launch that requests it anyway is answered without a call.
	out, err = c.Launch(t.Context(), launchInput("launch-2", 1, a))
	if err != nil || len(out.Failures) != 1 || len(w.made("CreateFleet")) != 1 {
		t.Errorf("%+v, %v, %d calls", out, err, len(w.made("CreateFleet")))
	}
}

// The end of an offering's unavailability is signaled like any change.
func TestEndOfAStockOutIsSignaled(t *testing.T) {
	w, c := newWire(t, func(cfg *Config) { cfg.Periods.Unavailable = 100 * time.Millisecond })
	w.on("DescribeLaunchTemplates", ok("<DescribeLaunchTemplatesResponse/>"))
	w.on("DescribeInstanceTypeOfferings", refuse(http.StatusBadRequest, "NotNow", "no"))
	refreshing(t, c)
	w.on("CreateFleet", fleet(nil, fleetError("InsufficientInstanceCapacity", "We currently do not have sufficient capacity", "subnet-2")))
	a := option("m7g.large", zoneA, "spot")
	if out, err := c.Launch(t.Context(), launchInput("launch-1", 1, a)); err != nil || len(out.Failures) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for changed := c.Changed(); !available(t, c, a); changed = c.Changed() {
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("the end was not signaled")
		}
	}
}

func available(t *testing.T, c *Cloud, want cloud.Option) bool {
	t.Helper()
	types, err := c.InstanceTypes(t.Context(), nodeClass())
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range types {
		for _, o := range it.Offerings {
			if it.Name == want.InstanceType && o.Zone == want.Zone && o.CapacityType == want.CapacityType {
				return o.Available
			}
		}
	}
	t.Fatalf("no offering %+v", want)
	return false
}

func TestSubnetWithoutAddresses(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet(nil, fleetError("InsufficientFreeAddressesInSubnet", "no", "subnet-2")),
		fleet([]string{"i-1"}),
		fleet(nil, fleetError("InsufficientFreeAddressesInSubnet", "no", "subnet-1")))
	a := option("m7g.large", zoneA, "spot")
	for _, id := range []string{"launch-1", "launch-2"} {
		if _, err := c.Launch(t.Context(), launchInput(id, 1, a)); err != nil {
			t.Fatal(err)
		}
	}
	if subnet := w.made("CreateFleet")[1].Get("LaunchTemplateConfigs.1.Overrides.1.SubnetId"); subnet != "subnet-1" {
		t.Errorf("the second launch went to %s, want the zone's other subnet", subnet)
	}
	if !available(t, c, a) {
		t.Error("the zone is unavailable though one subnet has addresses")
	}
	if _, err := c.Launch(t.Context(), launchInput("launch-3", 1, a)); err != nil {
		t.Fatal(err)
	}
	if available(t, c, a) || available(t, c, option("m7g.xlarge", zoneA, "on-demand")) || !available(t, c, option("m7g.large", zoneB, "spot")) {
		t.Error("want all of zone a unavailable, and nothing else")
	}
	out, err := c.Launch(t.Context(), launchInput("launch-4", 1, a))
	if err != nil || len(out.Failures) != 1 || len(w.made("CreateFleet")) != 3 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestLaunchFaultsOfTheClass(t *testing.T) {
	spot := option("m7g.large", zoneA, "spot")
	for name, tc := range map[string]struct {
		set  func(*wire, *cloud.LaunchInput)
		want string
	}{
		"call refused": {func(w *wire, _ *cloud.LaunchInput) {
			w.on("CreateFleet", refuse(http.StatusForbidden, "UnauthorizedOperation", "You are not authorized"))
		}, "Unauthorized"},
		"every offering refused": {func(w *wire, _ *cloud.LaunchInput) {
			w.on("CreateFleet", fleet(nil, fleetError("InvalidParameterCombination", "no", "subnet-2")))
		}, "LaunchFailed"},
		"launch template refused": {func(w *wire, _ *cloud.LaunchInput) {
			w.on("CreateLaunchTemplate", refuse(http.StatusBadRequest, "InvalidUserData.Malformed", "User data is limited to 16384 bytes"))
		}, "UserDataSizeLimitExceeded"},
		"not resolved":  {func(_ *wire, in *cloud.LaunchInput) { in.Class.Status.AMIs = nil }, "NodeClassNotReady"},
		"not supported": {func(_ *wire, in *cloud.LaunchInput) { in.Class.Spec.AMIFamily = new("Ubuntu") }, "NotSupported"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWire(t)
			in := launchInput("launch-1", 1, spot)
			tc.set(w, &in)
			_, err := c.Launch(t.Context(), in)
			fault, found := cloud.IsNodeClass(err)
			if !found || fault.Reason != tc.want || fault.Class != "default" {
				t.Errorf("got %v, want a NodeClassError with reason %s", err, tc.want)
			}
		})
	}
}

// A profile that IAM has just made is unknown to EC2 for some seconds: that is no fault of the class.
func TestLaunchBeforeTheProfileIsKnown(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet(nil, fleetError("InvalidParameterValue",
		"Value (profile) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", "subnet-2")))
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, option("m7g.large", zoneA, "spot")))
	if err != nil || len(out.Failures) != 1 || !available(t, c, option("m7g.large", zoneA, "spot")) {
		t.Errorf("%+v, %v", out, err)
	}
}

// blamed is EC2's text of UnfulfillableCapacity where a spot fleet blames its request.
const blamed = "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again."

// Where EC2 lists an error of the request itself, a spot fleet blames the request for a lack of capacity as well, in other offerings too. They
// have some: only the error itself counts.
func TestLaunchThatBlamesItsRequest(t *testing.T) {
	a, b := option("m7g.large", zoneA, "spot"), option("m7g.large", zoneB, "spot")
	for _, c := range []struct {
		name, code, text string
		// fault means that it is the fault of the class.
		fault bool
	}{
		{"profile", "InvalidParameterValue", "Value (profile) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", false},
		{"template", "InvalidLaunchTemplateName.NotFoundException", "The specified launch template does not exist.", false},
		{"combination", "InvalidParameterCombination", "HttpPutResponseHopLimit must be 1 to 64", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, aws := newWire(t)
			w.on("CreateFleet", fleet(nil, fleetError("UnfulfillableCapacity", blamed, "subnet-2"), fleetError(c.code, c.text, "subnet-2"),
				fleetError("UnfulfillableCapacity", blamed, "subnet-3")))
			out, err := aws.Launch(t.Context(), launchInput("launch-1", 1, a, b))
			if _, fault := cloud.IsNodeClass(err); fault != c.fault {
				t.Fatalf("%+v, %v", out, err)
			}
			if !c.fault && (len(out.Failures) != 1 || !out.Failures[0].Cause.Passing() || !available(t, aws, a) || !available(t, aws, b)) {
				t.Errorf("%+v, %v", out, err)
			}
			now := time.Now()
			for _, o := range []cloud.Option{a, b} { // Offerings of other classes.
				if m := aws.without.of(offeringKey{o.CapacityType, o.InstanceType, o.Zone}, now); m.holds(now) {
					t.Errorf("%s: %+v", o.Zone, m)
				}
			}
		})
	}
	// Alone, it is a lack of capacity.
	w, aws := newWire(t)
	w.on("CreateFleet", fleet(nil, fleetError("UnfulfillableCapacity", blamed, "subnet-2")))
	if out, err := aws.Launch(t.Context(), launchInput("launch-1", 1, a)); err != nil || len(out.Failures) != 1 || available(t, aws, a) {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestLaunchLimits(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", refuse(http.StatusBadRequest, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
		fleet(nil, fleetError("VcpuLimitExceeded", "no", "subnet-2")))
	out, err := c.Launch(t.Context(), launchInput("launch-1", 1, option("m7g.large", zoneA, "spot"), option("m7g.xlarge", zoneB, "spot")))
	if err != nil || len(out.Failures) != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	if available(t, c, option("m7g.xlarge", zoneA, "spot")) || !available(t, c, option("m7g.xlarge", zoneA, "on-demand")) {
		t.Error("want all of spot unavailable, and nothing else")
	}
	if _, err := c.Launch(t.Context(), launchInput("launch-2", 1, option("m7g.large", zoneA, "on-demand"))); err != nil {
		t.Fatal(err)
	}
	if available(t, c, option("m7g.large", zoneB, "on-demand")) || !available(t, c, option("m7g.xlarge", zoneA, "on-demand")) {
		t.Error("want m7g.large on demand unavailable in every zone, and nothing else")
	}
}

func TestLaunchSkipsWhatItCannotAskFor(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	in := launchInput("launch-1", 1, option("m7i.large", zoneA, "spot"), option("m7g.large", "us-east-1f", "spot"),
		option("m7g.large", zoneA, "spot"))
	out, err := c.Launch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, f := range out.Failures {
		reasons = append(reasons, string(f.Reason))
	}
	if !slices.Equal(reasons, []string{"NoAMI", "NoSubnet"}) || len(out.InstanceIDs) != 1 {
		t.Errorf("%+v", out)
	}
}

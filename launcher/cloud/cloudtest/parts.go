package cloudtest

import (
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/collect"
)

func (s suite) testResolve() {
	s.resolve()
	status := s.Class.Status
	zones := map[string]bool{}
	for _, subnet := range status.Subnets {
		zones[subnet.Zone] = true
		if subnet.ID == "" || subnet.Zone == "" || subnet.ZoneID == "" {
			s.t.Errorf("subnet without id, zone or zone id: %+v", subnet)
		}
	}
	if len(zones) < 2 {
		s.t.Errorf("subnets in %d zones, want two at least: %+v", len(zones), status.Subnets)
	}
	if len(status.SecurityGroups) == 0 || len(status.AMIs) == 0 || status.InstanceProfile == "" {
		s.t.Errorf("not resolved: %+v", status)
	}
	for _, want := range []string{
		awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeAMIsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeValidationSucceeded,
	} {
		if !s.Class.StatusConditions().IsTrue(want) {
			s.t.Errorf("condition %s: %+v, want True", want, s.Class.StatusConditions().Get(want))
		}
	}
	// The second call must give the same status: an unchanged status must not be written again.
	again, err := s.Cloud.Resolve(s.t.Context(), s.Class)
	if err != nil || again.InstanceProfile != status.InstanceProfile || len(again.Subnets) != len(status.Subnets) {
		s.t.Errorf("the second Resolve differs: %+v, %v", again, err)
	}
}

func (s suite) testInstanceTypes() {
	s.resolve()
	types, err := s.Cloud.InstanceTypes(s.t.Context(), s.Class)
	if err != nil {
		s.t.Fatal(err)
	}
	if !slices.IsSortedFunc(types, func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		s.t.Error("not sorted by name")
	}
	for _, it := range types {
		s.checkShape(it)
		s.checkOfferings(it)
	}
	all, err := s.Cloud.AllInstanceTypes(s.t.Context(), s.Class)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, it := range types {
		if !slices.ContainsFunc(all, func(t catalog.InstanceType) bool { return t.Name == it.Name && len(t.Offerings) >= len(it.Offerings) }) {
			s.t.Errorf("AllInstanceTypes lacks offerings of %s", it.Name)
		}
	}
}

func (s suite) checkShape(it catalog.InstanceType) {
	if it.Labels[corev1.LabelInstanceTypeStable] != it.Name || it.Labels[corev1.LabelArchStable] == "" {
		s.t.Errorf("%s: labels %v", it.Name, it.Labels)
	}
	for name, q := range it.Allocatable {
		capacity := it.Capacity[name]
		if q.Cmp(capacity) > 0 {
			s.t.Errorf("%s: %s allocatable %s of %s", it.Name, name, q.String(), capacity.String())
		}
	}
	if it.Allocatable.Cpu().IsZero() || it.Allocatable.Memory().IsZero() || it.Allocatable.Pods().IsZero() {
		s.t.Errorf("%s: nothing allocatable: %v", it.Name, it.Allocatable)
	}
}

func (s suite) checkOfferings(it catalog.InstanceType) {
	zones := map[string]string{}
	for _, subnet := range s.Class.Status.Subnets {
		zones[subnet.Zone] = subnet.ZoneID
	}
	for _, o := range it.Offerings {
		if id, ok := zones[o.Zone]; !ok || id != o.ZoneID || o.Price <= 0 || !o.Available || !o.UnavailableUntil.IsZero() {
			s.t.Errorf("%s: offering %+v, with subnets in %v", it.Name, o, zones)
		}
	}
}

func (s suite) testLaunch() {
	s.resolve()
	options := s.options(karpv1.CapacityTypeOnDemand)
	ids := s.launch("launch-a", 3, options)
	other := s.launch("launch-b", 1, options)
	got := s.see(cloud.Selector{IDs: ids}, "the three instances", count(3))
	for _, i := range got {
		offered := slices.ContainsFunc(options, func(o cloud.Option) bool {
			return o.InstanceType == i.InstanceType && o.Zone == i.Zone
		})
		if !offered || i.CapacityType != karpv1.CapacityTypeOnDemand {
			s.t.Errorf("instance %s is not one of the options: %+v", i.ID, i)
		}
		s.checkInstance(i, "launch-a")
	}
	s.see(cloud.Selector{LaunchIDs: []string{"launch-b"}}, "the one of launch b", func(got []cloud.Instance) bool {
		return len(got) == 1 && got[0].ID == other[0]
	})
	s.see(cloud.Selector{}, "all instances", count(4))
	s.see(cloud.Selector{LaunchIDs: []string{"launch-c"}}, "none of an unknown launch", count(0))
}

func (s suite) checkInstance(i cloud.Instance, launch string) {
	if i.State != cloud.StatePending && i.State != cloud.StateRunning {
		s.t.Errorf("instance %s is %s", i.ID, i.State)
	}
	if i.ImageID == "" || i.PrivateDNSName == "" || i.PrivateIP == "" || i.ZoneID == "" || i.LaunchTime.IsZero() {
		s.t.Errorf("instance %s lacks something: %+v", i.ID, i)
	}
	if i.Tags[catalog.LaunchAnnotation] != launch || i.Tags[karpv1.NodePoolLabelKey] != "default" ||
		i.Tags[awsv1.NodeClassTagKey] != s.Class.Name {
		s.t.Errorf("instance %s has tags %v", i.ID, i.Tags)
	}
	if want := "aws:///" + i.Zone + "/" + i.ID; i.ProviderID() != want {
		s.t.Errorf("provider id %s, want %s", i.ProviderID(), want)
	}
}

func (s suite) testLaunchIsIdempotent() {
	s.resolve()
	options := s.options(karpv1.CapacityTypeSpot)
	first := s.launch("launch-a", 2, options)
	second := s.launch("launch-a", 2, options)
	slices.Sort(first)
	slices.Sort(second)
	same := slices.Equal(first, second)
	switch {
	case !same && s.lacks(ClientTokens):
		s.collect(first, second)
	case !same:
		s.t.Errorf("the same launch id gave %v, then %v", first, second)
	}
	s.see(cloud.Selector{}, "two live instances", live(2))
}

// collect terminates what a repeated call launched twice, as the launcher does once the second answer is recorded: the launch ID identifies
// the instances without a NodeClaim.
func (s suite) collect(first, second []string) {
	all := s.see(cloud.Selector{LaunchIDs: []string{"launch-a"}}, "all instances of the launch id", live(len(first)+len(second)))
	claims := claims(len(second))
	state := collect.State{Now: time.Now().Add(time.Hour), Instances: all}
	for i, c := range claims {
		c.Annotations = map[string]string{catalog.LaunchAnnotation: "launch-a"}
		for _, instance := range all {
			if instance.ID == second[i] {
				c.Status.ProviderID = instance.ProviderID()
			}
		}
		state.Claims = append(state.Claims, *c)
	}
	var garbage []string
	for _, i := range collect.Decide(state).Instances {
		garbage = append(garbage, i.ID)
	}
	slices.Sort(garbage)
	if !slices.Equal(garbage, first) {
		s.t.Errorf("garbage is %v, want what the first call launched: %v", garbage, first)
	}
	if err := s.Cloud.Terminate(s.t.Context(), garbage); err != nil {
		s.t.Error(err)
	}
}

func (s suite) testSpotFirst() {
	s.resolve()
	options := append(s.options(karpv1.CapacityTypeOnDemand)[:2], s.options(karpv1.CapacityTypeSpot)[:2]...)
	ids := s.launch("launch-a", 1, options)
	got := s.see(cloud.Selector{IDs: ids}, "the instance", count(1))
	if got[0].CapacityType != karpv1.CapacityTypeSpot {
		s.t.Errorf("got %s, want spot", got[0].CapacityType)
	}
}

func (s suite) testNoCapacity() {
	s.resolve()
	options := s.options(karpv1.CapacityTypeSpot)[:2]
	for _, o := range options {
		s.NoCapacity(o)
	}
	changed := s.Cloud.Changed()
	out, err := s.Cloud.Launch(s.t.Context(), s.input("launch-a", 1, options))
	if err != nil {
		s.t.Fatalf("Launch without capacity: %v, want failures, no error", err)
	}
	if len(out.InstanceIDs) != 0 || len(out.Failures) != 2 {
		s.t.Fatalf("got %+v, want two failures", out)
	}
	for _, failure := range out.Failures {
		if failure.Reason != "InsufficientInstanceCapacity" || failure.Message == "" || !slices.Contains(options, failure.Option) {
			s.t.Errorf("failure: %+v", failure)
		}
	}
	s.fired(changed)
	s.checkUnavailable(options)
}

// checkUnavailable expects these offerings, and no others, to be unavailable.
func (s suite) checkUnavailable(options []cloud.Option) {
	types, err := s.Cloud.InstanceTypes(s.t.Context(), s.Class)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, it := range types {
		for _, o := range it.Offerings {
			failed := slices.ContainsFunc(options, func(p cloud.Option) bool {
				return p.InstanceType == it.Name && p.Zone == o.Zone && p.CapacityType == o.CapacityType
			})
			refused := o.Refusal.Code == "InsufficientInstanceCapacity" && !o.Refusal.Since.IsZero() && o.Refusal.Attempts > 0
			if o.Available == failed || refused != failed || failed && !o.UnavailableUntil.After(time.Now()) {
				s.t.Errorf("%s: offering %+v, failed: %v", it.Name, o, failed)
			}
		}
	}
}

func (s suite) testNextOffering() {
	s.resolve()
	options := s.options(karpv1.CapacityTypeSpot)[:2]
	s.NoCapacity(options[0])
	ids := s.launch("launch-a", 1, options)
	got := s.see(cloud.Selector{IDs: ids}, "the instance", count(1))
	if got[0].InstanceType != options[1].InstanceType || got[0].Zone != options[1].Zone {
		s.t.Errorf("got %s in %s, want %+v", got[0].InstanceType, got[0].Zone, options[1])
	}
}

func (s suite) testTag() {
	s.resolve()
	ids := s.launch("launch-a", 1, s.options(karpv1.CapacityTypeOnDemand))
	s.see(cloud.Selector{IDs: ids}, "the instance", count(1))
	if err := s.Cloud.Tag(s.t.Context(), ids[0], map[string]string{"karpenter.sh/nodeclaim": "default-0", "Name": "n"}); err != nil {
		s.t.Fatal(err)
	}
	s.see(cloud.Selector{IDs: ids}, "the tags", func(got []cloud.Instance) bool {
		return len(got) == 1 && got[0].Tags["karpenter.sh/nodeclaim"] == "default-0" && got[0].Tags["Name"] == "n" &&
			got[0].Tags[catalog.LaunchAnnotation] == "launch-a"
	})
	err := s.Cloud.Tag(s.t.Context(), "i-0fffffffffffffff0", map[string]string{"a": "b"})
	if !cloud.IsNotFound(err) && (err != nil || !s.lacks(KnownResources)) {
		s.t.Errorf("an unknown instance: %v, want NotFoundError", err)
	}
}

func (s suite) testTerminate() {
	s.resolve()
	ids := s.launch("launch-a", 3, s.options(karpv1.CapacityTypeOnDemand))
	s.see(cloud.Selector{}, "the instances", count(3))
	// An ID that does not exist must not keep the others from being terminated.
	if err := s.Cloud.Terminate(s.t.Context(), []string{ids[0], "i-0fffffffffffffff0", ids[1]}); err != nil {
		s.t.Fatal(err)
	}
	s.see(cloud.Selector{IDs: ids}, "two to go and one to stay", func(got []cloud.Instance) bool {
		going := 0
		for _, i := range got {
			over := i.State == cloud.StateShuttingDown || i.State == cloud.StateTerminated
			if over && i.ID == ids[2] {
				s.t.Fatalf("instance %s was not to be terminated", i.ID)
			}
			if over {
				going++
			}
		}
		return going == 2 || len(got) == 1
	})
	if err := s.Cloud.Terminate(s.t.Context(), ids[:1]); err != nil {
		s.t.Errorf("terminating twice: %v", err)
	}
	if err := s.Cloud.Terminate(s.t.Context(), nil); err != nil {
		s.t.Errorf("terminating nothing: %v", err)
	}
}

func (s suite) testUnknownInstances() {
	s.resolve()
	ids := s.launch("launch-a", 1, s.options(karpv1.CapacityTypeOnDemand))
	s.see(cloud.Selector{IDs: append(ids, "i-0fffffffffffffff0")}, "the known one of two", count(1))
	s.see(cloud.Selector{IDs: []string{"i-0fffffffffffffff0"}}, "none", count(0))
	if err := s.Cloud.Terminate(s.t.Context(), []string{"i-0fffffffffffffff0"}); err != nil {
		s.t.Errorf("terminating an unknown instance: %v", err)
	}
}

func (s suite) testRelease() {
	s.resolve()
	ids := s.launch("launch-a", 1, s.options(karpv1.CapacityTypeOnDemand))
	if err := s.Cloud.Terminate(s.t.Context(), ids); err != nil {
		s.t.Fatal(err)
	}
	for range 2 {
		if err := s.Cloud.Release(s.t.Context(), s.Class); err != nil {
			s.t.Fatalf("Release: %v", err)
		}
	}
	// A class of the same name may be created again.
	s.resolve()
	s.launch("launch-b", 1, s.options(karpv1.CapacityTypeOnDemand))
}

func (s suite) testInterruptions() {
	s.Garble()
	s.Interrupt("i-0123456789abcdef0")
	var got []cloud.Message
	for deadline := time.Now().Add(s.Patience); len(got) < 2; {
		messages, err := s.Cloud.Receive(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		got = append(got, messages...)
		if time.Now().After(deadline) {
			s.t.Fatalf("received %+v, want two messages", got)
		}
	}
	bad, good := 0, 0
	for _, m := range got {
		switch {
		case m.Receipt == "":
			s.t.Errorf("no receipt: %+v", m)
		case m.Err != nil:
			bad++
		case m.Kind == cloud.SpotInterrupted && slices.Equal(m.InstanceIDs, []string{"i-0123456789abcdef0"}) && !m.Time.IsZero():
			good++
		}
		if err := s.Cloud.Delete(s.t.Context(), m.Receipt); err != nil {
			s.t.Errorf("Delete: %v", err)
		}
	}
	if bad != 1 || good != 1 {
		s.t.Errorf("got %+v, want one that cannot be read and one spot interruption", got)
	}
}

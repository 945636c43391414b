package cloudtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func testResolve(t *testing.T, f Fixture) {
	f.resolve(t)
	status := f.Class.Status
	zones := map[string]bool{}
	for _, s := range status.Subnets {
		zones[s.Zone] = true
		if s.ID == "" || s.Zone == "" || s.ZoneID == "" {
			t.Errorf("subnet without id, zone or zone id: %+v", s)
		}
	}
	if len(zones) < 2 {
		t.Errorf("subnets in %d zones, want two at least: %+v", len(zones), status.Subnets)
	}
	if len(status.SecurityGroups) == 0 || len(status.AMIs) == 0 || status.InstanceProfile == "" {
		t.Errorf("not resolved: %+v", status)
	}
	for _, want := range []string{
		awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeAMIsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeValidationSucceeded,
	} {
		if !f.Class.StatusConditions().IsTrue(want) {
			t.Errorf("condition %s: %+v, want True", want, f.Class.StatusConditions().Get(want))
		}
	}
	// Twice the same: what changes nothing must not be written again and again.
	again, err := f.Cloud.Resolve(t.Context(), f.Class)
	if err != nil || again.InstanceProfile != status.InstanceProfile || len(again.Subnets) != len(status.Subnets) {
		t.Errorf("the second Resolve differs: %+v, %v", again, err)
	}
}

func testInstanceTypes(t *testing.T, f Fixture) {
	f.resolve(t)
	types, err := f.Cloud.InstanceTypes(t.Context(), f.Class)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(types, func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted by name")
	}
	zones := map[string]string{}
	for _, s := range f.Class.Status.Subnets {
		zones[s.Zone] = s.ZoneID
	}
	for _, it := range types {
		if it.Labels[corev1.LabelInstanceTypeStable] != it.Name || it.Labels[corev1.LabelArchStable] == "" {
			t.Errorf("%s: labels %v", it.Name, it.Labels)
		}
		for name, q := range it.Allocatable {
			capacity := it.Capacity[name]
			if q.Cmp(capacity) > 0 {
				t.Errorf("%s: %s allocatable %s of %s", it.Name, name, q.String(), capacity.String())
			}
		}
		if it.Allocatable.Cpu().IsZero() || it.Allocatable.Memory().IsZero() || it.Allocatable.Pods().IsZero() {
			t.Errorf("%s: nothing allocatable: %v", it.Name, it.Allocatable)
		}
		for _, o := range it.Offerings {
			if id, ok := zones[o.Zone]; !ok || id != o.ZoneID || o.Price <= 0 || !o.Available || !o.UnavailableUntil.IsZero() {
				t.Errorf("%s: offering %+v, with subnets in %v", it.Name, o, zones)
			}
		}
	}
}

func testLaunch(t *testing.T, f Fixture) {
	f.resolve(t)
	options := f.options(t, karpv1.CapacityTypeOnDemand)
	ids := f.launch(t, "launch-a", 3, options)
	other := f.launch(t, "launch-b", 1, options)
	got := f.see(t, cloud.Selector{IDs: ids}, "the three instances", count(3))
	for _, i := range got {
		offered := slices.ContainsFunc(options, func(o cloud.Option) bool {
			return o.InstanceType == i.InstanceType && o.Zone == i.Zone
		})
		if !offered || i.CapacityType != karpv1.CapacityTypeOnDemand {
			t.Errorf("instance %s is none of the options: %+v", i.ID, i)
		}
		if i.State != cloud.StatePending && i.State != cloud.StateRunning {
			t.Errorf("instance %s is %s", i.ID, i.State)
		}
		if i.ImageID == "" || i.PrivateDNSName == "" || i.PrivateIP == "" || i.ZoneID == "" || i.LaunchTime.IsZero() {
			t.Errorf("instance %s lacks something: %+v", i.ID, i)
		}
		if i.Tags[catalog.LaunchAnnotation] != "launch-a" || i.Tags[karpv1.NodePoolLabelKey] != "default" ||
			i.Tags[awsv1.NodeClassTagKey] != f.Class.Name {
			t.Errorf("instance %s has tags %v", i.ID, i.Tags)
		}
		if want := "aws:///" + i.Zone + "/" + i.ID; i.ProviderID() != want {
			t.Errorf("provider id %s, want %s", i.ProviderID(), want)
		}
	}
	f.see(t, cloud.Selector{LaunchIDs: []string{"launch-b"}}, "the one of launch b", func(got []cloud.Instance) bool {
		return len(got) == 1 && got[0].ID == other[0]
	})
	f.see(t, cloud.Selector{}, "all instances", count(4))
	f.see(t, cloud.Selector{LaunchIDs: []string{"launch-c"}}, "none of an unknown launch", count(0))
}

func testLaunchIsIdempotent(t *testing.T, f Fixture) {
	f.resolve(t)
	options := f.options(t, karpv1.CapacityTypeSpot)
	first := f.launch(t, "launch-a", 2, options)
	second := f.launch(t, "launch-a", 2, options)
	slices.Sort(first)
	slices.Sort(second)
	if !slices.Equal(first, second) {
		t.Errorf("the same launch id gave %v, then %v", first, second)
	}
	f.see(t, cloud.Selector{}, "two instances", count(2))
}

func testSpotFirst(t *testing.T, f Fixture) {
	f.resolve(t)
	options := append(f.options(t, karpv1.CapacityTypeOnDemand)[:2], f.options(t, karpv1.CapacityTypeSpot)[:2]...)
	ids := f.launch(t, "launch-a", 1, options)
	got := f.see(t, cloud.Selector{IDs: ids}, "the instance", count(1))
	if got[0].CapacityType != karpv1.CapacityTypeSpot {
		t.Errorf("got %s, want spot", got[0].CapacityType)
	}
}

func testNoCapacity(t *testing.T, f Fixture) {
	f.resolve(t)
	options := f.options(t, karpv1.CapacityTypeSpot)[:2]
	for _, o := range options {
		f.NoCapacity(o)
	}
	changed := f.Cloud.Changed()
	out, err := f.Cloud.Launch(t.Context(), f.input("launch-a", 1, options))
	if err != nil {
		t.Fatalf("Launch without capacity: %v, want failures, no error", err)
	}
	if len(out.InstanceIDs) != 0 || len(out.Failures) != 2 {
		t.Fatalf("got %+v, want two failures", out)
	}
	for _, failure := range out.Failures {
		if failure.Reason != "InsufficientInstanceCapacity" || failure.Message == "" || !slices.Contains(options, failure.Option) {
			t.Errorf("failure: %+v", failure)
		}
	}
	fired(t, changed, f.Patience)
	types, err := f.Cloud.InstanceTypes(t.Context(), f.Class)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range types {
		for _, o := range it.Offerings {
			failed := slices.ContainsFunc(options, func(p cloud.Option) bool {
				return p.InstanceType == it.Name && p.Zone == o.Zone && p.CapacityType == o.CapacityType
			})
			if o.Available == failed || failed && !o.UnavailableUntil.After(time.Now()) {
				t.Errorf("%s: offering %+v, failed: %v", it.Name, o, failed)
			}
		}
	}
}

func testNextOffering(t *testing.T, f Fixture) {
	f.resolve(t)
	options := f.options(t, karpv1.CapacityTypeSpot)[:2]
	f.NoCapacity(options[0])
	ids := f.launch(t, "launch-a", 1, options)
	got := f.see(t, cloud.Selector{IDs: ids}, "the instance", count(1))
	if got[0].InstanceType != options[1].InstanceType || got[0].Zone != options[1].Zone {
		t.Errorf("got %s in %s, want %+v", got[0].InstanceType, got[0].Zone, options[1])
	}
}

func testTag(t *testing.T, f Fixture) {
	f.resolve(t)
	ids := f.launch(t, "launch-a", 1, f.options(t, karpv1.CapacityTypeOnDemand))
	f.see(t, cloud.Selector{IDs: ids}, "the instance", count(1))
	if err := f.Cloud.Tag(t.Context(), ids[0], map[string]string{"karpenter.sh/nodeclaim": "default-0", "Name": "n"}); err != nil {
		t.Fatal(err)
	}
	f.see(t, cloud.Selector{IDs: ids}, "the tags", func(got []cloud.Instance) bool {
		return len(got) == 1 && got[0].Tags["karpenter.sh/nodeclaim"] == "default-0" && got[0].Tags["Name"] == "n" &&
			got[0].Tags[catalog.LaunchAnnotation] == "launch-a"
	})
	if err := f.Cloud.Tag(t.Context(), "i-0fffffffffffffff0", map[string]string{"a": "b"}); !cloud.IsNotFound(err) {
		t.Errorf("an unknown instance: %v, want NotFoundError", err)
	}
}

func testTerminate(t *testing.T, f Fixture) {
	f.resolve(t)
	ids := f.launch(t, "launch-a", 3, f.options(t, karpv1.CapacityTypeOnDemand))
	f.see(t, cloud.Selector{}, "the instances", count(3))
	// An id that EC2 does not know must not keep the others alive.
	if err := f.Cloud.Terminate(t.Context(), []string{ids[0], "i-0fffffffffffffff0", ids[1]}); err != nil {
		t.Fatal(err)
	}
	f.see(t, cloud.Selector{IDs: ids}, "two to go and one to stay", func(got []cloud.Instance) bool {
		going := 0
		for _, i := range got {
			over := i.State == cloud.StateShuttingDown || i.State == cloud.StateTerminated
			if over && i.ID == ids[2] {
				t.Fatalf("instance %s was not to be terminated", i.ID)
			}
			if over {
				going++
			}
		}
		return going == 2 || len(got) == 1
	})
	if err := f.Cloud.Terminate(t.Context(), ids[:1]); err != nil {
		t.Errorf("terminating twice: %v", err)
	}
	if err := f.Cloud.Terminate(t.Context(), nil); err != nil {
		t.Errorf("terminating nothing: %v", err)
	}
}

func testUnknownInstances(t *testing.T, f Fixture) {
	f.resolve(t)
	ids := f.launch(t, "launch-a", 1, f.options(t, karpv1.CapacityTypeOnDemand))
	f.see(t, cloud.Selector{IDs: append(ids, "i-0fffffffffffffff0")}, "the known one of two", count(1))
	f.see(t, cloud.Selector{IDs: []string{"i-0fffffffffffffff0"}}, "none", count(0))
	if err := f.Cloud.Terminate(t.Context(), []string{"i-0fffffffffffffff0"}); err != nil {
		t.Errorf("terminating an unknown instance: %v", err)
	}
}

func testRelease(t *testing.T, f Fixture) {
	f.resolve(t)
	ids := f.launch(t, "launch-a", 1, f.options(t, karpv1.CapacityTypeOnDemand))
	if err := f.Cloud.Terminate(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Cloud.Release(t.Context(), f.Class); err != nil {
			t.Fatalf("Release: %v", err)
		}
	}
	// A class of the same name may come again.
	f.resolve(t)
	f.launch(t, "launch-b", 1, f.options(t, karpv1.CapacityTypeOnDemand))
}

func testInterruptions(t *testing.T, f Fixture) {
	f.Garble()
	f.Interrupt("i-0123456789abcdef0")
	var got []cloud.Message
	for deadline := time.Now().Add(f.Patience); len(got) < 2; {
		messages, err := f.Cloud.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, messages...)
		if time.Now().After(deadline) {
			t.Fatalf("received %+v, want two messages", got)
		}
	}
	bad, good := 0, 0
	for _, m := range got {
		switch {
		case m.Receipt == "":
			t.Errorf("no receipt: %+v", m)
		case m.Err != nil:
			bad++
		case m.Kind == cloud.SpotInterrupted && slices.Equal(m.InstanceIDs, []string{"i-0123456789abcdef0"}) && !m.Time.IsZero():
			good++
		}
		if err := f.Cloud.Delete(t.Context(), m.Receipt); err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	if bad != 1 || good != 1 {
		t.Errorf("got %+v, want one that cannot be read and one spot interruption", got)
	}
}

// Package cloudtest is the contract of cloud.Cloud as tests. Every implementation runs all of it: the in-memory cloud that the launcher's
// tests use, and launcher/aws against an AWS endpoint. The launcher may rely on what it asserts.
package cloudtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// Fixture is one cloud without instances, and the functions with which a test controls it.
type Fixture struct {
	// Cloud under test.
	Cloud cloud.Cloud
	// Class is a class that resolves: AL2023, a subnet in each of at least two zones, and instance types with spot and on-demand offerings
	// in these zones.
	Class *awsv1.EC2NodeClass
	// NoCapacity makes the matching offerings fail with InsufficientInstanceCapacity; an empty field matches any value. If it is nil, as for
	// a cloud outside the test's control, the parts that need it are left out.
	NoCapacity func(cloud.Option)
	// Interrupt sends the spot interruption warning for an instance to the interruption queue.
	Interrupt func(instanceID string)
	// Garble sends a message that cannot be parsed.
	Garble func()
	// Impair gives a running instance an impaired status. If it is nil, the part that needs it is left out.
	Impair func(cloud.InstanceStatus)
	// Patience is the longest delay of EC2's eventual consistency in this cloud, on a machine under any load; zero means two minutes.
	Patience time.Duration
	// Lacks reports whether the cloud, which is outside the test's control, was observed not to implement a feature of EC2: the contract
	// then tests the rest. Nil means that it lacks nothing.
	Lacks func(Feature) bool
}

// Feature is a behavior of EC2 that a stand-in may lack.
type Feature string

// The features that a cloud may lack.
const (
	// ClientTokens means that a call repeated with its client token launches no further instance.
	ClientTokens Feature = "client tokens"
	// KnownResources means that tags of an instance that does not exist are rejected.
	KnownResources Feature = "refusing to tag what does not exist"
)

// lacks reports whether the cloud lacks a feature, and logs it if so.
func (s suite) lacks(f Feature) bool {
	s.t.Helper()
	if s.Lacks == nil || !s.Lacks(f) {
		return false
	}
	s.t.Logf("this AWS lacks a feature of EC2: %s. The rest of the contract is tested.", f)
	return true
}

// Run runs the contract, each part on a new fixture.
func Run(t *testing.T, newFixture func(t *testing.T) Fixture) {
	t.Helper()
	for _, part := range []struct {
		name string
		test func(suite)
	}{
		{"Resolve", suite.testResolve},
		{"InstanceTypes", suite.testInstanceTypes},
		{"Launch", suite.testLaunch},
		{"LaunchIsIdempotent", suite.testLaunchIsIdempotent},
		{"SpotFirst", suite.testSpotFirst},
		{"NoCapacity", suite.testNoCapacity},
		{"NextOffering", suite.testNextOffering},
		{"Tag", suite.testTag},
		{"Terminate", suite.testTerminate},
		{"UnknownInstances", suite.testUnknownInstances},
		{"StopAndStart", suite.testStopAndStart},
		{"StartWithoutCapacity", suite.testStartWithoutCapacity},
		{"Interruptions", suite.testInterruptions},
		{"Impaired", suite.testImpaired},
		{"Canceled", suite.testCanceled},
		{"Release", suite.testRelease},
	} {
		t.Run(part.name, func(t *testing.T) {
			f := newFixture(t)
			if f.NoCapacity == nil && slices.Contains([]string{"NoCapacity", "NextOffering", "StartWithoutCapacity"}, part.name) {
				t.Skip("the capacity of this cloud cannot be limited")
			}
			if f.Impair == nil && part.name == "Impaired" {
				t.Skip("the instances of this cloud cannot be impaired")
			}
			if f.Patience == 0 {
				f.Patience = 2 * time.Minute
			}
			refresh(t, f.Cloud)
			part.test(suite{Fixture: f, t: t})
		})
	}
}

// refresh keeps the caches of a cloud up to date until the test ends, as the launcher does.
func refresh(t *testing.T, c cloud.Cloud) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Refresh(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("Refresh: %v", err)
		}
	})
}

// suite is one part of the contract with its fixture.
type suite struct {
	Fixture
	t *testing.T
}

// resolve writes the class's status as the launcher would.
func (s suite) resolve() {
	s.t.Helper()
	status, err := s.Cloud.Resolve(s.t.Context(), s.Class)
	if err != nil {
		s.t.Fatalf("Resolve: %v", err)
	}
	s.Class.Status = status
}

// options lists what the class can launch of one capacity type, cheapest first. A cloud has no offerings whose prices it could not read yet: options
// waits until there are two.
func (s suite) options(capacityType string) []cloud.Option {
	s.t.Helper()
	for deadline := time.Now().Add(s.Patience); ; time.Sleep(20 * time.Millisecond) {
		types, err := s.Cloud.InstanceTypes(s.t.Context(), s.Class)
		if err != nil {
			s.t.Fatalf("InstanceTypes: %v", err)
		}
		// A claim has at most 60.
		if out := optionsOf(types, capacityType); len(out) >= 2 {
			return out[:min(len(out), 60)]
		} else if time.Now().After(deadline) {
			s.t.Fatalf("the class has %d %s offerings, the contract needs two", len(out), capacityType)
		}
	}
}

// optionsOf lists the offerings of one capacity type, cheapest first.
func optionsOf(types []catalog.InstanceType, capacityType string) []cloud.Option {
	var out []cloud.Option
	for _, it := range types {
		pods := it.Allocatable.Pods().Value()
		for _, o := range it.Offerings {
			if o.CapacityType == capacityType {
				out = append(out, cloud.Option{
					InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, MaxPods: pods,
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b cloud.Option) int { return cmp.Compare(a.Price, b.Price) })
	return out
}

// claims returns n equal claims.
func claims(n int) []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for i := range n {
		out = append(out, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("default-%d", i), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
		}})
	}
	return out
}

func (s suite) input(id string, n int, options []cloud.Option) cloud.LaunchInput {
	return cloud.LaunchInput{
		LaunchID: id, Class: s.Class, Claims: claims(n), Options: options,
		Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
		Taints: []cloud.Taint{{Key: catalog.StartingTaintKey, Effect: "NoSchedule"}},
	}
}

// launch launches n instances and fails the test if fewer are launched.
func (s suite) launch(id string, n int, options []cloud.Option) []string {
	s.t.Helper()
	out, err := s.Cloud.Launch(s.t.Context(), s.input(id, n, options))
	if err != nil {
		s.t.Fatalf("Launch: %v", err)
	}
	if len(out.InstanceIDs) != n {
		s.t.Fatalf("launched %d instances, want %d; failures: %+v", len(out.InstanceIDs), n, out.Failures)
	}
	return out.InstanceIDs
}

// see waits until a selection returns what the test expects.
func (s suite) see(sel cloud.Selector, what string, ok func([]cloud.Instance) bool) []cloud.Instance {
	s.t.Helper()
	deadline := time.Now().Add(s.Patience)
	for {
		got, err := s.Cloud.Instances(s.t.Context(), sel)
		if err != nil {
			s.t.Fatalf("Instances: %v", err)
		}
		if ok(got) {
			return got
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("waited %s for %s, got %+v", s.Patience, what, got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func count(n int) func([]cloud.Instance) bool {
	return func(got []cloud.Instance) bool { return len(got) == n }
}

// live expects n instances that are neither shutting down nor terminated.
func live(n int) func([]cloud.Instance) bool {
	return func(got []cloud.Instance) bool {
		going := 0
		for _, i := range got {
			if i.State == cloud.StateShuttingDown || i.State == cloud.StateTerminated {
				going++
			}
		}
		return len(got)-going == n
	}
}

func (s suite) fired(ch <-chan struct{}) {
	s.t.Helper()
	select {
	case <-ch:
	case <-time.After(s.Patience):
		s.t.Error("Changed was not closed")
	}
}

func (s suite) testCanceled() {
	s.resolve()
	options := s.options(karpv1.CapacityTypeSpot)
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	if _, err := s.Cloud.Launch(ctx, s.input("canceled", 1, options)); err == nil {
		s.t.Error("Launch with a canceled context succeeded")
	}
	if _, err := s.Cloud.Instances(ctx, cloud.Selector{}); err == nil {
		s.t.Error("Instances with a canceled context succeeded")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Cloud.Refresh(ctx)
		_, _ = s.Cloud.Receive(ctx)
	}()
	select {
	case <-done:
	case <-time.After(s.Patience):
		s.t.Fatal("Refresh or Receive did not end with its context")
	}
}

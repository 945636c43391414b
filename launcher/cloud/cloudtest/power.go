package cloudtest

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// inState waits until all instances are in a state, and returns them.
func (s suite) inState(ids []string, state cloud.InstanceState) []cloud.Instance {
	s.t.Helper()
	return s.see(cloud.Selector{IDs: ids}, "the instances to be "+string(state), func(got []cloud.Instance) bool {
		n := 0
		for _, i := range got {
			if i.State == state {
				n++
			}
		}
		return n == len(ids)
	})
}

// powered repeats a call as long as EC2 says that an instance is on its way to another state.
func (s suite) powered(call func() map[string]error) map[string]error {
	s.t.Helper()
	for deadline := time.Now().Add(s.Patience); ; time.Sleep(10 * time.Millisecond) {
		refused, passing := call(), false
		for _, err := range refused {
			p, ok := cloud.AsPower(err)
			passing = passing || ok && p.Cause.Passing()
		}
		if !passing || time.Now().After(deadline) {
			return refused
		}
	}
}

// checkNotHibernated checks that instances which were launched without hibernation are refused it.
func checkNotHibernated(s suite, ids []string) {
	s.t.Helper()
	refused := s.Cloud.StopInstances(s.t.Context(), ids, true)
	for _, id := range ids {
		if p, ok := cloud.AsPower(refused[id]); !ok || p.Cause != cloud.CauseInvalid || p.Code != "UnsupportedHibernationConfiguration" {
			s.t.Errorf("hibernating instance %s, which was launched without it: %v", id, refused[id])
		}
	}
}

// testStopAndStart checks that no instance is hibernated that was not launched for it, that an instance keeps its name through a stop, that both calls may be repeated, and that one instance which does not exist
// keeps no other from it.
func (s suite) testStopAndStart() {
	const unknown = "i-0fffffffffffffff0"
	s.resolve()
	ids := s.launch("launch-a", 2, s.options(karpv1.CapacityTypeOnDemand))
	before := s.inState(ids, cloud.StateRunning)
	checkNotHibernated(s, ids)
	for range 2 {
		refused := s.Cloud.StopInstances(s.t.Context(), []string{ids[0], unknown, ids[1]}, false)
		if len(refused) != 1 || !cloud.IsNotFound(refused[unknown]) {
			s.t.Fatalf("stopping two instances and an unknown one: %v", refused)
		}
	}
	asleep := s.inState(ids, cloud.StateStopped)
	for range 2 {
		refused := s.powered(func() map[string]error {
			return s.Cloud.StartInstances(s.t.Context(), append([]cloud.Instance{{ID: unknown}}, asleep...))
		})
		if len(refused) != 1 || !cloud.IsNotFound(refused[unknown]) {
			s.t.Fatalf("starting two instances and an unknown one: %v", refused)
		}
	}
	for n, i := range s.inState(ids, cloud.StateRunning) {
		if i.PrivateDNSName != before[n].PrivateDNSName || i.PrivateIP != before[n].PrivateIP || i.PrivateDNSName != asleep[n].PrivateDNSName {
			s.t.Errorf("before the stop %+v, after the start %+v", before[n], i)
		}
	}
	if refused := s.Cloud.StopInstances(s.t.Context(), nil, false); len(refused) > 0 {
		s.t.Errorf("stopping nothing: %v", refused)
	}
	spot := s.launch("launch-b", 1, s.options(karpv1.CapacityTypeSpot))
	s.inState(spot, cloud.StateRunning)
	refused := s.Cloud.StopInstances(s.t.Context(), spot, false)
	if p, ok := cloud.AsPower(refused[spot[0]]); !ok || p.Cause != cloud.CauseInvalid {
		s.t.Errorf("stopping a spot instance: %v", refused)
	}
}

// testStartWithoutCapacity checks that an instance stays stopped where EC2 has no capacity, that the error differs from all others, and that
// the offering is unavailable afterwards.
func (s suite) testStartWithoutCapacity() {
	s.resolve()
	ids := s.launch("launch-a", 1, s.options(karpv1.CapacityTypeOnDemand))
	s.inState(ids, cloud.StateRunning)
	if refused := s.Cloud.StopInstances(s.t.Context(), ids, false); len(refused) > 0 {
		s.t.Fatal(refused)
	}
	asleep := s.inState(ids, cloud.StateStopped)
	changed := s.Cloud.Changed()
	s.NoCapacity(cloud.Option{InstanceType: asleep[0].InstanceType, Zone: asleep[0].Zone, CapacityType: asleep[0].CapacityType})
	refused := s.powered(func() map[string]error { return s.Cloud.StartInstances(s.t.Context(), asleep) })
	p, ok := cloud.AsPower(refused[ids[0]])
	if !ok || p.Cause != cloud.CauseCapacity || p.Reason == "" || p.Message == "" {
		s.t.Fatalf("starting without capacity: %v", refused)
	}
	s.fired(changed)
	s.inState(ids, cloud.StateStopped)
	s.checkUnavailable([]cloud.Option{{InstanceType: asleep[0].InstanceType, Zone: asleep[0].Zone, CapacityType: asleep[0].CapacityType}})
}

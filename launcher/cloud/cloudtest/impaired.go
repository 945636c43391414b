package cloudtest

import (
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// testImpaired checks that each impaired instance is listed once with its fault, and that no healthy one is listed.
func (s suite) testImpaired() {
	s.resolve()
	ids := s.launch("launch-a", 4, s.options(karpv1.CapacityTypeOnDemand))
	s.see(cloud.Selector{IDs: ids}, "the instances to run", func(got []cloud.Instance) bool {
		return len(got) == 4 && !slices.ContainsFunc(got, func(i cloud.Instance) bool { return i.State != cloud.StateRunning })
	})
	if got, err := s.Cloud.Impaired(s.t.Context()); err != nil || len(got) != 0 {
		s.t.Errorf("all are well, but the answer is %+v, %v", got, err)
	}
	since := time.Now().Add(-5 * time.Minute).Truncate(time.Second)
	event := cloud.ScheduledEvent{Code: "instance-retirement", Description: "The instance is running on degraded hardware"}
	s.Impair(cloud.InstanceStatus{ID: ids[0], SystemImpaired: since})
	s.Impair(cloud.InstanceStatus{ID: ids[1], InstanceImpaired: since, Events: []cloud.ScheduledEvent{event}})
	s.Impair(cloud.InstanceStatus{ID: ids[2], Events: []cloud.ScheduledEvent{event}})
	got, err := s.Cloud.Impaired(s.t.Context())
	if err != nil || len(got) != 3 {
		s.t.Fatalf("three of four are not well, but the answer is %+v, %v", got, err)
	}
	for _, status := range got {
		system, own, events := status.SystemImpaired.Equal(since), status.InstanceImpaired.Equal(since), len(status.Events) == 1
		at := slices.Index(ids, status.ID)
		if system != (at == 0) || own != (at == 1) || events != (at > 0) {
			s.t.Errorf("instance %d of the four is listed as %+v", at, status)
		}
		for _, e := range status.Events {
			if e.Code != event.Code || e.Description != event.Description {
				s.t.Errorf("the event of %s is listed as %+v", status.ID, e)
			}
		}
	}
}

package launch_test

import (
	"strings"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// While a transient cause lasts, the claim reports it, once; then the claim is launched.
func TestTransientCauseIsReported(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		throttled := &cloud.LaunchError{Class: "default", Cause: cloud.CauseThrottled, Reason: "RequestLimitExceeded", Message: "EC2 throttles"}
		w.ec2.Fail(memory.Launch, throttled, throttled, throttled)
		w.record("default-a")
		w.settle(300 * time.Millisecond)
		c := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched)
		if !c.IsUnknown() || c.Reason != "RequestLimitExceeded" || c.Message != "EC2 throttles" {
			t.Errorf("condition %+v", c)
		}
		w.settle(time.Minute)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		if len(w.events) != 1 || w.events[0] != "default-a Warning RequestLimitExceeded: EC2 throttles" {
			t.Errorf("events %v", w.events)
		}
		if c := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched); !c.IsTrue() {
			t.Errorf("condition %+v", c)
		}
		if n := w.attempts(); n != 1 {
			t.Errorf("%d ids: %v", n, w.tokens)
		}
		w.owners()
	})
}

// A transient failure does not exclude its offering: the next attempt, which needs a new ID, requests it again.
func TestPassingFailureOfAnOffering(t *testing.T) {
	inWorld(t, memory.Config{Types: []catalog.InstanceType{instanceType("m7g.large", 0.08)}}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 0)
		w.answer = func(call int, out cloud.LaunchOutput) cloud.LaunchOutput {
			if call > 1 {
				return out
			}
			w.ec2.ClearCapacity(memory.Offering{})
			for _, f := range out.Failures {
				w.ec2.ClearCapacity(memory.Offering{InstanceType: "m7g.large", Zone: f.Option.Zone, CapacityType: "on-demand"})
			}
			for i := range out.Failures {
				out.Failures[i].Reason, out.Failures[i].Cause, out.Failures[i].Condition = "InvalidLaunchTemplateId.NotFound", cloud.CauseTemplateGone, "LaunchTemplateNotFound"
			}
			return out
		}
		w.record("default-a")
		w.settle(10 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		if n := w.attempts(); n != 2 {
			t.Errorf("%d ids: %v", n, w.tokens)
		}
		w.owners()
	})
}

// A failure that an administrator must fix ends the claims at once, with the matching reason.
func TestUnauthorized(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.Fail(memory.Launch, &cloud.NodeClassError{
			Class: "default", Cause: cloud.CauseUnauthorized, Reason: "Unauthorized", Message: "the launcher's IAM role may not do ec2:CreateFleet",
		})
		w.record("default-a")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going"})
		c := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched)
		if !c.IsFalse() || c.Reason != "Unauthorized" || !strings.Contains(c.Message, "ec2:CreateFleet") {
			t.Errorf("condition %+v", c)
		}
		if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "default-a Warning Unauthorized: ") {
			t.Errorf("events %v", w.events)
		}
	})
}

// A quota that fails all offerings is the reason, with Karpenter's Event.
func TestQuota(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 0)
		w.answer = func(_ int, out cloud.LaunchOutput) cloud.LaunchOutput {
			for i := range out.Failures {
				out.Failures[i].Reason, out.Failures[i].Cause, out.Failures[i].Condition = "VcpuLimitExceeded", cloud.CauseQuota, "VCPULimitExceeded"
			}
			return out
		}
		w.record("default-a")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going"})
		if c := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched); !c.IsFalse() || c.Reason != "VCPULimitExceeded" {
			t.Errorf("condition %+v", c)
		}
		if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "default-a Warning InsufficientCapacityError: ") {
			t.Errorf("events %v", w.events)
		}
	})
}

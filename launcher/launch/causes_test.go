package launch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// While a transient cause lasts, the claim says so with the code, since when and which attempt, in few Events; then the claim is launched.
func TestTransientCauseIsReported(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		throttled := &cloud.LaunchError{
			Class: "default", Cause: cloud.CauseThrottled, Code: ec2error.RequestLimitExceeded, Reason: "RequestLimitExceeded", Message: "EC2 throttles",
		}
		for range 20 {
			w.ec2.Fail(memory.Launch, throttled)
		}
		w.record("default-a")
		begin := ec2error.Clock(time.Now())
		launched := func() *status.Condition { return w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched) }
		w.settle(100 * time.Millisecond)
		want := "RequestLimitExceeded from EC2 since " + begin + ", attempt 1: EC2 throttles. What to do: find what else calls EC2"
		if c := launched(); !c.IsUnknown() || c.Reason != ec2error.ReasonLaunchPending || !strings.HasPrefix(c.Message, want) {
			t.Errorf("condition %+v", c)
		}
		w.settle(time.Minute)
		if c := launched(); !c.IsUnknown() || !strings.Contains(c.Message, "since "+begin+", attempt ") || strings.Contains(c.Message, "attempt 1:") {
			t.Errorf("a minute later: condition %+v", c)
		}
		if got := w.metric("slipway_launches_waiting", "RequestLimitExceeded"); got != 1 {
			t.Errorf("%v claims wait", got)
		}
		w.settle(3 * time.Minute)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		if got := w.written(); len(got) != 1 || !strings.HasPrefix(got[0], "default-a Warning LaunchPending: "+want) {
			t.Errorf("events %v", got)
		}
		if c := launched(); !c.IsTrue() {
			t.Errorf("condition %+v", c)
		}
		for name, want := range map[string]float64{"slipway_launches_waiting": 0, "slipway_launch_errors_total": 20, "slipway_launch_refusals_total": 0} {
			if got := w.metric(name, "RequestLimitExceeded"); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if n := w.attempts(); n != 1 {
			t.Errorf("%d ids: %v", n, w.tokens)
		}
		w.owners()
	})
}

// A replica that leads no more shows no waiting claims, and none of before when it leads again.
func TestWaitingEndsWithLeadership(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		waiting := func(when string, want float64) {
			t.Helper()
			if got := w.metric("slipway_launches_waiting", "RequestLimitExceeded"); got != want {
				t.Errorf("%s: %v claims wait, want %v", when, got, want)
			}
		}
		throttled := &cloud.LaunchError{Class: "default", Cause: cloud.CauseThrottled, Code: ec2error.RequestLimitExceeded, Message: "EC2 throttles"}
		for range 20 {
			w.ec2.Fail(memory.Launch, throttled)
		}
		w.record("default-a")
		w.settle(time.Minute)
		waiting("leading", 1)
		w.lead(false)
		waiting("not leading", 0)
		w.settle(time.Minute)
		w.lead(true)
		waiting("before an answer of EC2", 0)
		w.settle(time.Hour)
		waiting("the claim has ended", 0)
	})
}

// Causes that alternate do not write an Event each time.
func TestEventsOfAWaitingClaimAreBounded(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		for _, code := range []ec2error.Code{"InternalError", "RequestLimitExceeded", "InternalError", "RequestLimitExceeded", "InternalError", "RequestLimitExceeded", "InternalError"} {
			w.ec2.Fail(memory.Launch, &cloud.LaunchError{Class: "default", Cause: cloud.CauseTransient, Code: code, Message: "no"})
		}
		w.record("default-a")
		w.settle(2 * time.Minute)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		if got := w.written(); len(got) != 5 {
			t.Errorf("%d events: %v", len(got), got)
		}
		if got := w.metric("slipway_launch_errors_total", "InternalError"); got != 4 {
			t.Errorf("%v errors with the code InternalError", got)
		}
	})
}

// A call that gets no answer at all is reported while it lasts.
func TestSilenceIsReported(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("before", func(what string) error {
			if what == "launch" {
				time.Sleep(time.Minute)
			}
			return nil
		})
		w.record("default-a")
		begin := ec2error.Clock(time.Now())
		w.settle(39 * time.Second)
		if got := w.written(); len(got) != 0 {
			t.Errorf("events %v", got)
		}
		w.settle(2 * time.Second)
		c := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched)
		if !c.IsUnknown() || c.Reason != ec2error.ReasonLaunchPending || !strings.HasPrefix(c.Message, "NoAnswer from EC2 since "+begin) {
			t.Errorf("condition %+v", c)
		}
		w.settle(time.Minute)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		if got := w.written(); len(got) != 1 {
			t.Errorf("events %v", got)
		}
		w.owners()
	})
}

// Offerings that EC2 refused a moment ago are not tried again: the next claim says why, with the code, instead of "no capacity".
func TestRefusedOfferingsAreExplained(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 0)
		w.record("default-a")
		w.settle(time.Second)
		w.record("default-b")
		w.settle(time.Second)
		if len(w.failed) != 2 || !strings.HasPrefix(w.failed[1], "default-b InsufficientCapacity: EC2 launched no instance: InsufficientInstanceCapacity in 4 of 4 offerings") {
			t.Errorf("failures %q", w.failed)
		}
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
		failed, refused := w.metric("slipway_launch_errors_total", "InvalidLaunchTemplateId.NotFound"), w.metric("slipway_launch_refusals_total", "InvalidLaunchTemplateId.NotFound")
		if failed != 1 || refused != 0 {
			t.Errorf("%v errors and %v refusals, want one error", failed, refused)
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
		if got := w.written(); len(got) != 1 || !strings.HasPrefix(got[0], "default-a Warning Unauthorized: ") {
			t.Errorf("events %v", got)
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
		if got := w.written(); len(got) != 1 || !strings.HasPrefix(got[0], "default-a Warning InsufficientCapacityError: ") {
			t.Errorf("events %v", got)
		}
	})
}

// EC2 refuses one type by name: the call's other types are asked for. Where it refuses all, the claims have a reason that is the offerings' own.
func TestRefusedTypes(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		denied := []string{"m7g.large"}
		w.ec2.SetCapacity(memory.Offering{InstanceType: "m7g.large"}, 0)
		w.answer = func(_ int, out cloud.LaunchOutput) cloud.LaunchOutput {
			out.Failures = slices.DeleteFunc(out.Failures, func(f cloud.OfferingFailure) bool { return !slices.Contains(denied, f.Option.InstanceType) })
			for i := range out.Failures {
				out.Failures[i].Reason, out.Failures[i].Cause, out.Failures[i].Condition = ec2error.UnauthorizedOperation, cloud.CauseUnauthorized, ec2error.ReasonInstanceTypeRefused
			}
			return out
		}
		w.record("default-a")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "m7g.xlarge us-east-1a"})
		denied = append(denied, "m7g.xlarge")
		w.ec2.SetCapacity(memory.Offering{}, 0)
		w.recordWith(func(c *karpv1.NodeClaim) {
			c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m7g.xlarge"}}}
		}, "default-b")
		w.settle(time.Second)
		if len(w.failed) != 1 || !strings.HasPrefix(w.failed[0], "default-b InstanceTypeRefused: EC2 launched no instance: UnauthorizedOperation in ") ||
			!strings.Contains(w.failed[0], "What to do: allow the instance type in the policy that denies it") {
			t.Errorf("failures %q", w.failed)
		}
		if got := w.written(); len(got) != 1 || !strings.HasPrefix(got[0], "default-b Warning InstanceTypeRefused: ") {
			t.Errorf("events %v", got)
		}
	})
}

func (w *world) leads() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leading
}

// metric returns the value of the series of a metric whose only label has this value; 0 if there is none.
// The increase of a counter that begins at 1 is 0: what the alerts count is there at 0 before the first error.
func TestCodesOfAlertsAreThereAtZero(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if len(m.GetLabel()) == 1 && m.GetCounter().GetValue() == 0 {
					have[f.GetName()+" "+m.GetLabel()[0].GetValue()] = true
				}
			}
		}
		for _, want := range []string{
			"slipway_launch_errors_total RequestLimitExceeded", "slipway_launch_errors_total NoAnswer", "slipway_launch_errors_total other",
			"slipway_launch_refusals_total VcpuLimitExceeded", "slipway_launch_refusals_total MaxSpotInstanceCountExceeded",
			"slipway_launch_refusals_total AuthFailure.ServiceLinkedRoleCreationNotPermitted", "slipway_launch_refusals_total UnauthorizedOperation",
			"slipway_launch_refusals_total InsufficientFreeAddressesInSubnet", "slipway_launch_refusals_total InsufficientCidrBlocks",
			"slipway_offering_failures_total InsufficientInstanceCapacity", "slipway_offering_failures_total UnfulfillableCapacity",
			"slipway_offering_failures_total InsufficientFreeAddressesInSubnet", "slipway_offering_failures_total InsufficientCidrBlocks",
		} {
			if !have[want] {
				t.Errorf("no series %s", want)
			}
		}
	})
}

func (w *world) metric(name, label string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

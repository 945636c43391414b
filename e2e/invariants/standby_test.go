package invariants_test

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// sleeping is a cluster of one stopped instance that waits for a standby buffer; nothing is wrong with it.
func sleeping() *invariants.Evidence {
	e := good()
	e.Pods = nil
	claim := e.Claims[0].Object
	claim.Annotations[catalog.StandbyAnnotation], claim.Annotations[catalog.StandbyStateAnnotation] = "uid", record.FormatStandby(record.StandbyAsleep, at(1))
	claim.Status.Conditions = nil
	claim.StatusConditions().SetTrue(record.ConditionStandby)
	e.Nodes[0].Object.Spec.ProviderID, e.Nodes[0].Deleted = claim.Status.ProviderID, observe.Moment{At: at(2), Revision: 2}
	e.Instances[0].State = aws.StateStopped
	return e
}

// An instance that is stopped has an owner that says so and no Node, and is started once.
func TestStandbyRules(t *testing.T) {
	if broken := invariants.Settled(*sleeping()); len(broken) > 0 {
		t.Fatalf("a good buffer: %q", broken)
	}
	for _, c := range []struct {
		want string
		when func(*invariants.Evidence)
	}{
		{"was started 2 times", func(e *invariants.Evidence) { e.Instances[0].Starts = 2 }},
		{"belongs to no NodeClaim", func(e *invariants.Evidence) { e.Claims[0].Deleted = seen() }},
		{"is there while its NodeClaim c is gone", func(e *invariants.Evidence) { e.Claims[0].Deleted = seen() }},
		{"2 instances for 1", func(e *invariants.Evidence) { e.Instances = append(e.Instances, e.Instances[0]) }},
		{`its instance "i-1" is not stopped`, func(e *invariants.Evidence) { e.Instances[0].State = aws.StateRunning }},
		{`its instance "i-1" is not stopped`, func(e *invariants.Evidence) { e.Instances[0].State = aws.StateTerminated }},
		{"is asleep, and has a Node", func(e *invariants.Evidence) { e.Nodes[0].Deleted = observe.Moment{} }},
		{`of a standby buffer is "stopping"`, func(e *invariants.Evidence) {
			e.Claims[0].Object.Annotations[catalog.StandbyStateAnnotation] = record.FormatStandby(record.StandbyStopping, at(1))
		}},
		{`of a standby buffer is "asleep"`, func(e *invariants.Evidence) { e.Claims[0].Object.Status.Conditions = nil }},
		{"not initialized", func(e *invariants.Evidence) { // It is awake, and never came.
			e.Claims[0].Object.Annotations[catalog.StandbyStateAnnotation] = record.FormatStandby(record.StandbyAwake, at(1))
			e.Instances[0].State = aws.StateRunning
		}},
	} {
		e := sleeping()
		c.when(e)
		if broken := strings.Join(invariants.Settled(*e), "\n"); !strings.Contains(broken, c.want) {
			t.Errorf("want %q, got %q", c.want, broken)
		}
	}
}

package invariants

import (
	"fmt"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// startedOnce finds instances that were started more than once: a standby buffer's instance sleeps once, and wakes once.
func startedOnce(e *Evidence) []string {
	var out []string
	for _, i := range e.Instances {
		if i.Starts > 1 {
			out = append(out, fmt.Sprintf("instance %s was started %d times", i.ID, i.Starts))
		}
	}
	return out
}

// asleepWithoutNode finds NodeClaims that wait for a standby buffer and are not asleep: their instance is not stopped, the condition does not say so, or they
// have a Node, which would count as capacity.
func asleepWithoutNode(e *Evidence) []string {
	stopped := map[string]bool{}
	for _, i := range e.Instances {
		stopped[i.ID] = i.State == aws.StateStopped
	}
	nodes := map[string]bool{}
	for _, n := range e.Nodes {
		if !n.Deleted.Seen() {
			nodes[n.Object.Spec.ProviderID] = true
		}
	}
	var out []string
	for _, c := range e.Claims {
		standby := record.StandbyOf(c.Object)
		if c.Deleted.Seen() || c.Terminating.Seen() || !standby.Waits() {
			continue
		}
		switch {
		case standby.State != record.StandbyAsleep || !c.Object.StatusConditions().Get(record.ConditionStandby).IsTrue():
			out = append(out, fmt.Sprintf("NodeClaim %s of a standby buffer is %q", c.Object.Name, standby.State))
		case !stopped[instanceID(c)]:
			out = append(out, fmt.Sprintf("NodeClaim %s is asleep, its instance %q is not stopped", c.Object.Name, instanceID(c)))
		case nodes[c.Object.Status.ProviderID]:
			out = append(out, fmt.Sprintf("NodeClaim %s is asleep, and has a Node", c.Object.Name))
		}
	}
	return out
}

package join_test

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/join"
)

// EC2 ends instances at launch after CreateFleet succeeded, and says why in their state reason alone. Without a queue the launcher asks for it, and with
// one its message may come first.
func TestInstanceThatEC2EndsAtLaunch(t *testing.T) {
	const text = "instance i-00000000000000001 is terminated before its node was ready: Client.InternalError: Client error on launch; check the KMS key " +
		"of its volumes: the key must be enabled, and its policy or a grant must let the launcher's role use it, with kms:CreateGrant and " +
		"kms:GenerateDataKeyWithoutPlaintext"
	failed := []string{
		"failed default-1 instance_failed", "event default-1 NodeDidNotJoin: " + text, "end default-1 instance_failed", "did not join default-1 instance_failed",
	}
	for name, c := range map[string]struct {
		state cloud.InstanceState
		why   cloud.StateReason
		asked []string // What the launcher does where it asks.
		ended []string // What it does upon a message.
	}{
		"the class's fault": {cloud.StateTerminated, cloud.StateReason{Code: "Client.InternalError", Message: "Client.InternalError: Client error on launch"}, failed, failed},
		"a lack of capacity": {cloud.StateTerminated, cloud.StateReason{Code: "Server.InsufficientInstanceCapacity"}, []string{
			"failed default-1 InsufficientCapacity",
			"event default-1 NodeDidNotJoin: instance i-00000000000000001 is terminated before its node was ready: Server.InsufficientInstanceCapacity",
			"end default-1 InsufficientCapacity",
		}, []string{
			"failed default-1 InsufficientCapacity",
			"event default-1 NodeDidNotJoin: instance i-00000000000000001 is terminated before its node was ready: Server.InsufficientInstanceCapacity",
			"end default-1 InsufficientCapacity",
		}},
		"a spot interruption": {cloud.StateTerminated, cloud.StateReason{Code: "Server.SpotInstanceTermination"}, []string{
			"failed default-1 instance_terminated",
			"event default-1 NodeDidNotJoin: instance i-00000000000000001 is terminated before its node was ready: Server.SpotInstanceTermination",
			"end default-1 instance_terminated",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			asks, notified := newWorld(t), newWorld(t)
			for _, w := range []*world{asks, notified} {
				w.claim(2 * time.Minute)
				w.looks(w.controller(), 1)
				w.ec2.Put(cloud.Instance{ID: w.instance.ID, Zone: w.instance.Zone, PrivateDNSName: "node-1", State: c.state, StateReason: c.why})
			}
			asks.looks(asks.controller(), 1)
			asks.wantTrace(c.asked...)
			did, err := join.Unjoined(notified.controller())(t.Context(), notified.current())
			if err != nil || did != (c.ended != nil) {
				t.Errorf("ended: %t, %v", did, err)
			}
			notified.wantTrace(c.ended...)
		})
	}
}

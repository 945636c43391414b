package join

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// The reasons to end a claim whose node did not join. They are label values of Karpenter's metrics, except readinessTimeout and instanceFailed, which
// Karpenter does not have. A lack of capacity has the reason of a launch that EC2 refused.
const (
	registrationTimeout = "registration_timeout"
	readinessTimeout    = "readiness_timeout"
	instanceTerminated  = api.ReasonInstanceTerminated
	// instanceFailed means that EC2 ended the instance at launch, and will end the next one: the account or the EC2NodeClass is at fault.
	instanceFailed = "instance_failed"
)

// rejoinTime is what kubelets get after this process began to lead, whatever their deadline: while no replica led, the API server may have been away, and
// then no kubelet could register. A kubelet tries again every 7 s (pkg/kubelet/kubelet_node_status.go), the rest is for its status and the caches.
const rejoinTime = time.Minute

// bootTime is what a machine needs to boot: EC2 is not asked about it earlier.
const bootTime = time.Minute

// multipleNodes is Karpenter's reason of the condition Registered if two kubelets have joined.
const multipleNodes = "MultipleNodesFound"

// deadline returns when the node must be Ready, counted from its launch. A node that was Ready before, which its missing startup taint
// shows, has the same time again from when it stopped being Ready: pods run there. No deadline passes just after this process began to lead.
func deadline(o Observed) time.Time {
	patience, out := o.Settings.Patience.Of(o.Claim), record.Deadline(o.Claim, o.Settings.Patience)
	if o.Node != nil && registeredNode(o.Node) && !hasTaint(o.Node, catalog.StartingTaintKey) {
		out = joinedAt(o.Node).Add(patience)
	}
	if earliest := o.LedSince.Add(min(rejoinTime, patience)); earliest.After(out) {
		return earliest
	}
	return out
}

// failure returns why a claim's node will not join, and what to check; "" if it still may. left is the time to the deadline.
func failure(o Observed, left time.Duration) (reason, message string) {
	id := index.InstanceID(o.Claim.Status.ProviderID)
	joined := o.Node != nil && conditions.Posted(o.Node) != nil
	switch {
	case o.Node != nil && conditions.NodeReady(o.Node):
		return "", ""
	case over(o.Instance):
		return ended(id, o.Instance, o.StateReason)
	case left > 0:
		return "", ""
	}
	within := o.Settings.Patience.Of(o.Claim)
	switch {
	case joined:
		c := conditions.Ready(o.Node)
		return readinessTimeout, fmt.Sprintf("node %s registered but was not ready within %s: %s: %s", o.Node.Name, within, c.Reason, c.Message)
	case o.Instance == cloud.StatePending:
		return registrationTimeout, fmt.Sprintf("instance %s is still pending %s after its launch: it did not boot", id, within)
	}
	return registrationTimeout, fmt.Sprintf("node did not register within %s of the launch of instance %s; is its role mapped in the cluster "+
		"(an EKS access entry of type EC2_LINUX, or aws-auth)? Else look at its user data, and whether it reaches the API server: "+
		"aws ec2 get-console-output --latest --instance-id %s", within, id, id)
}

// ended returns why a claim ends whose instance ended before its node was ready, and what to do about it.
func ended(id string, state cloud.InstanceState, why cloud.StateReason) (reason, message string) {
	message = fmt.Sprintf("instance %s is %s before its node was ready", id, state)
	if why != (cloud.StateReason{}) {
		message += ": " + why.String()
	}
	switch remedy, lacks := ec2error.EndRemedy(why.Code), ec2error.EndReason(why.Code); {
	case remedy != "":
		return instanceFailed, message + "; " + remedy
	case lacks != "":
		return lacks, message
	}
	return instanceTerminated, message
}

// wakes reports whether the instance was started lately after it was stopped: EC2 may still show its former state.
func wakes(claim *karpv1.NodeClaim, state cloud.InstanceState, now time.Time) bool {
	off := state == cloud.StateStopping || state == cloud.StateStopped
	return off && record.StandbyOf(claim).State == record.StandbyAwake && now.Sub(record.StartedAt(claim)) < bootTime
}

// over reports whether an instance in this state no longer runs a kubelet.
func over(state cloud.InstanceState) bool {
	return state != "" && state != cloud.StatePending && state != cloud.StateRunning
}

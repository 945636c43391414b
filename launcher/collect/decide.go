package collect

import (
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/index"
)

const (
	// minAge is the minimum age of a collected instance: the record of its launch may still be on its way. Package terminate has the same
	// time to terminate the instance of a NodeClaim that is being deleted without the finalizer.
	minAge = 30 * time.Second
	// visibleAfter is the age from which EC2's eventual consistency no longer explains a missing instance.
	visibleAfter = time.Minute
	// joinAsks is the age by which package join has asked EC2 why the instance of a node that did not join ended.
	joinAsks = 2 * time.Minute
)

// State is the observed state. Instances must be read before NodeClaims, so that each has its claim.
type State struct {
	// Now is the time of the decision.
	Now time.Time
	// Instances of the cluster.
	Instances []cloud.Instance
	// Claims are all NodeClaims.
	Claims []karpv1.NodeClaim
	// Nodes maps the providerID of each Node to whether it is Ready. A Ready node runs, whatever EC2 returns.
	Nodes map[string]bool
	// Nodeless holds since when initialized claims have no Node, by the claim's UID.
	Nodeless map[types.UID]time.Time
	// Foreign holds the names of the claims that a running Karpenter manages.
	Foreign map[string]bool
	// Shifted holds the IDs of the zones that a zonal shift is away from. EC2 may not show their instances, which are left as they are.
	Shifted map[string]bool
	// ShiftsUnknown means that AWS has not answered yet which zones those are: an instance that EC2 does not show may be in one.
	ShiftsUnknown bool
	// Beside means that a Karpenter is running, or may be. Then only instances that slipway launched are considered: Karpenter records an
	// instance in its claim a moment after the launch.
	Beside bool
}

// Garbage is what a round terminates or repairs.
type Garbage struct {
	// Instances are those to terminate: no NodeClaim owns them, and no launch in progress will; or their NodeClaim is being deleted without
	// the finalizer that waits for them, and has no Node to drain.
	Instances []cloud.Instance
	// Claims are those to terminate: their instance no longer exists.
	Claims []karpv1.NodeClaim
	// Nodeless are claims to terminate: their instance runs, and their Node is gone for good. They are the State's, and must not be changed.
	Nodeless []*karpv1.NodeClaim
	// Untagged are instances that lack the tags of their NodeClaim: a launch was cut short, or EC2 was busy.
	Untagged []Untagged
	// Outlived are instances that have outlived their capacity type: a capacity reservation has ended, and they run on.
	Outlived []Outlived
}

// Outlived is an instance that runs as another capacity type than its NodeClaim says.
type Outlived struct {
	// Instance as EC2 shows it.
	Instance cloud.Instance
	// Claim is its NodeClaim. It is the State's, and must not be changed.
	Claim *karpv1.NodeClaim
}

// Untagged is an instance and the tags to write on it.
type Untagged struct {
	// InstanceID of the instance.
	InstanceID string
	// Tags by key.
	Tags map[string]string
}

// claimTag is the EC2 tag that names an instance's NodeClaim.
const claimTag = "karpenter.sh/nodeclaim"

// retagAtOnce is the number of instances that one round tags: the launch itself tags nearly all.
const retagAtOnce = 50

// Decide returns the garbage.
func Decide(s State) Garbage {
	var out Garbage
	s.judgeInstances(&out)
	states := make(map[string]cloud.InstanceState, len(s.Instances))
	for _, i := range s.Instances {
		states[i.ID] = i.State
	}
	for _, c := range s.Claims {
		if c.DeletionTimestamp == nil && !s.Foreign[c.Name] && c.Status.ProviderID != "" && !s.Nodes[c.Status.ProviderID] &&
			s.lost(states[index.InstanceID(c.Status.ProviderID)], &c) {
			out.Claims = append(out.Claims, c)
		}
	}
	return out
}

// judgeInstances finds the instances without an owner or a launch in progress, and compares the others with their owner.
func (s State) judgeInstances(out *Garbage) {
	owner, launching := s.owners()
	for _, i := range s.Instances {
		launch := i.Tags[catalog.LaunchAnnotation]
		switch claim := owner[i.ID]; {
		case !live(i.State) || s.Now.Sub(i.LaunchTime) <= minAge || s.Shifted[i.ZoneID]:
		case claim != nil && s.abandoned(i, claim):
			out.Instances = append(out.Instances, i)
		case claim != nil:
			s.compare(i, claim, out)
		case !launching[launch] && (launch != "" || !s.Beside):
			out.Instances = append(out.Instances, i)
		}
	}
}

// compare finds what an instance and its claim do not agree on.
func (s State) compare(i cloud.Instance, claim *karpv1.NodeClaim, out *Garbage) {
	if s.Foreign[claim.Name] {
		return
	}
	if s.nodeless(i, claim) {
		out.Nodeless = append(out.Nodeless, claim)
		return
	}
	if tags := missing(i, claim); len(tags) > 0 && len(out.Untagged) < retagAtOnce {
		out.Untagged = append(out.Untagged, Untagged{InstanceID: i.ID, Tags: tags})
	}
	if outlived(i, claim) {
		out.Outlived = append(out.Outlived, Outlived{i, claim})
	}
}

// owners returns the claim of each instance, by the instance's ID, and the IDs of the launches that claims still wait for.
func (s State) owners() (owner map[string]*karpv1.NodeClaim, launching map[string]bool) {
	owner, launching = map[string]*karpv1.NodeClaim{}, map[string]bool{}
	for i := range s.Claims {
		c := &s.Claims[i]
		switch id := index.InstanceID(c.Status.ProviderID); {
		case id != "":
			owner[id] = c
		case c.DeletionTimestamp == nil && c.Annotations[catalog.LaunchAnnotation] != "":
			launching[c.Annotations[catalog.LaunchAnnotation]] = true
		}
	}
	return owner, launching
}

// abandoned reports whether the claim is being deleted without the finalizer, so that nothing waits for its instance. If a Node exists,
// package terminate drains it first. The claim's status alone terminates no instance: the instance's launch ID or tag must name the claim.
func (s State) abandoned(i cloud.Instance, claim *karpv1.NodeClaim) bool {
	if claim.DeletionTimestamp == nil || s.Now.Sub(claim.DeletionTimestamp.Time) <= minAge || s.Foreign[claim.Name] {
		return false
	}
	launch := i.Tags[catalog.LaunchAnnotation]
	named := i.Tags[claimTag] == claim.Name || launch != "" && launch == claim.Annotations[catalog.LaunchAnnotation]
	_, node := s.Nodes[claim.Status.ProviderID]
	return named && !node && !finalizer.Guarded(claim)
}

// missing returns the tags that a launched instance lacks.
func missing(i cloud.Instance, claim *karpv1.NodeClaim) map[string]string {
	out := map[string]string{}
	if i.Tags[claimTag] != claim.Name {
		out[claimTag] = claim.Name
	}
	if name := claim.Status.NodeName; name != "" && i.Tags["Name"] == "" {
		out["Name"] = name
	}
	return out
}

// outlived reports whether the instance runs on as another capacity type after the end of its own. A claim that is being deleted stays as it is, and so
// does that of a stopped instance: EC2 shows no reservation of it, which may be active.
func outlived(i cloud.Instance, claim *karpv1.NodeClaim) bool {
	next := catalog.CapacityTypeOf(claim.Labels[karpv1.CapacityTypeLabelKey]).EndsAs
	return next != "" && i.CapacityType == next && i.State == cloud.StateRunning && claim.DeletionTimestamp == nil
}

// live reports whether the instance costs money.
func live(state cloud.InstanceState) bool {
	return state != cloud.StateShuttingDown && state != cloud.StateTerminated
}

// lost reports whether a claim's instance no longer exists; the state is empty if EC2 does not return the instance. If the node has not joined,
// package join comes first: it reads why the instance ended.
func (s State) lost(state cloud.InstanceState, c *karpv1.NodeClaim) bool {
	age := s.Now.Sub(launchedAt(c))
	switch state {
	case cloud.StateTerminated:
		return age > joinAsks || conditions.ClaimIs(c, karpv1.ConditionTypeRegistered)
	case "":
		return age > visibleAfter && !s.ShiftsUnknown && !s.Shifted[c.Labels[awsv1.LabelTopologyZoneID]]
	default:
		return false
	}
}

func launchedAt(c *karpv1.NodeClaim) time.Time {
	for _, cond := range c.Status.Conditions {
		if cond.Type == karpv1.ConditionTypeLaunched && cond.Status == "True" {
			return cond.LastTransitionTime.Time
		}
	}
	return c.CreationTimestamp.Time
}

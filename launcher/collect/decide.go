package collect

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
)

const (
	// minAge of an instance that nobody owns: the record of a launch may still be on its way. Package terminate has as long to end the
	// instance of a NodeClaim that is being deleted without the finalizer.
	minAge = 30 * time.Second
	// visibleAfter is when EC2's eventual consistency no longer explains that an instance is missing.
	visibleAfter = time.Minute
)

// State is what was observed. Instances must have been read before NodeClaims, so that each has its claim.
type State struct {
	// Now is the time of the decision.
	Now time.Time
	// Instances of the cluster.
	Instances []cloud.Instance
	// Claims are all NodeClaims.
	Claims []karpv1.NodeClaim
	// Nodes says of each Node, by providerID, whether it is Ready: then something lives there, whatever EC2 says.
	Nodes map[string]bool
	// Foreign holds the names of the claims that a live Karpenter has.
	Foreign map[string]bool
	// Beside says that a Karpenter is alive, or may be. Then only instances that slipway launched are looked at: Karpenter writes
	// an instance into its claim a moment after it has launched it.
	Beside bool
}

// Garbage is what nobody will miss.
type Garbage struct {
	// Instances to terminate: no NodeClaim owns them, and no launch in progress will; or their NodeClaim is being deleted without
	// the finalizer that would have it wait for them, and has no Node to drain.
	Instances []cloud.Instance
	// Claims to end: their instance is gone.
	Claims []karpv1.NodeClaim
	// Untagged are instances that lack the tags of their NodeClaim: a launch was cut short, or EC2 was busy.
	Untagged []Untagged
}

// Untagged is an instance and the tags that it is to get.
type Untagged struct {
	// InstanceID of the instance.
	InstanceID string
	// Tags by key.
	Tags map[string]string
}

// claimTag is the EC2 tag that names an instance's NodeClaim.
const claimTag = "karpenter.sh/nodeclaim"

// retagAtOnce is how many instances one round tags: the launch itself does it for nearly all.
const retagAtOnce = 50

// Decide finds the garbage.
func Decide(s State) Garbage {
	var out Garbage
	s.judgeInstances(&out)
	states := make(map[string]cloud.InstanceState, len(s.Instances))
	for _, i := range s.Instances {
		states[i.ID] = i.State
	}
	for _, c := range s.Claims {
		if c.DeletionTimestamp == nil && !s.Foreign[c.Name] && c.Status.ProviderID != "" && !s.Nodes[c.Status.ProviderID] &&
			lost(states[index.InstanceID(c.Status.ProviderID)], s.Now.Sub(launchedAt(&c))) {
			out.Claims = append(out.Claims, c)
		}
	}
	return out
}

// judgeInstances finds the instances that nobody owns or waits for, and those whose owner's tags are missing.
func (s State) judgeInstances(out *Garbage) {
	owner, launching := s.owners()
	for _, i := range s.Instances {
		launch := i.Tags[catalog.LaunchAnnotation]
		switch claim := owner[i.ID]; {
		case !live(i.State) || s.Now.Sub(i.LaunchTime) <= minAge:
		case claim != nil && s.abandoned(i, claim):
			out.Instances = append(out.Instances, i)
		case claim != nil:
			if tags := missing(i, claim); len(tags) > 0 && !s.Foreign[claim.Name] && len(out.Untagged) < retagAtOnce {
				out.Untagged = append(out.Untagged, Untagged{InstanceID: i.ID, Tags: tags})
			}
		case !launching[launch] && (launch != "" || !s.Beside):
			out.Instances = append(out.Instances, i)
		}
	}
}

// owners returns the claim of each instance, by the instance's id, and the ids of the launches that claims still wait for.
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

// abandoned reports whether the claim is being deleted without the finalizer, so that nothing waits for its instance. Where a Node
// stands, package terminate drains it first. The claim's word alone ends no instance: its launch, or its tag, must name the claim.
func (s State) abandoned(i cloud.Instance, claim *karpv1.NodeClaim) bool {
	if claim.DeletionTimestamp == nil || s.Now.Sub(claim.DeletionTimestamp.Time) <= minAge || s.Foreign[claim.Name] {
		return false
	}
	launch := i.Tags[catalog.LaunchAnnotation]
	named := i.Tags[claimTag] == claim.Name || launch != "" && launch == claim.Annotations[catalog.LaunchAnnotation]
	_, node := s.Nodes[claim.Status.ProviderID]
	return named && !node && !controllerutil.ContainsFinalizer(claim, karpv1.TerminationFinalizer)
}

// missing are the tags of a launched instance that it lacks.
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

// live says that the instance costs money.
func live(state cloud.InstanceState) bool {
	return state != cloud.StateShuttingDown && state != cloud.StateTerminated
}

// lost says that a claim's instance is gone; the state is empty where EC2 does not show it.
func lost(state cloud.InstanceState, age time.Duration) bool {
	return state == cloud.StateTerminated || state == "" && age > visibleAfter
}

func launchedAt(c *karpv1.NodeClaim) time.Time {
	for _, cond := range c.Status.Conditions {
		if cond.Type == karpv1.ConditionTypeLaunched && cond.Status == "True" {
			return cond.LastTransitionTime.Time
		}
	}
	return c.CreationTimestamp.Time
}

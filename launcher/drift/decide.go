package drift

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// The reasons of drift, as Karpenter 1.14 names them (pkg/controllers/nodeclaim/disruption/drift.go, and
// pkg/cloudprovider/drift.go of the AWS provider).
const (
	NodePoolDrifted          = "NodePoolDrifted"
	RequirementsDrifted      = "RequirementsDrifted"
	InstanceTypeNotFound     = "InstanceTypeNotFound"
	NodeClassDrift           = "NodeClassDrift"
	AMIDrift                 = "AMIDrift"
	SecurityGroupDrift       = "SecurityGroupDrift"
	SubnetDrift              = "SubnetDrift"
	CapacityReservationDrift = "CapacityReservationDrift"
	PlacementGroupDrift      = "PlacementGroupDrift"
)

// none stands for an empty list in messages.
const none = "none"

// youngest is the age from which the instance type of a claim must be offered. The catalog of instance types may lag behind
// (Karpenter, 1 h).
const youngest = time.Hour

// Facts are the observations that a decision uses.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Claim is the NodeClaim, which was launched.
	Claim *karpv1.NodeClaim
	// Pool is the claim's NodePool.
	Pool *karpv1.NodePool
	// Class is the NodePool's EC2NodeClass, resolved.
	Class *awsv1.EC2NodeClass
	// Types are the instance types that EC2 offers for the class, those without a known price included; nil where they are unknown.
	Types []catalog.InstanceType
	// Instance is the claim's instance; nil where it is unknown.
	Instance *cloud.Instance
}

// Drift is why a claim differs from what its NodePool and class ask for; zero where it does not.
type Drift struct {
	// Reason is one of the package's constants.
	Reason string
	// Message explains the reason to users: the actual and the expected value.
	Message string
}

// Decide returns why the claim has drifted. Unknown facts are no drift, nor are hashes of different versions.
func Decide(f Facts) Drift {
	for _, look := range []func(Facts) Drift{poolDrift, requirements, offered, classDrift, image, securityGroups, subnet, reservation, placementGroup} {
		if d := look(f); d.Reason != "" {
			return d
		}
	}
	return Drift{}
}

// stamps are the keys of a hash annotation and of its version.
type stamps struct{ hash, version string }

// changed reports whether both objects carry hashes of one version that differ.
func (s stamps) changed(claim, source map[string]string) bool {
	have, want := claim[s.hash], source[s.hash]
	return have != "" && want != "" && claim[s.version] == source[s.version] && have != want
}

func poolStamps() stamps {
	return stamps{karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey}
}

func classStamps() stamps {
	return stamps{awsv1.AnnotationEC2NodeClassHash, awsv1.AnnotationEC2NodeClassHashVersion}
}

func poolDrift(f Facts) Drift {
	if !poolStamps().changed(f.Claim.Annotations, f.Pool.Annotations) {
		return Drift{}
	}
	return Drift{NodePoolDrifted, fmt.Sprintf("the template of NodePool %s has changed since the launch", f.Pool.Name)}
}

func classDrift(f Facts) Drift {
	if !classStamps().changed(f.Claim.Annotations, f.Class.Annotations) {
		return Drift{}
	}
	return Drift{NodeClassDrift, fmt.Sprintf("the spec of EC2NodeClass %s has changed since the launch", f.Class.Name)}
}

// requirements compares the claim's labels with the NodePool's requirements, which its hash does not cover.
func requirements(f Facts) Drift {
	required, err := record.PoolRequirements(f.Pool)
	if err != nil {
		return Drift{} // The NodePool's condition reports it, and nothing is launched.
	}
	key, ok := required.Match(f.Claim.Labels)
	if ok {
		return Drift{}
	}
	return Drift{RequirementsDrifted, fmt.Sprintf("%s is %q, NodePool %s requires %s", key, f.Claim.Labels[key], f.Pool.Name, required[key])}
}

func offered(f Facts) Drift {
	if len(f.Types) == 0 || f.Now.Sub(f.Claim.CreationTimestamp.Time) < youngest {
		return Drift{}
	}
	name, zone, capacity := f.Claim.Labels[corev1.LabelInstanceTypeStable], f.Claim.Labels[corev1.LabelTopologyZone], f.Claim.Labels[karpv1.CapacityTypeLabelKey]
	at := slices.IndexFunc(f.Types, func(t catalog.InstanceType) bool { return t.Name == name })
	if at < 0 {
		return Drift{InstanceTypeNotFound, fmt.Sprintf("instance type %s can no longer be launched from EC2NodeClass %s", name, f.Class.Name)}
	}
	// A reserved instance becomes on-demand when its capacity reservation ends. CapacityReservationDrift covers that.
	same := func(o catalog.Offering) bool {
		return o.CapacityType == capacity || o.CapacityType == catalog.CapacityTypeOf(capacity).EndsAs
	}
	if !slices.ContainsFunc(f.Types[at].Offerings, func(o catalog.Offering) bool { return o.Zone == zone && same(o) }) {
		return Drift{InstanceTypeNotFound, fmt.Sprintf("instance type %s is no longer offered as %s in %s", name, capacity, zone)}
	}
	return Drift{}
}

// image compares the claim's AMI with the one that would be launched now.
func image(f Facts) Drift {
	have := f.Claim.Status.ImageID
	if have == "" && f.Instance != nil {
		have = f.Instance.ImageID
	}
	want := ""
	for _, ami := range f.Class.Status.AMIs {
		var list []catalog.Requirement
		for _, r := range ami.Requirements {
			list = append(list, catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
		}
		required, err := catalog.NewRequirements(list)
		if err != nil {
			continue
		}
		if _, ok := required.Match(f.Claim.Labels); ok {
			want = ami.ID
			break
		}
	}
	if have == "" || have == want || len(f.Class.Status.AMIs) == 0 {
		return Drift{}
	}
	if want == "" {
		return Drift{AMIDrift, fmt.Sprintf("no AMI of EC2NodeClass %s runs on the instance type any more; it runs %s", f.Class.Name, have)}
	}
	return Drift{AMIDrift, fmt.Sprintf("the node runs %s, EC2NodeClass %s now has %s", have, f.Class.Name, want)}
}

func securityGroups(f Facts) Drift {
	if f.Instance == nil || len(f.Instance.SecurityGroupIDs) == 0 || len(f.Class.Status.SecurityGroups) == 0 {
		return Drift{}
	}
	want := []string{}
	for _, g := range f.Class.Status.SecurityGroups {
		want = append(want, g.ID)
	}
	have := slices.Sorted(slices.Values(f.Instance.SecurityGroupIDs))
	slices.Sort(want)
	if slices.Equal(slices.Compact(have), slices.Compact(want)) {
		return Drift{}
	}
	return Drift{SecurityGroupDrift, fmt.Sprintf("the instance has %s, EC2NodeClass %s now has %s", strings.Join(have, ", "), f.Class.Name, strings.Join(want, ", "))}
}

func subnet(f Facts) Drift {
	if f.Instance == nil || f.Instance.SubnetID == "" || len(f.Class.Status.Subnets) == 0 {
		return Drift{}
	}
	if slices.ContainsFunc(f.Class.Status.Subnets, func(s awsv1.Subnet) bool { return s.ID == f.Instance.SubnetID }) {
		return Drift{}
	}
	return Drift{SubnetDrift, fmt.Sprintf("the instance is in %s, which EC2NodeClass %s no longer selects", f.Instance.SubnetID, f.Class.Name)}
}

// reservation compares the capacity reservation of the instance with those that the class selects. An instance may not use a
// reservation that its class does not select.
func reservation(f Facts) Drift {
	if f.Instance == nil || f.Instance.ReservationID == "" {
		return Drift{}
	}
	var selected []string
	for _, r := range f.Class.Status.CapacityReservations {
		if r.ID == f.Instance.ReservationID {
			return Drift{}
		}
		selected = append(selected, r.ID)
	}
	return Drift{CapacityReservationDrift, fmt.Sprintf("the instance is in capacity reservation %s, EC2NodeClass %s now selects %s",
		f.Instance.ReservationID, f.Class.Name, cmp.Or(strings.Join(selected, ", "), none))}
}

// placementGroup compares the placement group of the node, which is a label of NodeClaims, with the one that the class
// selects. The class's instance types carry its ID; without them it is known only if the selector names it.
func placementGroup(f Facts) Drift {
	have, selector := f.Claim.Labels[awsv1.LabelPlacementGroupID], f.Class.Spec.PlacementGroupSelector
	want := ""
	if selector != nil {
		want = ptr.Deref(selector.ID, have)
		if len(f.Types) > 0 {
			want = cmp.Or(f.Types[0].Labels[awsv1.LabelPlacementGroupID], want)
		}
	}
	if have == want && (selector == nil || have != "") {
		return Drift{}
	}
	if selector != nil {
		want = cmp.Or(want, ptr.Deref(selector.Name, ""))
	}
	return Drift{PlacementGroupDrift, fmt.Sprintf("the node is in placement group %s, EC2NodeClass %s now selects %s", cmp.Or(have, none), f.Class.Name, cmp.Or(want, none))}
}

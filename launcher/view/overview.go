package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Objects are the input of a view: lists as the API server returns them.
type Objects struct {
	// Pods of all namespaces.
	Pods []corev1.Pod
	// Nodes of the cluster, slipway's and others.
	Nodes []corev1.Node
	// NodeClaims of the cluster.
	NodeClaims []karpv1.NodeClaim
	// Events about NodeClaims; may be empty.
	Events []corev1.Event
	// Now is the time that ages refer to; zero leaves out what is judged by its age.
	Now time.Time
}

// Overview is the state of slipway's work at one moment.
type Overview struct {
	// Nodes that slipway launched or is launching, in the order of their NodeClaims' names.
	Nodes []NodeRow
	// Pods counts those that are not owned by a DaemonSet.
	Pods PodCounts
	// CostPerHour of the launched Nodes, in USD; Cost is the same by part, as far as the parts are known.
	CostPerHour float64
	Cost        catalog.Cost
	// Launched is how many of Nodes EC2 has launched.
	Launched int
	// Troubles are the errors that launches end in now, or ended in lately.
	Troubles []Trouble
	// Now is the time that ages refer to.
	Now time.Time
}

// NodeRow is one NodeClaim with its node.
type NodeRow struct {
	// NodeClaim is the claim's name, Node the node's once it is known.
	NodeClaim, Node string
	// NodePool it belongs to.
	NodePool string
	// InstanceType, Zone and CapacityType are the expected ones until EC2 has chosen.
	InstanceType, Zone, CapacityType string
	// Price in USD per hour; 0 where unknown.
	Price float64
	// Cost is the price by part; zero where the parts are not known.
	Cost catalog.Cost
	// Pods is the number of pods on the node, Promised that of pods which wait for it. Those of DaemonSets do not count.
	Pods, Promised int
	// State of the node.
	State State
	// Launched means that EC2 has launched an instance, which costs Price.
	Launched bool
}

// State is the phase of a node's life, in words for people.
type State string

// The states in the order of a node's life.
const (
	StateRecorded    State = "recorded"
	StateLaunching   State = "launched"
	StateBooting     State = "booting"
	StateJoined      State = "joined"
	StateReady       State = "ready"
	StateTerminating State = "terminating"
)

// PodCounts counts pods by state; each pod is counted once.
type PodCounts struct {
	// Pending pods have no node and no promise.
	Pending int
	// Promised pods have their place on an in-flight node.
	Promised int
	// Bound pods have a node and do not run yet.
	Bound int
	// Running pods have started.
	Running int
}

// New builds the overview of the given objects.
func New(in Objects) Overview {
	promises := Promises(in.NodeClaims)
	out := Overview{Now: in.Now}
	perNode, perClaim := map[string]int{}, map[string]int{}
	for i := range in.Pods {
		pod := &in.Pods[i]
		if !counts(pod) {
			continue
		}
		claim, promised := promises[string(pod.UID)]
		switch {
		case pod.Status.Phase == corev1.PodRunning:
			out.Pods.Running++
		case pod.Spec.NodeName != "":
			out.Pods.Bound++
		case promised:
			out.Pods.Promised++
			perClaim[claim]++
		default:
			out.Pods.Pending++
		}
		if pod.Spec.NodeName != "" {
			perNode[pod.Spec.NodeName]++
		}
	}
	nodes := make(map[string]*corev1.Node, len(in.Nodes))
	for i := range in.Nodes {
		nodes[in.Nodes[i].Name] = &in.Nodes[i]
	}
	for i := range in.NodeClaims {
		claim := &in.NodeClaims[i]
		row := newRow(claim, nodes[claim.Status.NodeName])
		row.Pods, row.Promised = perNode[row.Node], perClaim[claim.Name]
		out.Nodes = append(out.Nodes, row)
		if row.Launched {
			out.CostPerHour += row.Price
			out.Cost = out.Cost.Plus(row.Cost)
			out.Launched++
		}
	}
	out.Troubles = troubles(in)
	slices.SortFunc(out.Nodes, func(a, b NodeRow) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) })
	return out
}

// counts reports whether a pod is counted: it is not a DaemonSet's and not finished.
func counts(pod *corev1.Pod) bool {
	return !disruption.Terminal(pod) && !disruption.OfDaemonSet(pod)
}

func newRow(claim *karpv1.NodeClaim, node *corev1.Node) NodeRow {
	expected := ParseExpected(claim.Annotations[catalog.ExpectedAnnotation])
	cost, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
	return NodeRow{
		Cost:         cost,
		NodeClaim:    claim.Name,
		Node:         claim.Status.NodeName,
		NodePool:     claim.Labels[karpv1.NodePoolLabelKey],
		InstanceType: cmp.Or(claim.Labels[corev1.LabelInstanceTypeStable], expected.InstanceType),
		Zone:         cmp.Or(claim.Labels[corev1.LabelTopologyZone], expected.Zone),
		CapacityType: cmp.Or(claim.Labels[karpv1.CapacityTypeLabelKey], expected.CapacityType),
		Price:        expected.Price,
		State:        stateOf(claim, node),
		Launched:     claim.Status.ProviderID != "" || node != nil,
	}
}

func stateOf(claim *karpv1.NodeClaim, node *corev1.Node) State {
	switch {
	case !claim.DeletionTimestamp.IsZero():
		return StateTerminating
	case isTrue(claim, karpv1.ConditionTypeInitialized):
		return StateReady
	case isTrue(claim, karpv1.ConditionTypeRegistered):
		return StateJoined
	case node != nil:
		return StateBooting
	case claim.Status.ProviderID != "":
		return StateLaunching
	}
	return StateRecorded
}

func isTrue(claim *karpv1.NodeClaim, condition string) bool {
	return claim.StatusConditions().Get(condition).IsTrue()
}

// Expected is the offering that a NodeClaim's annotation names.
type Expected struct {
	// InstanceType, Zone and CapacityType of the offering.
	InstanceType, Zone, CapacityType string
	// Price in USD per hour.
	Price float64
}

// ParseExpected parses the value of catalog.ExpectedAnnotation; a part that cannot be parsed stays empty.
func ParseExpected(value string) Expected {
	parts := strings.Split(value, "/")
	if len(parts) != 4 {
		return Expected{}
	}
	price, err := strconv.ParseFloat(parts[3], 64)
	if err != nil {
		return Expected{}
	}
	return Expected{InstanceType: parts[0], Zone: parts[1], CapacityType: parts[2], Price: price}
}

// Promises maps the UID of each promised pod to the name of its NodeClaim.
func Promises(claims []karpv1.NodeClaim) map[string]string {
	out := map[string]string{}
	for i := range claims {
		pods, err := record.Pods(&claims[i])
		if err != nil {
			continue // The annotation is missing or not slipway's: the claim has no promised pods.
		}
		for _, p := range pods {
			out[p.UID] = claims[i].Name
		}
	}
	return out
}

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Objects are the input of a view, which changes none of them.
type Objects struct {
	// Pods of all namespaces.
	Pods []*corev1.Pod
	// Namespace is that of the pods to count; empty for all.
	Namespace string
	// Nodes of the cluster, slipway's and others.
	Nodes []*corev1.Node
	// NodeClaims of the cluster, slipway's and those of other providers.
	NodeClaims []*karpv1.NodeClaim
	// NodePools of the cluster, slipway's and those of other providers; may be empty.
	NodePools []*karpv1.NodePool
	// Events about NodeClaims; may be empty.
	Events []corev1.Event
	// Unread names what the user may not list, such as UnreadNodes: it is empty here, whatever the cluster has.
	Unread []string
	// Why returns slipway's reason for a pending pod in one line, empty if it has none; nil leaves reasons out.
	Why func(*corev1.Pod) string
	// Now is the time that ages refer to; zero leaves out what is judged by its age.
	Now time.Time
}

// What Objects.Unread names, in the words of a sentence.
const (
	UnreadPods       = "pods of all namespaces"
	UnreadNodes      = "nodes"
	UnreadNodeClaims = "NodeClaims"
	UnreadEvents     = "Events"
)

// Overview is the state of slipway's work at one moment.
type Overview struct {
	// Now is the time that ages refer to.
	Now time.Time `json:"now,omitzero"`
	// Nodes that slipway launched or is launching, in the order of their NodeClaims' names.
	Nodes []NodeRow `json:"nodes"`
	// Launched is how many of Nodes EC2 has launched.
	Launched int `json:"launched"`
	// Others is how many other nodes the cluster has.
	Others int `json:"otherNodes"`
	// CostPerHour of the launched Nodes, in USD.
	CostPerHour float64 `json:"usdPerHour"`
	// Unpriced is how many of the launched Nodes have no known price, such as those that a Karpenter launched: CostPerHour leaves them out.
	Unpriced int `json:"unpriced,omitempty"`
	// Cost is CostPerHour by part, as far as the parts are known.
	Cost catalog.Cost `json:"cost"`
	// SpotShare of CostPerHour is for nodes that EC2 may interrupt, 0 to 1.
	SpotShare float64 `json:"spotShare"`
	// CPU is the share of the Nodes' allocatable that their pods request, 0 to 1; nil before a node reports what it has.
	CPU *float64 `json:"cpuRequested,omitempty"`
	// Memory is the same of memory.
	Memory *float64 `json:"memoryRequested,omitempty"`
	// Pods counts those that are not owned by a DaemonSet.
	Pods PodCounts `json:"pods"`
	// Pending are the pods without a node and a promise, by owner and reason, the largest first.
	Pending []PendingPods `json:"pending,omitempty"`
	// NotReady are the NodePools that are not Ready, by name.
	NotReady []NotReady `json:"nodePoolsNotReady,omitempty"`
	// Paused are the NodePools whose nodes are not disrupted because of the annotation slipway.dev/disruption-paused, by name.
	Paused []string `json:"nodePoolsPaused,omitempty"`
	// Troubles are the errors that launches end in now, or ended in lately.
	Troubles []Trouble `json:"troubles,omitempty"`
}

// NotReady is a NodePool that launches nothing.
type NotReady struct {
	// NodePool is its name.
	NodePool string `json:"nodePool"`
	// Message is what its condition Ready, or one that Ready depends on, says.
	Message string `json:"message"`
}

// NodeRow is one NodeClaim with its node.
type NodeRow struct {
	// NodeClaim is the claim's name.
	NodeClaim string `json:"nodeClaim"`
	// Node is the node's name once it is known.
	Node string `json:"node,omitempty"`
	// NodePool it belongs to.
	NodePool string `json:"nodePool,omitempty"`
	// InstanceType is the expected one until EC2 has chosen.
	InstanceType string `json:"instanceType,omitempty"`
	// Zone is the expected one until EC2 has chosen.
	Zone string `json:"zone,omitempty"`
	// CapacityType is the expected one until EC2 has chosen.
	CapacityType string `json:"capacityType,omitempty"`
	// Price in USD per hour; 0 where unknown.
	Price float64 `json:"usdPerHour,omitempty"`
	// Cost is the price by part; zero where the parts are not known.
	Cost catalog.Cost `json:"cost,omitzero"`
	// CoveredBy is the name of the commitments that paid for the instance when it was planned; empty for none.
	CoveredBy string `json:"coveredBy,omitempty"`
	// CPU is the share of allocatable that the node's pods request, 0 to 1; nil before the node reports what it has.
	CPU *float64 `json:"cpuRequested,omitempty"`
	// Memory is the same of memory.
	Memory *float64 `json:"memoryRequested,omitempty"`
	// Pods is the number of pods on the node without those of DaemonSets.
	Pods int `json:"pods"`
	// Promised is the number of pods that wait for the node.
	Promised int `json:"promised,omitempty"`
	// State of the node.
	State State `json:"state"`
	// Why is the reason for which slipway terminates it, what its node says that is not ready any more, or what it waits for if it takes long to become ready.
	Why string `json:"why,omitempty"`
	// Created is when its NodeClaim was.
	Created time.Time `json:"created,omitzero"`
	// Launched means that EC2 has launched an instance, which costs Price.
	Launched bool `json:"launched"`
	// Ready is when it will be ready; nil for one that is, and where no node has booted yet.
	Ready *Estimate `json:"ready,omitempty"`
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
	StateNotReady    State = "not ready"
	StateAsleep      State = "asleep"
	StateTerminating State = "terminating"
)

// PodCounts counts pods by state; each pod is counted once.
type PodCounts struct {
	// Pending pods have no node and no promise.
	Pending int `json:"pending"`
	// Promised pods have their place on an in-flight node.
	Promised int `json:"promised"`
	// Bound pods have a node and do not run yet.
	Bound int `json:"bound"`
	// Running pods have started.
	Running int `json:"running"`
}

// Pointers returns pointers to the items of a list, as Objects has them.
func Pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// New builds the overview of the given objects. Nodes of another provider's NodeClaims are among the others.
func New(in Objects) Overview {
	in.NodeClaims = slices.DeleteFunc(slices.Clone(in.NodeClaims), provider.OthersClaim)
	in.NodePools = slices.DeleteFunc(slices.Clone(in.NodePools), provider.OthersPool)
	pods := countPods(in, true)
	nodes := make(map[string]*corev1.Node, len(in.Nodes))
	for _, node := range in.Nodes {
		nodes[node.Name] = node
	}
	out := Overview{
		Now: in.Now, Pods: pods.PodCounts, Others: len(nodes), Pending: groupPending(pods.pending, in.Why), NotReady: notReady(in.NodePools), Paused: paused(in.NodePools),
		Troubles: Troubles(in), Nodes: make([]NodeRow, 0, len(in.NodeClaims)),
	}
	spot, known := 0.0, bootsOf(in.NodeClaims)
	var requested, allocatable requests
	for _, claim := range in.NodeClaims {
		node := nodes[claim.Status.NodeName]
		row := newRow(claim, node)
		row.Why = cmp.Or(row.Why, whyNotReady(claim, in.Now))
		row.Ready = known.estimate(claim, in.Now)
		row.Pods, row.Promised = pods.perNode[row.Node], pods.perClaim[claim.Name]
		if node != nil {
			out.Others--
			row.CPU, row.Memory = pods.requested[row.Node].shareOf(allocatableOf(node))
			if row.CPU != nil {
				requested, allocatable = requested.plus(pods.requested[row.Node]), allocatable.plus(allocatableOf(node))
			}
		}
		out.Nodes = append(out.Nodes, row)
		if !row.Launched {
			continue
		}
		out.CostPerHour += row.Price
		out.Cost = out.Cost.Plus(row.Cost)
		out.Launched++
		if row.Price == 0 {
			out.Unpriced++
		}
		if catalog.CapacityTypeOf(row.CapacityType).Interruptible {
			spot += row.Price
		}
	}
	if out.CostPerHour > 0 {
		out.SpotShare = spot / out.CostPerHour
	}
	out.CPU, out.Memory = requested.shareOf(allocatable)
	slices.SortFunc(out.Nodes, func(a, b NodeRow) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) })
	return out
}

// RowOf returns the row of one NodeClaim that is not another provider's, as New has it, without computing those of the others. node is nil where there is none.
func RowOf(claim *karpv1.NodeClaim, node *corev1.Node, in Objects) NodeRow {
	one := Objects{NodeClaims: []*karpv1.NodeClaim{claim}, Now: in.Now}
	name := claim.Status.NodeName
	if node != nil {
		one.Nodes = []*corev1.Node{node}
	}
	for _, pod := range in.Pods { // The others are promised or pending: which, the NodeClaim says.
		if pod.Spec.NodeName == name || pod.Spec.NodeName == "" {
			one.Pods = append(one.Pods, pod)
		}
	}
	row := New(one).Nodes[0]
	row.Ready = ReadyOf(claim, in)
	return row
}

// paused lists the NodePools whose disruption is paused, by name.
func paused(pools []*karpv1.NodePool) []string {
	var out []string
	for _, pool := range pools {
		if disruption.Paused(pool) {
			out = append(out, pool.Name)
		}
	}
	slices.Sort(out)
	return out
}

// PauseText returns which NodePools' disruption is paused, as a sentence; there is at least one.
func (o Overview) PauseText() string {
	if len(o.Paused) == 1 {
		return "Disruption is paused for NodePool " + o.Paused[0] + ": annotation " + catalog.PausedAnnotation
	}
	return "Disruption is paused for NodePools " + strings.Join(o.Paused, ", ") + ": annotation " + catalog.PausedAnnotation
}

// notReady lists the NodePools whose condition Ready is not True.
func notReady(pools []*karpv1.NodePool) []NotReady {
	var out []NotReady
	for _, pool := range pools {
		set := pool.DeepCopy().StatusConditions() // It adds the conditions that are missing.
		ready := set.Root()
		if ready.IsTrue() {
			continue
		}
		message := "it has not been checked yet"
		if ready != nil {
			message = cmp.Or(ready.Message, message)
		}
		for _, c := range set.List() {
			if c.IsFalse() && c.Type != ready.Type {
				message = fmt.Sprintf("%s: %s: %s", c.Type, c.Reason, c.Message)
				break
			}
		}
		out = append(out, NotReady{pool.Name, message})
	}
	slices.SortFunc(out, func(a, b NotReady) int { return cmp.Compare(a.NodePool, b.NodePool) })
	return out
}

func newRow(claim *karpv1.NodeClaim, node *corev1.Node) NodeRow {
	expected := ParseExpected(claim.Annotations[catalog.ExpectedAnnotation])
	cost, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
	if record.StandbyOf(claim).Off() { // EC2 bills the volumes of a stopped instance alone.
		cost = catalog.Cost{Volumes: cost.Volumes}
		expected.Price = cost.Volumes
	}
	out := NodeRow{
		Cost:         cost,
		Created:      claim.CreationTimestamp.Time,
		Why:          whyTerminating(claim),
		NodeClaim:    claim.Name,
		Node:         claim.Status.NodeName,
		NodePool:     claim.Labels[karpv1.NodePoolLabelKey],
		InstanceType: cmp.Or(claim.Labels[corev1.LabelInstanceTypeStable], expected.InstanceType),
		Zone:         cmp.Or(claim.Labels[corev1.LabelTopologyZone], expected.Zone),
		CapacityType: cmp.Or(claim.Labels[karpv1.CapacityTypeLabelKey], expected.CapacityType),
		Price:        expected.Price,
		CoveredBy:    claim.Annotations[catalog.CoveredByAnnotation],
		State:        stateOf(claim, node),
		Launched:     claim.Status.ProviderID != "" || node != nil,
	}
	if out.State == StateNotReady {
		c := unready(node)
		out.Why = cmp.Or(c.Message, c.Reason)
	}
	return out
}

func stateOf(claim *karpv1.NodeClaim, node *corev1.Node) State {
	switch {
	case !claim.DeletionTimestamp.IsZero():
		return StateTerminating
	case record.StandbyOf(claim).Off():
		return StateAsleep
	case conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) && unready(node) != nil:
		return StateNotReady
	case conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized):
		return StateReady
	case conditions.ClaimIs(claim, karpv1.ConditionTypeRegistered):
		return StateJoined
	case node != nil:
		return StateBooting
	case claim.Status.ProviderID != "":
		return StateLaunching
	}
	return StateRecorded
}

// whyTerminating returns the reason for which slipway disrupted a NodeClaim, such as drifted or spot interrupted, empty for others.
func whyTerminating(claim *karpv1.NodeClaim) string {
	if c := conditions.Claim(claim, karpv1.ConditionTypeDisruptionReason); !claim.DeletionTimestamp.IsZero() && c.IsTrue() {
		return strings.ReplaceAll(c.Reason, "_", " ")
	}
	return ""
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

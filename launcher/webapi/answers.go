package webapi

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Nodes is the answer of /api/v1/nodes.
type Nodes struct {
	// Nodes that slipway launched or is launching, in the order of their NodeClaims' names.
	Nodes []view.NodeRow `json:"nodes"`
	// Launched is how many of them EC2 has launched.
	Launched int `json:"launched"`
	// Others is how many other nodes the cluster has.
	Others int `json:"otherNodes"`
	// CostPerHour of the launched ones, in USD.
	CostPerHour float64 `json:"usdPerHour"`
	// Unpriced is how many of them have no known price, such as those that a Karpenter launched: CostPerHour leaves them out.
	Unpriced int `json:"unpriced,omitempty"`
	// Cost is CostPerHour by part, as far as the parts are known.
	Cost catalog.Cost `json:"cost"`
	// SpotShare of CostPerHour is for nodes that EC2 may interrupt, 0 to 1.
	SpotShare float64 `json:"spotShare"`
	// NotReady are the NodePools that are not Ready, by name.
	NotReady []view.NotReady `json:"nodePoolsNotReady,omitempty"`
	// Paused are the NodePools whose nodes are not disrupted because of the annotation slipway.dev/disruption-paused, by name.
	Paused []string `json:"nodePoolsPaused,omitempty"`
	// Troubles are the errors that launches end in now.
	Troubles []view.Trouble `json:"troubles,omitempty"`
}

// Pods is the answer of /api/v1/pods.
type Pods struct {
	// Namespace of the pods; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Pods counts those that are not owned by a DaemonSet.
	Pods view.PodCounts `json:"pods"`
	// Pending are those without a node and a promise, by owner and reason, the largest first, at most 1,000 rows.
	Pending []Class `json:"pending,omitempty"`
	// More is how many rows more there are.
	More int `json:"more,omitempty"`
}

// Node is the answer of /api/v1/nodes/{name}.
type Node struct {
	view.NodeRow
	// Timeline is what has happened to it, by time.
	Timeline []view.Moment `json:"timeline"`
}

// NodePods is the answer of /api/v1/nodes/{name}/pods.
type NodePods struct {
	// Pods on the node and those that wait for it, the ones of DaemonSets last, by name, at most 1,000.
	Pods []view.PodRow `json:"pods"`
	// More is how many pods more there are.
	More int `json:"more,omitempty"`
}

// Pod is the answer of /api/v1/namespaces/{namespace}/pods/{name}.
type Pod struct {
	// Namespace of the pod.
	Namespace string `json:"namespace"`
	// Name of the pod.
	Name string `json:"name"`
	// Phase of the pod.
	Phase corev1.PodPhase `json:"phase"`
	// Why is the message of its condition PodScheduled while it has no node, or that no scheduler serves it.
	Why string `json:"why,omitempty"`
	// Reasons for which no node is launched for it, those of the NodePools that it could have first.
	Reasons []Reason `json:"reasons,omitempty"`
	// NodeClaim on which it has its place, by promise or by its node; empty for none.
	NodeClaim string `json:"nodeClaim,omitempty"`
	// Node is the pod's; empty while it has none.
	Node string `json:"node,omitempty"`
	// Ready is when the NodeClaim's node will be ready; nil for one that is, and where no node has booted yet.
	Ready *view.Estimate `json:"ready,omitempty"`
	// Timeline is what has happened to it and to its node since it was created, by time. The scheduler's failure, images and containers are those of Events,
	// which the API server keeps for an hour.
	Timeline []view.Moment `json:"timeline"`
	// Note is why the timeline of a pod that is bound has no images; empty where it has.
	Note string `json:"note,omitempty"`
}

// Faults is the answer of /api/v1/faults.
type Faults struct {
	// Offerings that EC2 refuses, the ones that are tried again last first, at most 1,000 rows. Only the replica that leads knows them.
	Offerings []view.Fault `json:"offerings"`
	// More is how many rows more there are.
	More int `json:"more,omitempty"`
	// Launches are the errors for which launches wait now, such as throttling.
	Launches []view.Trouble `json:"launches"`
	// Standby means that the replica does not lead: it does not know which offerings EC2 refuses.
	Standby bool `json:"standby,omitempty"`
}

// Consolidation is the answer of /api/v1/consolidation.
type Consolidation struct {
	view.Consolidation
	// Standby means that the replica does not lead: it does not know what was decided.
	Standby bool `json:"standby,omitempty"`
}

// Decisions is the answer of /api/v1/decisions.
type Decisions struct {
	// Decisions of the last 24 hours, the latest first, at most 1,000.
	Decisions []view.Decision `json:"decisions"`
}

// mostPending bounds the rows of pending pods, mostPods those of a node's pods, and mostFaults those of faults.
const mostPending, mostPods, mostFaults = 1000, 1000, 1000

func faultsOf(offerings []view.Fault, launches []view.Trouble) Faults {
	shown := min(len(offerings), mostFaults)
	return Faults{Offerings: offerings[:shown], More: len(offerings) - shown, Launches: append([]view.Trouble{}, launches...)}
}

func nodesOf(o view.Overview) Nodes {
	return Nodes{
		Nodes: o.Nodes, Launched: o.Launched, Others: o.Others, CostPerHour: catalog.Micro(o.CostPerHour), Unpriced: o.Unpriced,
		Cost: o.Cost.Rounded(), SpotShare: o.SpotShare, NotReady: o.NotReady, Paused: o.Paused, Troubles: o.Troubles,
	}
}

func podsOf(in view.Objects) Pods {
	in.Why = func(pod *corev1.Pod) string { return view.WhyPending(pod, in.Now) }
	pods, pending := view.Pods(in)
	shown := min(len(pending), mostPending)
	return Pods{Namespace: in.Namespace, Pods: pods, Pending: classes(pending[:shown], in.Pods), More: len(pending) - shown}
}

// nodePodsOf returns the pods of a node. claim is nil for a node that slipway does not manage.
func nodePodsOf(in view.Objects, name string, claim *karpv1.NodeClaim) NodePods {
	row := view.NodeRow{Node: name}
	if claim != nil {
		row = view.NodeRow{NodeClaim: claim.Name, Node: claim.Status.NodeName}
	}
	rows := append([]view.PodRow{}, view.PodsOf(in, row)...)
	shown := min(len(rows), mostPods)
	return NodePods{Pods: rows[:shown], More: len(rows) - shown}
}

func podOf(pod *corev1.Pod, in view.Objects, stages []view.Moment) Pod {
	claim := view.ClaimOf(pod, in)
	out := Pod{Namespace: pod.Namespace, Name: pod.Name, Phase: pod.Status.Phase, Why: view.WhyPending(pod, in.Now), Reasons: reasonsOf(pod), Node: pod.Spec.NodeName}
	var node *corev1.Node
	if claim != nil {
		out.NodeClaim, node = claim.Name, view.NodeOf(claim, in.Nodes)
		out.Ready = view.ReadyOf(claim, in)
	}
	out.Timeline = view.PodTimeline(pod, claim, node, stages)
	return out
}

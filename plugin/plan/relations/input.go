package relations

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

// Input is the classes that are planned, and what exists already.
type Input struct {
	// Classes are the pods that are planned, grouped by identical needs. They are known by their index.
	Classes []Class
	// Nodes are those that exist or are in flight.
	Nodes []Node
	// Namespaces are the labels of each namespace by its name, for namespaceSelectors; nil where they are not known.
	Namespaces map[string]map[string]string
	// Budget bounds the work; nil for a budget without end.
	Budget *budget.Budget
}

// Class is pods of identical scheduling needs.
type Class struct {
	// Pod has the constraints, labels and namespace of the class.
	Pod *corev1.Pod
	// Planned is the pod that stands for the class on a Node, if pods of it were put there by an earlier plan of the same batch.
	Planned *corev1.Pod
	// NodeAffinity is the node selector and the required node affinity of the pod, as alternatives: which nodes its topology
	// spread counts (NodeAffinityPolicy of KEP-3094).
	NodeAffinity []catalog.Requirements
	// SoftSpreads are preferences that the plan is held to.
	SoftSpreads []SoftSpread
	// Priority of the pods: those of a higher one decide where a spread is even.
	Priority int32
	// Excluded says that the class goes nowhere: its constraints are not read.
	Excluded bool
}

// SoftSpread wants the pods that the term matches even over the values of its key.
type SoftSpread struct {
	Term
	// MaxSkew is by how many pods two values may differ.
	MaxSkew int
}

// Node is a node that exists or is in flight.
type Node struct {
	// Name of the Node or the NodeClaim.
	Name string
	// Labels and Taints that it has once it is initialized.
	Labels map[string]string
	// Taints as above.
	Taints []corev1.Taint
	// Pods on it, or promised to it.
	Pods []*corev1.Pod
}

// Part is pods of one class that are placed together.
type Part struct {
	// Class is the index into Input.Classes.
	Class int
	// N is how many pods.
	N int
}

// Lookup returns the value of a label of a place, and whether the place has it.
type Lookup func(key string) (string, bool)

// Domain is one combination of the values of label keys in which pods can be placed.
type Domain struct {
	// Values by label key; a key that nodes of the domain lack is missing.
	Values map[string]string
	// Name is unique among domains over the same keys.
	Name string
	// Weight is how much the domain is to be used before others, whatever their rank.
	Weight int32
	// Rank orders domains: those of equal rank are equally good.
	Rank int
}

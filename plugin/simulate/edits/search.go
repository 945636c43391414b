package edits

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// mostChecks bounds the candidates of one class that the planner is asked about, and mostEdits how many edits are returned.
	mostChecks, mostEdits = 24, 3
)

// Edit is a change of one object after which all pods of a class have a node.
type Edit struct {
	// Object to change, such as "NodePool default" or "Deployment shop/web".
	Object string `json:"object"`
	// Field of the object.
	Field string `json:"field"`
	// Text is what to do, as a sentence.
	Text string `json:"text"`
	// Nodes is how many nodes would be launched for the class; 0 where it fits nodes that exist.
	Nodes int `json:"nodes"`
	// NodePool of the first of them.
	NodePool string `json:"nodePool,omitempty"`
	// InstanceType of the first of them.
	InstanceType string `json:"instanceType,omitempty"`
	// Zone of the first of them.
	Zone string `json:"zone,omitempty"`
	// CapacityType of the first of them.
	CapacityType string `json:"capacityType,omitempty"`
	// Price in USD per hour of what would be launched in addition, for all pending pods.
	Price float64 `json:"usdPerHour"`
}

// Change is what a candidate changes; one of its fields is set.
type Change struct {
	// NodePool takes the place of the one of its name.
	NodePool *karpv1.NodePool
	// Pod has the spec that all pods of the class get.
	Pod *corev1.Pod
}

// Placed is what the planner does with a change.
type Placed struct {
	// All means that all pods of the class are placed, and no more of the other pods are unplaced than without the change.
	All bool
	// Added is by how much the nodes to launch cost more, in USD per hour.
	Added float64
	// Nodes are those to launch for pods of the class first, then the others.
	Nodes []Node
	// Own is how many of Nodes are for pods of the class.
	Own int
}

// Node is a node to launch.
type Node struct {
	// NodePool, InstanceType, Zone and CapacityType of the node.
	NodePool, InstanceType, Zone, CapacityType string
	// Labels that the node would have.
	Labels map[string]string
	// Capacity counts toward the limits of its NodePool.
	Capacity corev1.ResourceList
}

// Class is pods of the same needs that cannot be placed.
type Class struct {
	// Pod is one of them.
	Pod *corev1.Pod
	// Owner is the object whose template they have, such as "Deployment shop/web", or "Pod shop/web".
	Owner string
	// Reasons of the planner, by NodePool.
	Reasons []plan.Reason
}

// Pools are the NodePools with what their nodes use.
type Pools struct {
	// All of them.
	All []*karpv1.NodePool
	// Usage counts toward the limits, by name.
	Usage map[string]corev1.ResourceList
}

// Check returns what the planner does with a change.
type Check func(ctx context.Context, c Change) (Placed, error)

// candidate is an edit that may help.
type candidate struct {
	Edit

	change Change
	// order is the candidate's place: by how far the NodePool is from the pods, then by what is changed.
	order [2]int
	// narrow returns a smaller candidate for what the planner did with this one; nil where there is none.
	narrow func(Placed) *candidate
}

// The order of changes of the same NodePool: a figure, a value, a request, what pods demand, what they tolerate.
const (
	figure = iota
	value
	request
	demand
	toleration
	label
)

// Search returns edits that help, the smallest first. complete is false where the time ended before all candidates were checked.
func Search(ctx context.Context, class Class, pools Pools, check Check) (edits []Edit, complete bool, err error) {
	list := candidates(class, pools)
	var found []candidate
	checks := 0
	for i := range list {
		if checks >= mostChecks || len(found) >= mostEdits && list[i].order[0] > found[0].order[0] {
			break
		}
		c, used, err := tried(ctx, &list[i], check)
		checks += used
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return sorted(found), false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if c != nil {
			found = append(found, *c)
		}
	}
	return sorted(found), true, nil
}

// tried checks a candidate, and the smaller one that follows from the answer; nil if it does not help. used is the number of checks.
func tried(ctx context.Context, c *candidate, check Check) (out *candidate, used int, err error) {
	placed, err := check(ctx, c.change)
	if err != nil || !placed.All {
		return nil, 1, err
	}
	if c.narrow != nil {
		smaller := c.narrow(placed)
		if smaller == nil {
			return nil, 1, nil
		}
		smaller.order = c.order
		again, err := check(ctx, smaller.change)
		if err != nil || !again.All {
			return nil, 2, err
		}
		return smaller.costing(again), 2, nil
	}
	return c.costing(placed), 1, nil
}

// costing returns the candidate with what the planner would launch.
func (c *candidate) costing(p Placed) *candidate {
	c.Nodes, c.Price = p.Own, catalog.Micro(max(p.Added, 0))
	if p.Own > 0 {
		n := p.Nodes[0]
		c.NodePool, c.InstanceType, c.Zone, c.CapacityType = n.NodePool, n.InstanceType, n.Zone, n.CapacityType
	}
	return c
}

func sorted(found []candidate) []Edit {
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.order[0], b.order[0]), cmp.Compare(a.order[1], b.order[1]), cmp.Compare(a.Price, b.Price))
	})
	out := []Edit{}
	for _, c := range found[:min(len(found), mostEdits)] {
		out = append(out, c.Edit)
	}
	return out
}

// candidates returns the edits that each reason suggests, in the order in which they are checked, each once.
func candidates(class Class, pools Pools) []candidate {
	var out []candidate
	seen := map[string]bool{}
	for _, r := range class.Reasons {
		var pool *karpv1.NodePool
		if i := slices.IndexFunc(pools.All, func(p *karpv1.NodePool) bool { return p.Name == r.NodePool }); i >= 0 {
			pool = pools.All[i]
		}
		for _, c := range suggested(r, class, pool, pools) {
			if key := c.Object + "\n" + c.Field; !seen[key] {
				seen[key] = true
				c.order[0] = remoteness(r.Code)
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.order[0], b.order[0]), cmp.Compare(a.order[1], b.order[1]))
	})
	return out
}

// remoteness orders reasons by how far the pod is from the NodePool: it may have it, it selects another one, it does not tolerate its taint.
func remoteness(code string) int {
	switch code {
	case plan.NotSelected:
		return 3
	case "TaintNotTolerated":
		return 2
	case "RequirementsConflict":
		return 1
	}
	return 0
}

// suggested returns the candidates of one reason; pool is nil for a reason that holds for all.
func suggested(r plan.Reason, class Class, pool *karpv1.NodePool, pools Pools) []candidate {
	switch r.Code {
	case "SpreadUnsatisfiable", "AffinityUnsatisfiable":
		return append(softer(class), fewerSelectors(class)...)
	}
	if pool == nil || obstacles(pool, class.Pod) > 1 { // One edit removes one.
		return nil
	}
	switch r.Code {
	case "LimitExceeded":
		return higherLimits(pool, pools.Usage[pool.Name])
	case "NoInstanceTypeFits":
		return append(widened(pool, class.Pod), smallerRequest(class, r.Nearest)...)
	case plan.NotSelected:
		return fewerSelectors(class)
	case "RequirementsConflict":
		out := append(widened(pool, class.Pod), fewerSelectors(class)...)
		return append(out, labeled(pool, class.Pod)...)
	case "TaintNotTolerated":
		return tolerating(class, pool.Spec.Template.Spec.Taints)
	}
	return nil
}

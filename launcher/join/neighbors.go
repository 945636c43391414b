package join

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// looksAtOnce bounds the looks of surroundings at one time: each has all pods of a namespace.
const looksAtOnce = 2

// surroundings reads what constraints of promised pods by topology depend on.
type surroundings struct {
	client client.Reader
	pods   index.Pods
	nodes  index.Nodes
	memory *memory
	binder *bind.Binder
	// turns has an element for each look that goes on.
	turns chan struct{}
}

// neighbors are the neighbors that one look has found so far.
type neighbors struct {
	surroundings
	// claim and node are those of the look.
	claim *karpv1.NodeClaim
	node  *corev1.Node
	// nodes are those of the cluster, by name.
	nodes map[string]*corev1.Node
	// promised are the UIDs that the NodeClaim of a node promises, by the node's name.
	promised map[string]map[string]bool
	// all are the namespaces of which all pods are neighbors.
	all map[string]bool
	// waiting are pods that are not bound, or on nodes that no cache shows yet.
	waiting []*corev1.Pod
	// newcomer means that one was found.
	newcomer bool
	out      []bind.Neighbor
}

// around returns what bind.Meanwhile needs for the pods that are due; nothing where no constraint of theirs or of a bound pod reaches beyond a node.
func (s surroundings) around(ctx context.Context, o Observed) (bind.Around, error) {
	pods := duePods(o)
	if len(pods) == 0 {
		return bind.Around{}, nil
	}
	repelling, err := s.pods.Repelling(ctx)
	if err != nil {
		return bind.Around{}, err
	}
	out := bind.Around{}
	if out.Namespaces, err = s.namespaces(ctx, slices.Concat(pods, repelling)); err != nil {
		return bind.Around{}, err
	}
	reach := scopeOf(pods, out.Namespaces)
	if len(reach.spread) == 0 && len(reach.terms) == 0 && len(repelling) == 0 {
		return bind.Around{}, nil
	}
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return bind.Around{}, ctx.Err()
	}
	if out.Nodes, err = s.nodes.All(ctx); err != nil {
		return bind.Around{}, err
	}
	n := neighbors{
		surroundings: s, claim: o.Claim, node: o.Node, nodes: make(map[string]*corev1.Node, len(out.Nodes)), promised: map[string]map[string]bool{}, all: map[string]bool{},
	}
	for _, node := range out.Nodes {
		n.nodes[node.Name] = node
	}
	err = n.find(ctx, repelling, reach)
	out.Others = n.out
	return out, err
}

// find adds the pods of the scope, and those that repel others. Where topology spread alone counts pods of a namespace, and in most looks no newcomer
// among them, they do not matter.
func (n *neighbors) find(ctx context.Context, repelling []*corev1.Pod, reach scope) error {
	for namespace, due := range reach.spread {
		if reach.terms[namespace] {
			continue
		}
		found, err := n.pods.In(ctx, namespace)
		if err != nil {
			return err
		}
		counted, err := n.counted(ctx, due, found)
		if err != nil {
			return err
		}
		if counted {
			n.all[namespace] = true
			if err := n.add(ctx, found); err != nil {
				return err
			}
		}
	}
	for namespace := range reach.terms {
		found, err := n.pods.In(ctx, namespace)
		if err != nil {
			return err
		}
		n.all[namespace] = true
		if err := n.add(ctx, found); err != nil {
			return err
		}
	}
	others := slices.DeleteFunc(slices.Clone(repelling), func(pod *corev1.Pod) bool { return n.all[pod.Namespace] })
	if err := n.add(ctx, others); err != nil {
		return err
	}
	// Promised pods count beside a newcomer, and for pods that must be beside others. In most looks there is neither.
	if n.newcomer || reach.beside {
		return n.addWaiting(ctx)
	}
	return nil
}

// counted reports whether topology spread of one of the pods that are due counts a newcomer among the pods of their namespace.
func (n *neighbors) counted(ctx context.Context, due, pods []*corev1.Pod) (bool, error) {
	var newcomers []bind.Neighbor
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || disruption.Terminal(pod) {
			continue
		}
		came, err := n.came(ctx, pod)
		if err != nil {
			return false, err
		}
		if node := n.nodes[pod.Spec.NodeName]; came && node != nil {
			newcomers = append(newcomers, bind.NeighborOf(pod, node, true))
		}
	}
	return slices.ContainsFunc(due, func(pod *corev1.Pod) bool { return bind.Counts(pod, n.node, newcomers) }), nil
}

// duePods returns the promised pods that are to be bound now.
func duePods(o Observed) []*corev1.Pod {
	var out []*corev1.Pod
	rules, ready := bind.Rules(), conditions.NodeReady(o.Node)
	for _, s := range o.Slots {
		if _, now := due(o, s, rules, ready); now {
			out = append(out, s.Pod)
		}
	}
	return out
}

// scope are the namespaces whose pods constraints of pods that are due name.
type scope struct {
	// spread has the pods of each namespace with topology spread, which counts pods of their own.
	spread map[string][]*corev1.Pod
	// terms are the namespaces that terms of affinity and anti-affinity name.
	terms map[string]bool
	// beside is true where one of the pods must be beside others.
	beside bool
}

// scopeOf returns the scope of pods.
func scopeOf(pods []*corev1.Pod, namespaces map[string]labels.Set) scope {
	out := scope{spread: map[string][]*corev1.Pod{}, terms: map[string]bool{}}
	for _, pod := range pods {
		spread, affinity, anti := bind.Wide(pod)
		if spread {
			out.spread[pod.Namespace] = append(out.spread[pod.Namespace], pod)
		}
		out.beside = out.beside || len(affinity) > 0
		terms, err := fwk.GetAffinityTerms(pod, slices.Concat(affinity, anti))
		if err != nil {
			continue // The API server accepts no term that cannot be read.
		}
		for _, t := range terms {
			for namespace := range t.Namespaces {
				out.terms[namespace] = true
			}
			for namespace, have := range namespaces {
				if t.NamespaceSelector.Matches(have) {
					out.terms[namespace] = true
				}
			}
		}
	}
	return out
}

// namespaces returns the labels of all namespaces, if a term of the pods selects namespaces by them.
func (s surroundings) namespaces(ctx context.Context, pods []*corev1.Pod) (map[string]labels.Set, error) {
	selects := func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }
	if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		_, affinity, anti := bind.Wide(pod)
		return slices.ContainsFunc(affinity, selects) || slices.ContainsFunc(anti, selects)
	}) {
		return nil, nil
	}
	list := &corev1.NamespaceList{}
	if err := s.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	out := make(map[string]labels.Set, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Labels
	}
	return out, nil
}

// add adds the pods that are bound to known nodes, and keeps the others for addWaiting.
func (n *neighbors) add(ctx context.Context, pods []*corev1.Pod) error {
	n.out = slices.Grow(n.out, len(pods))
	for _, pod := range pods {
		if disruption.Terminal(pod) {
			continue
		}
		node := n.nodes[pod.Spec.NodeName]
		if node == nil {
			n.waiting = append(n.waiting, pod)
			continue
		}
		came, err := n.came(ctx, pod)
		if err != nil {
			return err
		}
		n.newcomer = n.newcomer || came && n.all[pod.Namespace]
		n.out = append(n.out, bind.NeighborOf(pod, node, came))
	}
	return nil
}

// came reports whether a bound pod is a newcomer. The times have whole seconds: in the second of the claim's creation it counts as later.
func (n *neighbors) came(ctx context.Context, pod *corev1.Pod) (bool, error) {
	name := pod.Spec.NodeName
	if disruption.BoundAt(pod).Before(n.claim.CreationTimestamp.Time) || n.binder.Sent(pod.UID, name) {
		return false, nil
	}
	if n.promised[name] == nil {
		promised, err := n.promisedOn(ctx, name)
		if err != nil {
			return false, err
		}
		n.promised[name] = promised
	}
	return !n.promised[name][string(pod.UID)], nil
}

// promisedOn returns the UIDs of the pods that the NodeClaim of a node promises. Pods are bound before the claim's status names the node: until then, the
// instance does.
func (n *neighbors) promisedOn(ctx context.Context, name string) (map[string]bool, error) {
	claims, err := n.claims(ctx, index.ClaimNodeName, name)
	if err != nil {
		return nil, err
	}
	if node := n.nodes[name]; len(claims) == 0 && node != nil && node.Spec.ProviderID != "" {
		if claims, err = n.claims(ctx, index.ClaimProviderID, node.Spec.ProviderID); err != nil {
			return nil, err
		}
	}
	out := map[string]bool{}
	for i := range claims {
		refs, _ := record.Pods(&claims[i]) // A damaged list promises nothing.
		for _, ref := range refs {
			out[ref.UID] = true
		}
	}
	return out, nil
}

// addWaiting adds the pods that are promised and not bound yet. What the launcher has left to the scheduler, or can no longer bind, may go elsewhere. A pod
// that has just been bound may still seem to wait: the caches of pods, Nodes and NodeClaims are at different moments.
func (n *neighbors) addWaiting(ctx context.Context) error {
	for _, pod := range n.waiting {
		claims, err := n.claims(ctx, index.ClaimPromised, string(pod.UID))
		if err != nil {
			return err
		}
		// A claim that ends still has the pods that were promised to another one since.
		i := slices.IndexFunc(claims, func(claim karpv1.NodeClaim) bool {
			ours := pod.Spec.NodeName != "" || n.binder.Bound(pod.UID) || !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue()
			return ours && claim.DeletionTimestamp.IsZero() && !n.memory.hasLeft(claim.UID, pod.UID)
		})
		if i >= 0 {
			n.out = append(n.out, bind.NeighborOf(pod, n.nodeOf(&claims[i]), false))
		}
	}
	return nil
}

// nodeOf returns the Node of a claim, or what is known of it before there is one.
func (n *neighbors) nodeOf(claim *karpv1.NodeClaim) *corev1.Node {
	if node := n.nodes[claim.Status.NodeName]; node != nil {
		return node
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: claim.Labels}, Spec: corev1.NodeSpec{Taints: record.Taints(claim)}}
}

// claims returns the NodeClaims that have a value in an index. They are the cache's and must not be changed.
func (n *neighbors) claims(ctx context.Context, field, value string) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := n.client.List(ctx, list, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeClaims by %s: %w", field, err)
	}
	return list.Items, nil
}

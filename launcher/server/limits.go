package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// nodesLimit is the resource by which a NodePool limits the number of its nodes.
const nodesLimit corev1.ResourceName = "nodes"

// keepReserved is how long room under the limits is reserved for an admitted claim that the cache never shows: its creation may have
// succeeded although it returned an error.
const keepReserved = time.Minute

// ledger admits claims as far as spec.limits of their NodePools allow, whichever offering EC2 picks, and with concurrent requests. The cache
// lags behind the writes, so admitted claims are recorded until the cache shows them.
type ledger struct {
	mu       sync.Mutex
	reserved map[string]reservation
}

type reservation struct {
	pool     string
	capacity corev1.ResourceList
	until    time.Time
	// instanceTypes are those that it was admitted with; pinned means that it was with the expected zone and capacity type alone.
	instanceTypes []string
	pinned        bool
}

// errSentAgain is the answer for a claim that the cache shows already: it is not created a second time, even if it has ended meanwhile,
// since the ledger has not counted it.
var errSentAgain = errors.New("the claim is recorded already")

func newLedger() *ledger { return &ledger{reserved: map[string]reservation{}} }

// admit refuses the claims that would exceed a NodePool's spec.limits, in the order of the request: the plan may have counted with a state
// older than other writers' changes. If only a claim's most expensive instance type would exceed them, the claim is admitted without that
// type.
func (s *Server) admit(ctx context.Context, claims []*api.Claim) ([]error, error) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	out := make([]error, len(claims))
	byPool := map[string][]int{}
	for i, c := range claims {
		byPool[c.GetNodePool()] = append(byPool[c.GetNodePool()], i)
	}
	for name, indexes := range byPool {
		b, err := s.budgetOf(ctx, name)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		own := make([]*api.Claim, len(indexes))
		for k, i := range indexes {
			own[k] = claims[i]
		}
		for k, v := range b.admit(own) {
			i := indexes[k]
			switch {
			case v.refused != "":
				out[i] = &refusal{api.ReasonLimitsExceeded, fmt.Sprintf("claim %s: NodePool %s: %s", claims[i].GetName(), name, v.refused)}
			case v.reserve != nil:
				claims[i].InstanceTypes = v.instanceTypes
				if v.pinned {
					pin(claims[i])
				}
				s.ledger.reserved[claims[i].GetName()] = reservation{
					pool: name, capacity: v.reserve, until: time.Now().Add(keepReserved), instanceTypes: v.instanceTypes, pinned: v.pinned,
				}
			default:
				out[i] = s.ledger.again(claims[i])
			}
		}
	}
	return out, nil
}

// again admits a claim that was admitted before and that the cache does not show, with the same instance types.
func (l *ledger) again(c *api.Claim) error {
	r, ok := l.reserved[c.GetName()]
	if !ok {
		return errSentAgain
	}
	r.until = time.Now().Add(keepReserved)
	l.reserved[c.GetName()] = r
	c.InstanceTypes = r.instanceTypes
	if r.pinned {
		pin(c)
	}
	return nil
}

// withdraw releases the reservation of a claim that was certainly not written.
func (l *ledger) withdraw(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reserved, name)
}

// budgetOf reads a NodePool with limits; nil if it has none or does not exist. The ledger is locked.
func (s *Server) budgetOf(ctx context.Context, name string) (*budget, error) {
	object := &karpv1.NodePool{}
	if err := s.config.Client.Get(ctx, types.NamespacedName{Name: name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	gate := s.config.Gate(object)
	if len(object.Spec.Limits) == 0 && object.Annotations[window.Annotation] == "" && !gate.OneAtATime {
		return nil, nil
	}
	var list karpv1.NodeClaimList
	if err := s.config.Client.List(ctx, &list, client.MatchingLabels{karpv1.NodePoolLabelKey: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	lists := s.types.get()
	own, recorded := make([]*karpv1.NodeClaim, len(list.Items)), make(map[string]bool, len(list.Items))
	for i := range list.Items {
		own[i] = estimated(&list.Items[i], lists)
		recorded[list.Items[i].Name] = true
	}
	limits, _ := gated(object, own, gate)
	b := &budget{limits: limits, recorded: recorded, types: lists.of(object).byName, usd: newUSDLimit(object, lists.of(object).byName, limits)}
	b.usage = nodepool.Usage(own, lists.usdOf(object, limits))
	if !gate.OneAtATime {
		b.going = nodepool.Usage(going(own, s.config.InMove), nil)
	}
	now := time.Now()
	for claim, r := range s.ledger.reserved {
		switch {
		case now.After(r.until) || r.pool == name && b.recorded[claim]:
			delete(s.ledger.reserved, claim)
		case r.pool == name:
			b.usage = sum(b.usage, r.capacity)
			b.recorded[claim] = true
		}
	}
	return b, nil
}

// going returns the NodeClaims whose nodes terminate, or are in a move.
func going(claims []*karpv1.NodeClaim, inMove func(node string) bool) []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for _, c := range claims {
		if c.DeletionTimestamp != nil || c.Status.NodeName != "" && inMove(c.Status.NodeName) {
			out = append(out, c)
		}
	}
	return out
}

// usdOf returns what NodeClaims of the NodePool count against catalog.LimitUSD; nil if it is not among the limits.
func (l lists) usdOf(pool *karpv1.NodePool, limits corev1.ResourceList) func(*karpv1.NodeClaim) int64 {
	usd := newUSDLimit(pool, l.of(pool).byName, limits)
	if !usd.holds {
		return nil
	}
	return nodepool.USD(usd.prices)
}

// budget is the state of one NodePool's limits.
type budget struct {
	limits, usage corev1.ResourceList
	// going is the part of usage that nodes have which terminate, or are in a move, without USD: it does not count against claims that replace nodes.
	going corev1.ResourceList
	// recorded are the names of its NodeClaims: a claim that is sent again counts once.
	recorded map[string]bool
	types    map[string]catalog.InstanceType
	// usd is the limit in USD.
	usd usdLimit
}

// admission is the decision about a claim: the reason of its refusal, or the admitted instance types and the maximum usage. A pinned claim is admitted
// with the expected zone and capacity type alone.
type admission struct {
	refused       string
	instanceTypes []string
	pinned        bool
	reserve       corev1.ResourceList
}

// admit decides about claims together: first each with the instance type that the plan assumes, then, in the remaining room, with all other
// acceptable types and offerings. EC2 may choose any of them.
func (b *budget) admit(claims []*api.Claim) []admission {
	out := make([]admission, len(claims))
	expected := make([]corev1.ResourceList, len(claims))
	for i, c := range claims {
		if b.recorded[c.GetName()] {
			continue
		}
		use, reason := b.least(c)
		next := sum(b.usage, use)
		if reason == "" {
			reason = b.exceeded(next, c)
		}
		if reason != "" {
			out[i].refused = reason
			continue
		}
		b.usage, b.recorded[c.GetName()], expected[i] = next, true, use
	}
	for i, c := range claims {
		if expected[i] == nil {
			continue
		}
		names := b.known(c.GetInstanceTypes(), nil)
		most := b.usd.most(one(highest(names, b.types)), c, names)
		more := sum(b.usage, minus(most, expected[i]))
		if b.exceeded(more, c) == "" {
			b.usage, out[i].reserve, out[i].instanceTypes = more, most, names
			continue
		}
		kept, short := b.usd.narrowed(c, b.known(names, expected[i]), expected[i])
		if short != "" {
			out[i].refused = fmt.Sprintf("%s, unless it has fewer values of %s than minValues asks for", b.exceeded(more, c), short)
			b.usage = minus(b.usage, expected[i])
			continue
		}
		out[i].reserve, out[i].instanceTypes, out[i].pinned = expected[i], kept, b.usd.holds
	}
	return out
}

// least returns a claim's minimum usage: the capacity of the instance type that the plan assumes.
func (b *budget) least(c *api.Claim) (corev1.ResourceList, string) {
	t, known := b.types[c.GetExpected().GetInstanceType()]
	if !known || !slices.Contains(c.GetInstanceTypes(), t.Name) {
		names := b.known(c.GetInstanceTypes(), nil)
		if len(names) == 0 {
			return nil, "the capacity of its instance types is unknown, so that spec.limits cannot be kept"
		}
		return b.usd.most(one(highest(names, b.types)), c, names), ""
	}
	return b.usd.expected(one(t.Capacity), c), ""
}

// known returns the instance types whose capacity is known and, if atMost is set, does not exceed it in any limited resource.
func (b *budget) known(names []string, atMost corev1.ResourceList) []string {
	var out []string
	for _, name := range names {
		t, known := b.types[name]
		fits := known
		for limited := range b.limits {
			have, most := t.Capacity[limited], atMost[limited]
			if atMost != nil && limited != nodesLimit && limited != catalog.LimitUSD && have.Cmp(most) > 0 {
				fits = false
			}
		}
		if fits {
			out = append(out, name)
		}
	}
	return out
}

// exceeded returns the limit that a usage with the claim exceeds; "" if none. If the claim replaces nodes, nodes that terminate do not count: the NodePool is
// within its limits again once they have. Each of them makes room for so much once, however many claims replace it.
func (b *budget) exceeded(usage corev1.ResourceList, c *api.Claim) string {
	if len(c.GetReplaces()) > 0 {
		usage = minus(usage, b.going)
	}
	for _, name := range slices.Sorted(maps.Keys(b.limits)) {
		limit, used := b.limits[name], usage[name]
		if used.Cmp(limit) > 0 {
			return fmt.Sprintf("spec.limits.%s: %s", name, figures(name, usage, b.limits))
		}
	}
	return ""
}

// one returns the usage of one node with that capacity.
func one(capacity corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(capacity)
	if out == nil {
		out = corev1.ResourceList{}
	}
	out[nodesLimit] = *resource.NewQuantity(1, resource.DecimalSI)
	return out
}

// highest returns, for each resource, the most that any of the instance types has.
func highest(names []string, types map[string]catalog.InstanceType) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range names {
		for r, q := range types[name].Capacity {
			if have, ok := out[r]; !ok || q.Cmp(have) > 0 {
				out[r] = q
			}
		}
	}
	return out
}

// estimated sets the maximum usage for a claim without an instance, so that limits count it from the start.
func estimated(claim *karpv1.NodeClaim, lists lists) *karpv1.NodeClaim {
	if len(claim.Status.Capacity) > 0 || claim.Spec.NodeClassRef == nil {
		return claim
	}
	out := *claim
	out.Status.Capacity = highest(record.InstanceTypes(claim), lists.ofClaim(claim).byName)
	return &out
}

func sum(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range b {
		total := out[name]
		total.Add(q)
		out[name] = total
	}
	return out
}

func minus(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	for name, q := range b {
		left := out[name]
		left.Sub(q)
		out[name] = left
	}
	return out
}

package launch

import (
	"cmp"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// portion is the part of a group that one call asks for. EC2 counts the instances of an account's launches: by default a thousand at once and
// then two a second (EC2 developer guide, "Request throttling for the Amazon EC2 API", resource rate limiting). It refuses a call for more
// than are left as a whole, so that a large call may be refused for ever while others take what comes back.
type portion struct {
	// most is how many claims a call may ask for; 0 means all.
	most int
	// rest are the claims for later calls.
	rest []*karpv1.NodeClaim
}

// take returns the claims of the next call, and keeps the others.
func (p *portion) take(claims []*karpv1.NodeClaim) []*karpv1.NodeClaim {
	if p.most == 0 || len(claims) <= p.most {
		return claims
	}
	p.rest = append(p.rest, claims[p.most:]...)
	return slices.Clone(claims[:p.most])
}

// join returns the claims with those that were kept, in the order of their names.
func (p *portion) join(claims []*karpv1.NodeClaim) []*karpv1.NodeClaim {
	if len(p.rest) == 0 {
		return claims
	}
	claims = append(claims, p.rest...)
	p.rest = nil
	slices.SortFunc(claims, func(a, b *karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return claims
}

// answered notes how a call for so many claims ended: the next one asks for half of them, or for up to twice as many as this one might.
func (p *portion) answered(asked int, throttled bool) {
	switch {
	case throttled:
		p.most = max(asked/2, 1)
	case len(p.rest) == 0:
		p.most = 0
	default:
		p.most *= 2
	}
}

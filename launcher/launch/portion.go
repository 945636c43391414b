package launch

import (
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

// take returns those of the claims and of the rest that the next call asks for, in the order of their names. It keeps the others.
func (p *portion) take(claims []*karpv1.NodeClaim) []*karpv1.NodeClaim {
	all := slices.Concat(claims, p.rest)
	sortByName(all)
	n := len(all)
	if p.most > 0 {
		n = min(n, p.most)
	}
	p.rest = all[n:]
	return all[:n:n]
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

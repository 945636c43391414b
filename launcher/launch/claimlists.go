package launch

import (
	"context"
	"fmt"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// claimLists are those of all NodeClaims, for the searches of all groups. After a crash each call that was in flight has a search, and thousands
// of NodeClaims are tens of megabytes: there is one list at a time, and all searches that asked before it began share it.
type claimLists struct {
	reader client.Reader
	begun  atomic.Int64
	// turn has an element while a search reads or makes last, which is the list that began last.
	turn chan struct{}
	last claimList
}

func newClaimLists(reader client.Reader) *claimLists {
	return &claimLists{reader: reader, turn: make(chan struct{}, 1)}
}

// claimList is what a search needs of all NodeClaims at one time. It is not changed any more.
type claimList struct {
	// owned are the provider IDs of the NodeClaims with an instance.
	owned map[string]bool
	// waiting are the NodeClaims without an instance that are not being deleted.
	waiting []*karpv1.NodeClaim
	err     error
}

// next returns a list that began after next was called.
func (l *claimLists) next(ctx context.Context) claimList {
	due := l.begun.Load() + 1
	select {
	case <-ctx.Done():
		return claimList{err: context.Cause(ctx)}
	case l.turn <- struct{}{}:
	}
	defer func() { <-l.turn }()
	if l.begun.Load() < due {
		l.begun.Add(1)
		l.last = l.list(ctx)
	}
	return l.last
}

func (l *claimLists) list(ctx context.Context) claimList {
	var all karpv1.NodeClaimList
	if err := l.reader.List(ctx, &all); err != nil {
		return claimList{err: fmt.Errorf("listing NodeClaims: %w", err)}
	}
	out := claimList{owned: make(map[string]bool, len(all.Items))}
	for i := range all.Items {
		switch c := &all.Items[i]; {
		case c.Status.ProviderID != "":
			out.owned[c.Status.ProviderID] = true
		case c.DeletionTimestamp.IsZero():
			out.waiting = append(out.waiting, c.DeepCopy()) // It would keep the others in memory.
		}
	}
	return out
}

package server

import (
	"context"
	"errors"
	"sync"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// parallel is how many objects of one request are written at once.
const parallel = 64

// writing is one request on its way to the API server.
type writing struct {
	*Server
	in  *api.LaunchRequest
	out *api.LaunchResponse
	// over are the claims that are refused already.
	over []error
	// recorded are the NodeClaims that were written.
	recorded []*karpv1.NodeClaim

	mu sync.Mutex
	// open is a write of which nobody knows whether it was done.
	open error
}

// each calls f for the numbers below n, many at once.
func each(n int, f func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// answer makes the result of a write.
func (w *writing) answer(name string, err error) *api.Result {
	if lost, ok := errors.AsType[*unansweredError](err); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open = lost
	}
	return result(name, err)
}

// claims writes a NodeClaim for every claim.
func (w *writing) claims(ctx context.Context) {
	claims := w.in.GetClaims()
	each(len(claims), func(i int) {
		err := w.over[i]
		switch {
		case errors.Is(err, errSentAgain):
			err = w.recordedBefore(ctx, claims[i])
		case err == nil:
			w.recorded[i], err = w.record(ctx, claims[i])
		}
		if err != nil {
			err = w.surely(ctx, claims[i], err)
		}
		if unwritten(err) {
			w.ledger.withdraw(claims[i].GetName())
		}
		w.out.Claims[i] = w.answer(claims[i].GetName(), err)
	})
}

// placements writes the promises of every placement that is not refused already.
func (w *writing) placements(ctx context.Context) {
	placements := w.in.GetPlacements()
	each(len(placements), func(i int) {
		if p := placements[i]; w.out.GetPlacements()[i] == nil {
			w.out.Placements[i] = w.answer(p.GetNodeClaim(), w.place(ctx, p))
		}
	})
}

package server

import (
	"context"
	"errors"
	"sync"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// parallel is the number of concurrent writes of one request.
const parallel = 64

// writing is the state of one request while it is written.
type writing struct {
	*Server
	in  *api.LaunchRequest
	out *api.LaunchResponse
	// over holds the refusals of claims that are refused already.
	over []error
	// stamp gives a claim the ID of its launch.
	stamp func(*karpv1.NodeClaim)
	// recorded are the NodeClaims that were written.
	recorded []*karpv1.NodeClaim

	mu sync.Mutex
	// open is the error of a write that may or may not have been done.
	open error
}

// each calls f for the numbers below n, concurrently.
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

// answer converts the outcome of a write to a result.
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
			_, err = w.surely(ctx, claims[i], err)
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

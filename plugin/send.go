package plugin

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
)

const (
	// launchTries, launchTimeout and launchPerNode bound how long one batch is sent; after that the next full state shows what of it
	// was recorded. An API server that creates many pods at the same moment writes some tens of NodeClaims a second.
	launchTries   = 5
	launchTimeout = 5 * time.Second
	launchPerNode = 100 * time.Millisecond
)

// launcher is the part of link.Link that launches.
type launcher interface {
	Launch(ctx context.Context, req *api.LaunchRequest) (*api.LaunchResponse, error)
}

// send repeats the request until it is answered: claims have their names already, so that a repetition records nothing
// twice. It runs beside the planner's goroutine.
func send(ctx context.Context, to launcher, req *api.LaunchRequest) (*api.LaunchResponse, error) {
	wait := 50 * time.Millisecond
	timeout := launchTimeout + time.Duration(len(req.GetClaims())+len(req.GetPlacements()))*launchPerNode
	for try := 1; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		resp, err := to.Launch(attempt, req)
		cancel()
		var refused *api.IncompatibleError
		if err == nil || try == launchTries || ctx.Err() != nil || errors.As(err, &refused) {
			return resp, err
		}
		klog.FromContext(ctx).V(2).Info("Launch was not answered, will send it again", "batch", req.GetBatch(), "try", try, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 4
	}
}

// refusals returns what the launcher did not record, by name.
func refusals(resp *api.LaunchResponse) map[string]*api.Result {
	out := map[string]*api.Result{}
	for _, r := range slices.Concat(resp.GetClaims(), resp.GetPlacements()) {
		if !r.GetRecorded() {
			out[r.GetName()] = r
		}
	}
	return out
}

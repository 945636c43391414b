package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// firstWait and lastWait bound the pause before a write is repeated whose answer did not come.
const firstWait, lastWait = 20 * time.Millisecond, 500 * time.Millisecond

// unansweredError says that a write may have been done or not. A scheduler that took it for a refusal would plan the pods of
// the claim again while the claim is launched.
type unansweredError struct{ cause error }

// Error names the cause.
func (e *unansweredError) Error() string { return "the API server did not answer: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *unansweredError) Unwrap() error { return e.cause }

// unanswered says that an error is no answer, or that of a server that gave up on its own part.
func unanswered(err error) bool {
	if err == nil || unwritten(err) {
		return false
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	switch answer.Status().Code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// definite repeats a write that does no harm a second time until it is answered. It fails with an unansweredError when the
// context ends before.
func definite(ctx context.Context, write func() error) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := write()
		if !unanswered(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return &unansweredError{err}
		case <-time.After(wait):
		}
	}
}

// surely looks, before a claim is refused, whether an earlier try has written it: that one was not answered, and what it wrote is
// being launched.
func (s *Server) surely(ctx context.Context, claim *api.Claim, refused error) error {
	have := &karpv1.NodeClaim{}
	err := definite(ctx, func() error { return s.config.Reader.Get(ctx, types.NamespacedName{Name: claim.GetName()}, have) })
	switch {
	case apierrors.IsNotFound(err):
		return refused
	case err != nil:
		return err
	}
	return sameClaim(have, claim)
}

// sameClaim says whether the NodeClaim that has a claim's name can be what an earlier try has written.
func sameClaim(have *karpv1.NodeClaim, claim *api.Claim) error {
	switch {
	case !have.DeletionTimestamp.IsZero():
		return &refusal{"NodeClaimLeaving", fmt.Sprintf("NodeClaim %s is being deleted", have.Name)}
	case have.Labels[karpv1.NodePoolLabelKey] != claim.GetNodePool():
		return &refusal{"NameTaken", fmt.Sprintf("NodeClaim %s belongs to NodePool %s", have.Name, have.Labels[karpv1.NodePoolLabelKey])}
	}
	return nil
}

package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// firstWait and lastWait bound the pause before an unanswered write is repeated.
const firstWait, lastWait = 20 * time.Millisecond, 500 * time.Millisecond

// unansweredError means that it is unknown whether a write was done. If the scheduler took it for a refusal, it would plan the claim's pods
// again while the claim is launched.
type unansweredError struct{ cause error }

// Error returns a text with the cause.
func (e *unansweredError) Error() string { return "the API server did not answer: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *unansweredError) Unwrap() error { return e.cause }

// unanswered reports whether an error leaves open whether a write was done.
func unanswered(err error) bool {
	return !unwritten(err) && leadership.Unanswered(err)
}

// definite repeats an idempotent write until it is answered. It returns an unansweredError if the context ends first.
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

// surely checks, before a claim is refused, whether an earlier unanswered try has written it: then it is being launched. It returns what is
// written.
func (s *Server) surely(ctx context.Context, claim *api.Claim, refused error) (*karpv1.NodeClaim, error) {
	have := &karpv1.NodeClaim{}
	err := definite(ctx, func() error { return s.config.Reader.Get(ctx, types.NamespacedName{Name: claim.GetName()}, have) })
	switch {
	case apierrors.IsNotFound(err):
		return nil, refused
	case err != nil:
		return nil, err
	}
	return have, sameClaim(have, claim)
}

// sameClaim returns an error unless the NodeClaim with a claim's name can be what an earlier try has written.
func sameClaim(have *karpv1.NodeClaim, claim *api.Claim) error {
	switch {
	case !have.DeletionTimestamp.IsZero():
		return &refusal{"NodeClaimLeaving", fmt.Sprintf("NodeClaim %s is being deleted", have.Name)}
	case have.Labels[karpv1.NodePoolLabelKey] != claim.GetNodePool():
		return &refusal{"NameTaken", fmt.Sprintf("NodeClaim %s belongs to NodePool %s", have.Name, have.Labels[karpv1.NodePoolLabelKey])}
	case len(claim.GetPods()) > 0 && !slices.ContainsFunc(claim.GetPods(), promisedBy(have)):
		// Names have five random characters: with a thousand nodes one of 14,000 is the name of a node that has long joined.
		return &refusal{"NameTaken", fmt.Sprintf("NodeClaim %s was launched for other pods", have.Name)}
	}
	return nil
}

// promisedBy returns a function that reports whether a pod is promised to the NodeClaim.
func promisedBy(claim *karpv1.NodeClaim) func(*api.PodRef) bool {
	uids := sets.New(slices.Collect(catalog.PromisedUIDs(claim.Annotations[catalog.PodsAnnotation]))...)
	return func(pod *api.PodRef) bool { return uids.Has(pod.GetUid()) }
}

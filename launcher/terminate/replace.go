package terminate

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/drain"
)

// Asker asks the scheduler.
type Asker interface {
	// MakeRoom requests room for pods of terminating nodes. If it is repeated, the scheduler plans what is missing by then. An error means
	// that there was no answer.
	MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error)
}

const (
	// askTimeout bounds one request.
	askTimeout = 5 * time.Second
	// aheadPeriod is the period of checking a replacement that is being launched.
	aheadPeriod = 250 * time.Millisecond
)

// How evictions began, as metric label.
const (
	aheadUnneeded   = "unneeded"
	aheadRoom       = "room"
	aheadLaunched   = "launched"
	aheadLaunching  = "launching"
	aheadUnanswered = "unanswered"
)

// replacements records, by the UID of a terminating claim, the progress of the room for its pods. A new process asks again, and gets the
// claims that were launched already.
type replacements struct {
	mu      sync.Mutex
	byClaim map[types.UID]*replacement
}

type replacement struct {
	since    time.Time
	answered bool
	claims   []string
	over     bool
}

func (r *replacements) of(claim types.UID, now time.Time) replacement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byClaim[claim] == nil {
		r.byClaim[claim] = &replacement{since: now}
	}
	return *r.byClaim[claim]
}

func (r *replacements) set(claim types.UID, next replacement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byClaim[claim] = &next
}

func (r *replacements) forget(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byClaim, claim)
}

// replace makes the scheduler plan and launch room for the pods that must move, before the first of them is evicted.
func (t *Terminator) replace(ctx context.Context, s *scope) (time.Duration, error) {
	have := t.ahead.of(s.claim.UID, s.now)
	if have.over || s.died || s.claim.StatusConditions().IsTrue(karpv1.ConditionTypeDrained) {
		return 0, nil
	}
	pods, err := t.podsOn(ctx, t.config.Client, s.nodes)
	if err != nil {
		return 0, err
	}
	reason := reasonOf(s.claim)
	moving := disruption.DisplacedPods(disruption.DrainFacts{Pods: pods, Now: s.now, Deadline: s.deadline}, instanceEnds(reason))
	if len(moving) == 0 {
		t.evictFrom(ctx, s, have, aheadUnneeded)
		return 0, nil
	}
	facts := drain.Replacement{
		Waited: s.now.Sub(have.since), Answered: have.answered, Late: !s.deadline.IsZero() && !s.now.Before(s.deadline),
		InstanceEnds: instanceEnds(reason),
	}
	if facts.Launching, facts.Failed, err = t.launches(ctx, have.claims); err != nil {
		return 0, err
	}
	switch drain.NextAhead(facts) {
	case drain.Ask:
		t.askFor(ctx, s, have, moving)
		return aheadPeriod, nil
	case drain.AwaitLaunch:
		return aheadPeriod, nil
	case drain.Evict:
	}
	outcome := aheadLaunched
	switch {
	case !have.answered:
		outcome = aheadUnanswered
	case facts.Launching+facts.Failed > 0:
		outcome = aheadLaunching
	case len(have.claims) == 0:
		outcome = aheadRoom
	}
	t.evictFrom(ctx, s, have, outcome)
	return 0, nil
}

// evictFrom ends the wait.
func (t *Terminator) evictFrom(ctx context.Context, s *scope, have replacement, outcome string) {
	have.over = true
	t.ahead.set(s.claim.UID, have)
	t.metrics.ahead.WithLabelValues(outcome).Inc()
	if outcome != aheadUnneeded {
		klog.FromContext(ctx).Info("Pods may be evicted", "nodeClaim", klog.KObj(s.claim), "replacement", outcome,
			"nodeClaims", have.claims, "waited", s.now.Sub(have.since))
	}
}

// askFor requests room for the pods. A missing answer is not an error: the request is repeated.
func (t *Terminator) askFor(ctx context.Context, s *scope, have replacement, moving []*corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	q := &api.MakeRoom{Purpose: api.Purpose_PURPOSE_TERMINATION, Reason: reasonOf(s.claim)}
	for _, pod := range moving {
		q.Pods = append(q.Pods, string(pod.UID))
		if !slices.Contains(q.NodeNames, pod.Spec.NodeName) {
			q.NodeNames = append(q.NodeNames, pod.Spec.NodeName)
		}
	}
	logger := klog.FromContext(ctx).WithValues("nodeClaim", klog.KObj(s.claim), "nodes", q.GetNodeNames())
	answer, err := t.config.Asker.MakeRoom(ctx, q)
	if err != nil {
		logger.V(2).Info("No room was planned for the pods yet", "err", err)
		have.answered, have.claims = false, nil
		t.ahead.set(s.claim.UID, have)
		return
	}
	if why := answer.GetNoRoom(); why != "" {
		logger.Info("Pods of a node that terminates have no room", "message", why)
	}
	have.answered, have.claims = true, answer.GetNodeClaims()
	t.ahead.set(s.claim.UID, have)
}

// launches counts the claims for which EC2 has not answered, and the deleted ones.
func (t *Terminator) launches(ctx context.Context, names []string) (launching, failed int, err error) {
	for _, name := range names {
		claim := &karpv1.NodeClaim{}
		err := t.config.Client.Get(ctx, client.ObjectKey{Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil && claim.DeletionTimestamp != nil:
			failed++
		case err != nil:
			return 0, 0, err
		case claim.Status.ProviderID == "":
			launching++
		}
	}
	return launching, failed, nil
}

// reasonOf returns the reason of the claim's termination.
func reasonOf(claim *karpv1.NodeClaim) string {
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); c.IsTrue() {
		return c.Reason
	}
	return "deleted"
}

// instanceEnds reports whether EC2 takes the instance away, whatever its pods need.
func instanceEnds(reason string) bool {
	return slices.Contains([]string{
		string(cloud.SpotInterrupted), string(cloud.CapacityReservation), string(cloud.InstanceStopped), string(cloud.InstanceTerminated),
	}, reason)
}

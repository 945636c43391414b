package terminate

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Stream numbers the stream that questions go to. Another one may be that of a scheduler that has just started, which has no reservations.
	Stream() uint64
}

const (
	// askTimeout bounds one request.
	askTimeout = 5 * time.Second
	// spotNotice is the time between EC2's notice of a spot interruption and the end of the instance.
	spotNotice = 2 * time.Minute
	// aheadPeriod is the period of checking a replacement that is being launched.
	aheadPeriod = 250 * time.Millisecond
	// mostAgain bounds how often a drain waits again for a scheduler that has started: one that ends again and again holds up no drain.
	mostAgain = 3
)

// How evictions began, as metric label.
const (
	aheadUnneeded   = "unneeded"
	aheadRoom       = "room"
	aheadNone       = "none"
	aheadReady      = "ready"
	aheadLaunched   = "launched"
	aheadLaunching  = "launching"
	aheadUnanswered = "unanswered"
)

// replacements records, by terminating claim whose Nodes are cordoned, the progress of the room for its pods. A new process asks again,
// and gets the claims that were launched already.
type replacements struct {
	mu      sync.Mutex
	byClaim map[claimID]*replacement
}

type replacement struct {
	// cordoned is when this process found the Nodes cordoned first.
	cordoned time.Time
	since    time.Time
	answered bool
	// noRoom means that the answer names pods that have none.
	noRoom bool
	claims []string
	over   bool
	// stream is that of the scheduler that was asked last, again how many schedulers were asked before it.
	stream uint64
	again  int
	// counted means that the metric has the node.
	counted bool
}

// renewed returns the record as it is for a scheduler that was not asked yet, if questions go to another one than the record's: the room that was reserved on
// existing nodes is lost with the old one.
func (r replacement) renewed(stream uint64, now time.Time) replacement {
	if r.stream == stream || r.again == mostAgain || !r.answered && !r.over {
		return r
	}
	return replacement{cordoned: r.cordoned, since: now, stream: stream, again: r.again + 1, counted: r.counted}
}

func (r *replacements) of(claim claimID, now time.Time) replacement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byClaim[claim] == nil {
		r.byClaim[claim] = &replacement{cordoned: time.Now(), since: now}
	}
	return *r.byClaim[claim]
}

func (r *replacements) set(claim claimID, next replacement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byClaim[claim] = &next
}

// forget drops the claims of that name.
func (r *replacements) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.byClaim, func(id claimID, _ *replacement) bool { return id.name == name })
}

// replace makes the scheduler plan and launch room for the pods that must move, before the first of them is evicted.
func (t *Terminator) replace(ctx context.Context, s *scope) (time.Duration, error) {
	have := t.ahead.of(idOf(s.claim), s.now).renewed(t.config.Asker.Stream(), s.now)
	t.ahead.set(idOf(s.claim), have)
	if have.over || s.died || s.claim.StatusConditions().IsTrue(karpv1.ConditionTypeDrained) {
		return 0, nil
	}
	reason := reasonOf(s.claim)
	var moving []*corev1.Pod
	_, err := t.config.podsOn(ctx, s.nodes, func(pods []*corev1.Pod) (enough bool) {
		moving = disruption.DisplacedPods(disruption.DrainFacts{Pods: pods, Now: s.now, Deadline: s.deadline}, instanceEnds(reason))
		return len(moving) > 0
	})
	if err != nil {
		return 0, err
	}
	if len(moving) == 0 {
		t.evictFrom(ctx, s, have, aheadUnneeded)
		return 0, nil
	}
	// What fits is judged once, by the beginning of the wait: otherwise a grace period would no longer count as soon as it is time for its pod to go.
	ends := s.ends(reason)
	grace := longestGrace(moving, ends.Sub(have.since))
	facts := drain.Replacement{
		Waited: s.now.Sub(have.since), Answered: have.answered, Late: !s.deadline.IsZero() && !s.now.Before(s.deadline),
		InstanceEnds: instanceEnds(reason), Serving: slices.ContainsFunc(moving, disruption.Serves), Spare: drain.Spare(s.now, ends, grace),
	}
	if err := t.launches(ctx, have.claims, &facts); err != nil {
		return 0, err
	}
	switch drain.NextAhead(facts) {
	case drain.Ask:
		t.askFor(ctx, s, have, moving)
		return aheadPeriod, nil
	case drain.AwaitLaunch, drain.AwaitNodes:
		return aheadPeriod, nil
	case drain.Evict:
	}
	t.evictFrom(ctx, s, have, outcomeOf(have, facts))
	return 0, nil
}

// outcomeOf returns the state of the room for the pods when their evictions begin.
func outcomeOf(have replacement, facts drain.Replacement) string {
	switch {
	case !have.answered:
		return aheadUnanswered
	case facts.Launching+facts.Failed > 0:
		return aheadLaunching
	case len(have.claims) == 0 && have.noRoom:
		return aheadNone
	case len(have.claims) == 0:
		return aheadRoom
	case facts.Booting > 0:
		return aheadLaunched
	}
	return aheadReady
}

// ends returns when the node ends at the latest; zero for never.
func (s *scope) ends(reason string) time.Time {
	end := s.deadline
	if !instanceEnds(reason) {
		return end
	}
	// Only of spot interruptions is known how long they take.
	taken := s.now
	if reason == string(cloud.SpotInterrupted) {
		taken = noticed(s.claim).Add(spotNotice)
	}
	if end.IsZero() || taken.Before(end) {
		end = taken
	}
	return end
}

// noticed returns when EC2 gave notice that it takes the claim's instance: the time of the reason.
func noticed(claim *karpv1.NodeClaim) time.Time {
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); c != nil {
		return c.LastTransitionTime.Time
	}
	return claim.DeletionTimestamp.Time
}

// longestGrace returns the longest of the pods' grace periods that is not longer than the time that was left for them, otherwise the shortest: a pod that cannot
// have all of its own does not decide for others, which may be those of other tenants. There is one pod at least.
func longestGrace(pods []*corev1.Pod, left time.Duration) time.Duration {
	graces := make([]time.Duration, len(pods))
	for i, pod := range pods {
		graces[i] = disruption.GracePeriod(pod)
	}
	slices.Sort(graces)
	fit, _ := slices.BinarySearch(graces, left+1)
	return graces[max(fit-1, 0)]
}

// evictFrom ends the wait.
func (t *Terminator) evictFrom(ctx context.Context, s *scope, have replacement, outcome string) {
	if !have.counted {
		t.metrics.ahead.WithLabelValues(outcome).Inc()
	}
	have.over, have.counted, have.stream = true, true, t.config.Asker.Stream()
	t.ahead.set(idOf(s.claim), have)
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
	have.stream = t.config.Asker.Stream()
	answer, err := t.config.Asker.MakeRoom(ctx, q)
	if err != nil {
		logger.V(2).Info("No room was planned for the pods yet", "err", err)
		have.answered, have.noRoom, have.claims = false, false, nil
		t.ahead.set(idOf(s.claim), have)
		return
	}
	if why := answer.GetNoRoom(); why != "" {
		logger.Info("Pods of a node that terminates have no room", "message", why)
	}
	have.answered, have.noRoom, have.claims = true, answer.GetNoRoom() != "", answer.GetNodeClaims()
	t.ahead.set(idOf(s.claim), have)
}

// launches counts the claims for which EC2 has not answered, those that take no pods yet, and the deleted ones.
func (t *Terminator) launches(ctx context.Context, names []string, into *drain.Replacement) error {
	for _, name := range names {
		claim := &karpv1.NodeClaim{}
		err := t.config.Client.Get(ctx, client.ObjectKey{Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil && claim.DeletionTimestamp != nil:
			into.Failed++
		case err != nil:
			return err
		case claim.Status.ProviderID == "":
			into.Launching++
		case !claim.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized):
			into.Booting++
		}
	}
	return nil
}

// forceful is Karpenter's reason for pods of a node whose NodeClaim a user or another program deleted.
const forceful = "Forceful Termination"

// reasonOf returns the reason of the claim's termination.
func reasonOf(claim *karpv1.NodeClaim) string {
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); c.IsTrue() {
		return c.Reason
	}
	return forceful
}

// instanceEnds reports whether EC2 takes the instance away, whatever its pods need.
func instanceEnds(reason string) bool { return cloud.MessageKind(reason).EndsInstance() }

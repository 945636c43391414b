package terminate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/drain"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 5 * time.Second
)

// drain does what package disruption decides, and writes the condition Drained.
func (t *Terminator) drain(ctx context.Context, s *scope) (time.Duration, error) {
	conditions := s.claim.StatusConditions()
	if s.died || conditions.IsTrue(karpv1.ConditionTypeDrained) {
		t.progress.forget(s.claim.Name)
		conditions.SetTrue(karpv1.ConditionTypeDrained)
		return 0, nil
	}
	var plan disruption.DrainPlan
	settled := cordonedFor(s, t.ahead.of(idOf(s.claim), s.now).cordoned) >= minDrain
	_, err := t.config.podsOn(ctx, s.nodes, func(pods []*corev1.Pod) (enough bool) {
		plan = disruption.DecideDrain(disruption.DrainFacts{Pods: pods, Now: s.now, Deadline: s.deadline})
		return !plan.Done || !settled
	})
	if err != nil {
		return 0, err
	}
	held, err := t.evictor.carryOut(ctx, s, plan)
	done := plan.Done && settled
	if err != nil && !done {
		return 0, err
	}
	if done {
		if err != nil { // A webhook refuses, perhaps one whose own pods are on this node. The deadline still holds.
			klog.FromContext(ctx).Error(err, "Ending a node with pods that could not be deleted: its termination grace period is over", "nodeClaim", klog.KObj(s.claim))
			t.progress.event(s, corev1.EventTypeWarning, "FailedDraining", "Failed to drain node, its termination grace period is over: %v", err)
		}
		t.progress.forget(s.claim.Name)
		conditions.SetTrue(karpv1.ConditionTypeDrained)
		t.metrics.drained.WithLabelValues(pool(s.claim)).Add(float64(len(s.nodes)))
		return 0, nil
	}
	t.progress.waiting(s, plan, held)
	return drainPeriod, nil
}

// cordonedFor returns for how long the Nodes have been cordoned: since this process found them so, or another one, which began to write the condition. Its time has
// whole seconds: up to one more has gone by then.
func cordonedFor(s *scope, since time.Time) time.Duration {
	if c := s.claim.StatusConditions().Get(karpv1.ConditionTypeDrained); c != nil {
		if written := c.LastTransitionTime.Add(time.Second); written.Before(since) {
			since = written
		}
	}
	return s.now.Sub(since)
}

// podsOn decides by the pods bound to the nodes, as the cache has them. Where those are not enough, it decides again by the API server's, and returns the
// last ones: the cache may not show yet what was bound just before a cordon.
func (c *Config) podsOn(ctx context.Context, nodes []*corev1.Node, decide func([]*corev1.Pod) (enough bool)) ([]*corev1.Pod, error) {
	pods, err := podsOn(ctx, c.Client, nodes)
	if err != nil || decide(pods) {
		return pods, err
	}
	if pods, err = podsOn(ctx, c.Reader, nodes); err == nil {
		decide(pods)
	}
	return pods, err
}

// podsOn lists the pods bound to the nodes, by namespace and name: the cache lists them in no order, and what a condition says is not to change with it.
func podsOn(ctx context.Context, reader client.Reader, nodes []*corev1.Node) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, node := range nodes {
		list := &corev1.PodList{}
		if err := reader.List(ctx, list, client.MatchingFields{index.PodNodeName: node.Name}); err != nil {
			return nil, fmt.Errorf("listing pods of Node %s: %w", node.Name, err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// carryOut does what is planned. It returns what holds up evictions, for people; empty for nothing.
func (e *evictor) carryOut(ctx context.Context, s *scope, plan disruption.DrainPlan) (held string, err error) {
	first := s.claim.StatusConditions().Get(karpv1.ConditionTypeDrained) == nil
	for _, pod := range plan.Invalid {
		if !first {
			break
		}
		e.config.Events.Eventf(pod, corev1.EventTypeWarning, "InvalidDoNotDisruptAnnotation", "%s", disruption.ProtectionOf(pod, s.now).Invalid)
	}
	var errs []error
	for _, d := range plan.Delete {
		errs = append(errs, e.delete(ctx, s, d, reasonOf(s.claim)))
	}
	for _, pod := range plan.Evict {
		if !e.backoff.due(pod.UID, s.now) {
			continue
		}
		unserved, waits, err := e.may(ctx, s, pod)
		switch {
		case err != nil:
		case waits != "":
			held = cmp.Or(held, waits)
		default:
			err = e.evict(ctx, s, pod, unserved)
		}
		errs = append(errs, err)
	}
	return held, errors.Join(errs...)
}

// may returns what the eviction of a pod waits for, empty where it may begin, and why nothing serves in the pod's place then.
func (e *evictor) may(ctx context.Context, s *scope, pod *corev1.Pod) (unserved, waits string, err error) {
	reason := reasonOf(s.claim)
	// Where EC2 takes the instance away, the pod's own graceful end comes first.
	if drain.Spare(s.now, s.ends(reason), disruption.GracePeriod(pod)) <= 0 {
		return "", "", nil
	}
	surges, unserved, err := e.surger.Ahead(ctx, pod, instanceEnds(reason), s.now)
	if err != nil || surges {
		return unserved, fmt.Sprintf("pod %s/%s waits for its replacement", pod.Namespace, pod.Name), err
	}
	if !takesTurns(reason) || s.now.Sub(s.claim.DeletionTimestamp.Time) >= disruption.ServingPatience {
		return unserved, "", nil
	}
	owner, err := e.turns.take(ctx, pod, time.Now()) // Each eviction of the round has a time of its own: an API server may take seconds for one.
	if owner != nil {
		waits = disruption.ServingText(pod.Namespace, owner)
	}
	return unserved, waits, err
}

func (e *evictor) delete(ctx context.Context, s *scope, d disruption.Deletion, reason string) error {
	pod := d.Pod
	err := e.config.Client.Delete(ctx, pod, client.GracePeriodSeconds(d.GraceSeconds), client.Preconditions{UID: &pod.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted pod at the end of the termination grace period", "pod", klog.KObj(pod), "grace", d.GraceSeconds)
	e.config.Events.Eventf(pod, corev1.EventTypeNormal, "Disrupted",
		"Deleting the pod with %d s of grace: its node ends at %s whatever budgets and do-not-disrupt say", d.GraceSeconds, s.deadline.Format(time.RFC3339))
	if pod.DeletionTimestamp == nil {
		e.metrics.podsDrained.WithLabelValues(reason).Inc()
	}
	return nil
}

// evict asks the API server to evict one pod. A refusal is not an error: the eviction is tried again later. unserved is why nothing serves in
// the pod's place until its replacement does; empty if that is not so.
func (e *evictor) evict(ctx context.Context, s *scope, pod *corev1.Pod, unserved string) error {
	reason := reasonOf(s.claim)
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	err := e.config.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction)
	e.metrics.evictions.WithLabelValues(code(err)).Inc()
	switch {
	case err == nil:
		e.backoff.forget(pod.UID)
		klog.FromContext(ctx).V(2).Info("Evicted pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		message := "Evicted pod: " + reason
		if unserved != "" {
			message += "; no other pod of its ReplicaSet serves until its replacement is Ready: " + unserved
		}
		e.config.Events.Eventf(pod, corev1.EventTypeNormal, "Evicted", "%s", message)
		e.metrics.podsDrained.WithLabelValues(reason).Inc()
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // Deleted, or another pod of that name.
		e.backoff.forget(pod.UID)
	case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err): // One budget blocks it, or several do.
		e.backoff.refused(pod.UID, s.now)
		e.turns.giveBack(pod)
		for _, node := range s.nodes {
			e.config.Events.Eventf(node, corev1.EventTypeWarning, "FailedDraining", "Failed to drain node, evicting pod %s/%s: %s", pod.Namespace, pod.Name, e.refusal(ctx, pod, err))
		}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // The deletion of the namespace deletes the pod.
		e.backoff.refused(pod.UID, s.now)
		e.turns.giveBack(pod)
		klog.FromContext(ctx).V(4).Info("Pod leaves with its namespace, which is being deleted", "pod", klog.KObj(pod))
	default:
		if !leadership.Unanswered(err) { // Else it may be evicted.
			e.turns.giveBack(pod)
		}
		return fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// refusal returns why the API server does not evict a pod, with the names of the budgets that block it.
func (e *evictor) refusal(ctx context.Context, pod *corev1.Pod, err error) string {
	out := []string{err.Error()}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				out = append(out, cause.Message)
			}
		}
	}
	if !apierrors.IsInternalError(err) {
		return strings.Join(out, " ")
	}
	// With more than one budget the API server names none.
	budgets := &policyv1.PodDisruptionBudgetList{}
	if e.config.Client.List(ctx, budgets, client.InNamespace(pod.Namespace)) != nil {
		return out[0]
	}
	var names []string
	for _, b := range budgets.Items {
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, b.Name)
		}
	}
	return out[0] + " PodDisruptionBudgets that select it: " + strings.Join(names, ", ")
}

// evicted is Karpenter's code of an eviction that succeeds; the API server answers 201.
const evicted = "200"

func code(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return evicted
	case errors.As(err, &status):
		return strconv.Itoa(int(status.Status().Code))
	}
	return "500"
}

// backoff keeps, by pod UID, when a refused eviction is tried again.
type backoff struct {
	mu   sync.Mutex
	pods map[types.UID]attempt
	// swept is when pods that were deleted otherwise were last dropped.
	swept time.Time
}

// sweepEvery is how often pods that were deleted otherwise are dropped. All pods of a drain may be refused at once, each of them again and again.
const sweepEvery = time.Minute

type attempt struct {
	next time.Time
	wait time.Duration
}

func (b *backoff) due(pod types.UID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.pods[pod].next)
}

func (b *backoff) refused(pod types.UID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.swept) >= sweepEvery {
		b.swept = now
		maps.DeleteFunc(b.pods, func(_ types.UID, a attempt) bool { return now.Sub(a.next) > time.Hour })
	}
	wait := min(max(2*b.pods[pod].wait, firstBackoff), maxBackoff)
	b.pods[pod] = attempt{next: now.Add(wait), wait: wait}
}

func (b *backoff) forget(pod types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, pod)
}

package terminate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/index"
)

const (
	// countedFor is how long the count of a controller's pods is used at least, and countedPerPod how much longer for each pod: drains of many nodes
	// ask about the same controllers. A count that is used again only grows, with the evictions since.
	countedFor    = 500 * time.Millisecond
	countedPerPod = 100 * time.Microsecond
)

// takesTurns reports whether the evictions of a termination can wait for other pods to be Ready: slipway itself chose the moment.
func takesTurns(reason string) bool {
	return slices.Contains([]string{
		strings.ToLower(string(karpv1.DisruptionReasonUnderutilized)), strings.ToLower(string(karpv1.DisruptionReasonDrifted)), expire.Reason,
	}, reason)
}

// turns let few pods of a controller be away at a time, however many nodes drain. A new process starts without; then what is seen counts.
type turns struct {
	pods index.Pods

	mu     sync.Mutex
	counts map[workload]counted
	// evicted is when pods were evicted, by their UIDs, as long as that counts.
	evicted map[workload]map[types.UID]time.Time
}

// workload is the controller that pods of a namespace name as theirs. A pod of another namespace that names the same does not count.
type workload struct {
	namespace string
	uid       types.UID
}

func workloadOf(pod *corev1.Pod, owner *metav1.OwnerReference) workload {
	return workload{namespace: pod.Namespace, uid: owner.UID}
}

type counted struct {
	disruption.Serving
	until time.Time
}

func newTurns(pods index.Pods) *turns {
	return &turns{pods: pods, counts: map[workload]counted{}, evicted: map[workload]map[types.UID]time.Time{}}
}

// take reports whether the pod may be evicted now, and counts it as away if so. Otherwise it returns the controller whose other pods it waits for. A pod whose
// eviction was not answered has its turn already.
func (t *turns) take(ctx context.Context, pod *corev1.Pod, now time.Time) (waitsFor *metav1.OwnerReference, err error) {
	owner := disruption.ServingOwner(pod)
	if owner == nil {
		return nil, nil
	}
	key := workloadOf(pod, owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, has := t.evicted[key][pod.UID]; has && now.Sub(at) < disruption.ReplacedWithin {
		return nil, nil
	}
	count, ok := t.counts[key]
	if !ok || !now.Before(count.until) {
		all, err := t.pods.Controlled(ctx, pod.Namespace, owner.UID)
		if err != nil {
			return nil, fmt.Errorf("counting pods of %s %s/%s: %w", owner.Kind, pod.Namespace, owner.Name, err)
		}
		t.forget(now)
		count.Serving = disruption.ServingOf(all, t.evicted[key], now)
		count.until = now.Add(countedFor + time.Duration(count.Pods)*countedPerPod)
	}
	if count.Spares() {
		count.Away++
		if t.evicted[key] == nil {
			t.evicted[key] = map[types.UID]time.Time{}
		}
		t.evicted[key][pod.UID] = now
	} else {
		waitsFor = owner
	}
	t.counts[key] = count
	return waitsFor, nil
}

// giveBack says that the pod was not evicted.
func (t *turns) giveBack(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	key := workloadOf(pod, owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.evicted[key], pod.UID)
	delete(t.counts, key)
}

// forget drops what no longer counts. The caller holds mu.
func (t *turns) forget(now time.Time) {
	for owner, pods := range t.evicted {
		maps.DeleteFunc(pods, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= disruption.ReplacedWithin })
		if len(pods) == 0 {
			delete(t.evicted, owner)
		}
	}
	maps.DeleteFunc(t.counts, func(_ workload, c counted) bool { return !now.Before(c.until) })
}

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
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// evictedFor is how long an eviction is remembered, longer than it counts.
	evictedFor = time.Minute
)

// takesTurns reports whether the evictions of a termination can wait for other pods to be Ready: slipway itself chose the moment.
func takesTurns(reason string) bool {
	return slices.Contains([]string{
		strings.ToLower(string(karpv1.DisruptionReasonUnderutilized)), strings.ToLower(string(karpv1.DisruptionReasonDrifted)), expire.Reason,
	}, reason)
}

// turns let few pods of a controller be away at a time, however many nodes drain. A new process starts without; then what is seen counts.
type turns struct {
	// reader reads the cache.
	reader client.Reader

	mu sync.Mutex
	// counts are by the UID of the controller, evicted by that and by the UID of the pod.
	counts  map[types.UID]counted
	evicted map[types.UID]map[types.UID]time.Time
}

type counted struct {
	disruption.Serving
	until time.Time
}

func newTurns(cache client.Reader) *turns {
	return &turns{reader: cache, counts: map[types.UID]counted{}, evicted: map[types.UID]map[types.UID]time.Time{}}
}

// take reports whether the pod may be evicted now, and counts it as away if so. Otherwise it returns the controller whose other pods it waits for.
func (t *turns) take(ctx context.Context, pod *corev1.Pod, now time.Time) (waitsFor *metav1.OwnerReference, err error) {
	owner := disruption.Serves(pod)
	if owner == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	count, ok := t.counts[owner.UID]
	if !ok || !now.Before(count.until) {
		list := &corev1.PodList{}
		if err := t.reader.List(ctx, list, client.MatchingFields{index.PodController: string(owner.UID)}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing pods of %s %s/%s: %w", owner.Kind, pod.Namespace, owner.Name, err)
		}
		t.forget(now)
		count.Serving = disruption.ServingOf(list.Items, t.evicted[owner.UID], now)
		count.until = now.Add(countedFor + time.Duration(count.Pods)*countedPerPod)
	}
	if count.Spares() {
		count.Away++
		if t.evicted[owner.UID] == nil {
			t.evicted[owner.UID] = map[types.UID]time.Time{}
		}
		t.evicted[owner.UID][pod.UID] = now
	} else {
		waitsFor = owner
	}
	t.counts[owner.UID] = count
	return waitsFor, nil
}

// giveBack says that the pod was not evicted.
func (t *turns) giveBack(pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.evicted[owner.UID], pod.UID)
	delete(t.counts, owner.UID)
}

// forget drops what no longer counts. The caller holds mu.
func (t *turns) forget(now time.Time) {
	for owner, pods := range t.evicted {
		maps.DeleteFunc(pods, func(_ types.UID, at time.Time) bool { return now.Sub(at) > evictedFor })
		if len(pods) == 0 {
			delete(t.evicted, owner)
		}
	}
	maps.DeleteFunc(t.counts, func(_ types.UID, c counted) bool { return !now.Before(c.until) })
}

package join

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// cacheLag is for how long a pod that a set keeps for last is remembered: the cache shows it long before that.
const cacheLag = 30 * time.Second

// kept is a pod that a set keeps for last.
type kept struct {
	set  types.UID
	node string
}

// deletionCosts chooses the deletion costs of pods that are bound. It is safe for concurrent use.
type deletionCosts struct {
	cache client.Reader

	mu sync.Mutex
	// recent are the pods that were chosen to be kept for last, and when.
	recent map[kept]time.Time
}

// set sets the costs of bindings to a node. Pods without one are ended in the order of the ReplicaSet controller, so a cache that cannot be read delays no binding.
func (d *deletionCosts) set(ctx context.Context, node *corev1.Node, list []bind.Binding) {
	for i := range list {
		b := &list[i]
		if !scalein.Governed(b.Pod) {
			continue
		}
		last, err := d.last(ctx, kept{metav1.GetControllerOf(b.Pod).UID, node.Name}, time.Now())
		if err != nil {
			klog.FromContext(ctx).V(2).Info("A pod gets no deletion cost", "pod", klog.KObj(b.Pod), "node", node.Name, "err", err)
			continue
		}
		b.DeletionCost = scalein.Cost(node, last)
	}
}

// last reports whether a set keeps a pod on a node for last, and notes it.
func (d *deletionCosts) last(ctx context.Context, k kept, now time.Time) (bool, error) {
	var pods corev1.PodList
	if err := d.cache.List(ctx, &pods, client.MatchingFields{index.PodKept: string(k.set)}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the pods that are kept for last: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.recent, func(_ kept, at time.Time) bool { return now.Sub(at) > cacheLag })
	nodes := map[string]bool{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			nodes[pods.Items[i].Spec.NodeName] = true
		}
	}
	for other := range d.recent {
		if other.set == k.set {
			nodes[other.node] = true
		}
	}
	if !scalein.KeepsAnother(k.node, nodes) {
		return false, nil
	}
	d.recent[k] = now
	return true, nil
}

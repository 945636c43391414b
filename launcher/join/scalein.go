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

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// cacheLag is for how long the pods that a set keeps for last are remembered: the cache shows them long before that.
const cacheLag = 30 * time.Second

// deletionCosts chooses the deletion costs of pods that are bound. It is safe for concurrent use.
type deletionCosts struct {
	cache client.Reader

	mu sync.Mutex
	// recent are the sets for which pods were chosen to be kept for last, swept when those were forgotten that the cache shows.
	recent map[replicaSet]*chosen
	swept  time.Time
}

// replicaSet is a set by its UID, and by the namespace of its pods: who writes a pod chooses the UID that its reference has, which may be that of another
// tenant's set.
type replicaSet struct {
	namespace string
	uid       types.UID
}

// chosen are the nodes on which a set keeps a pod for last, and when the last one was chosen.
type chosen struct {
	nodes map[string]bool
	at    time.Time
}

// set sets the costs of bindings to a node. Pods without one are ended in the order of the ReplicaSet controller, so a cache that cannot be read delays no binding.
func (d *deletionCosts) set(ctx context.Context, node *corev1.Node, list []bind.Binding) {
	for i := range list {
		b := &list[i]
		if !scalein.Governed(b.Pod) {
			continue
		}
		last, err := d.last(ctx, replicaSet{b.Pod.Namespace, metav1.GetControllerOfNoCopy(b.Pod).UID}, node.Name, time.Now())
		if err != nil {
			klog.FromContext(ctx).V(2).Info("A pod gets no deletion cost", "pod", klog.KObj(b.Pod), "node", node.Name, "err", err)
			continue
		}
		b.DeletionCost = scalein.Cost(node, last)
	}
}

// last reports whether a set keeps a pod on a node for last, and notes it.
func (d *deletionCosts) last(ctx context.Context, set replicaSet, node string, now time.Time) (bool, error) {
	var pods corev1.PodList
	if err := d.cache.List(ctx, &pods, client.InNamespace(set.namespace), client.MatchingFields{index.PodKept: string(set.uid)}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the pods that are kept for last: %w", err)
	}
	nodes := map[string]bool{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && !disruption.Terminal(p) {
			nodes[p.Spec.NodeName] = true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.swept) > cacheLag {
		maps.DeleteFunc(d.recent, func(_ replicaSet, c *chosen) bool { return now.Sub(c.at) > cacheLag })
		d.swept = now
	}
	c := d.recent[set]
	if c == nil || now.Sub(c.at) > cacheLag {
		c = &chosen{nodes: map[string]bool{}}
	}
	maps.Copy(nodes, c.nodes)
	if !scalein.KeepsAnother(node, nodes) {
		return false, nil
	}
	c.nodes[node], c.at, d.recent[set] = true, now, c
	return true, nil
}

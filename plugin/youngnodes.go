package plugin

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/internal/deleted"
)

// youngNodes are the nodes on which room is kept for DaemonSet pods that have not arrived. It is safe for concurrent use.
type youngNodes struct {
	mu sync.Mutex
	// until is how long each of them is young.
	until map[types.UID]time.Time
}

func newYoungNodes() *youngNodes { return &youngNodes{until: map[types.UID]time.Time{}} }

// watch follows the nodes.
func (y *youngNodes) watch(nodes cache.SharedInformer) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: y.see, UpdateFunc: func(_, now any) { y.see(now) }, DeleteFunc: y.forget,
	})
	return err
}

// see notes whether the node is young, and until when.
func (y *youngNodes) see(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	until, young := reservedUntil(node, time.Now())
	y.mu.Lock()
	defer y.mu.Unlock()
	if young && node.Labels[nodePoolLabel] != "" {
		y.until[node.UID] = until
	} else {
		delete(y.until, node.UID)
	}
}

func (y *youngNodes) forget(obj any) {
	obj = deleted.Object(obj)
	if node, ok := obj.(*corev1.Node); ok {
		y.mu.Lock()
		defer y.mu.Unlock()
		delete(y.until, node.UID)
	}
}

// any reports whether there is one.
func (y *youngNodes) any(now time.Time) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for uid, until := range y.until {
		if now.Before(until) {
			return true
		}
		delete(y.until, uid)
	}
	return false
}

package plugin

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// youngNodes knows until when there may be a node on which room is kept for DaemonSet pods that have not arrived. It is safe for concurrent use.
type youngNodes struct {
	// until is the latest that any node has had, in nanoseconds since the epoch.
	until atomic.Int64
}

// watch follows the nodes.
func (y *youngNodes) watch(nodes cache.SharedInformer) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: y.see, UpdateFunc: func(_, now any) { y.see(now) },
	})
	return err
}

func (y *youngNodes) see(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Labels[nodePoolLabel] == "" {
		return
	}
	until, _ := reservedUntil(node, time.Now())
	for of := until.UnixNano(); ; {
		latest := y.until.Load()
		if of <= latest || y.until.CompareAndSwap(latest, of) {
			return
		}
	}
}

// any reports whether there may be one.
func (y *youngNodes) any(now time.Time) bool { return now.UnixNano() < y.until.Load() }

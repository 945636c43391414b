package plugin

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/internal/deleted"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// watcher reacts to pods that were bound or are gone, and to nodes that changed. It is safe for concurrent use.
type watcher struct {
	inbox      *inbox
	collected  *intake.Collector
	promises   *promise.Table
	reserved   *reservations.Table
	daemonSets *daemonSets
	adopter    *adopter
	updates    *catalogUpdates
	spread     *spreadChanges
	metrics    *metrics
}

// watch registers the watcher with the informers.
func (w *watcher) watch(f informers.SharedInformerFactory) error {
	if _, err := f.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			w.daemonPodAdded(obj)
			w.podChanged(obj)
			w.podArrived(nil, obj)
		},
		UpdateFunc: func(old, obj any) {
			w.podChanged(obj)
			w.podArrived(old, obj)
		},
		DeleteFunc: func(obj any) {
			obj = deleted.Object(obj)
			if pod, ok := obj.(*corev1.Pod); ok {
				w.release("deleted", w.promises.Release(pod.UID))
			}
		},
	}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if _, err := f.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.nodeChanged() },
		UpdateFunc: func(any, any) { w.nodeChanged() },
		DeleteFunc: func(any) { w.spread.nodeLeft() },
	}); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

func (w *watcher) podChanged(obj any) {
	pod, ok := obj.(*corev1.Pod)
	switch {
	case !ok:
	case pod.Spec.NodeName != "":
		w.release("bound", w.promises.Bound(pod.UID, time.Now()))
	default:
		w.adopter.podChanged(pod)
	}
}

// release counts promises that were released. Most pods have none.
func (w *watcher) release(why string, released []promise.Promise) {
	if len(released) > 0 {
		w.metrics.release(why, released, w.promises)
	}
}

func (w *watcher) daemonPodAdded(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && ownedByDaemonSet(pod) {
		w.daemonSets.arrived(metav1.GetControllerOf(pod).UID)
	}
}

// podArrived hands a pod that was placed to the planner: what other pods' topology spread counts has changed, and room may be reserved for its owner.
func (w *watcher) podArrived(old, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if before, ok := old.(*corev1.Pod); ok && before.Spec.NodeName != "" {
		return
	}
	w.spread.podCame(pod)
	if w.reserved.Board().For(pod) {
		w.inbox.arrive(pod)
	}
}

// nodeChanged wakes the planner where it waits for a node; nodes change all the time otherwise.
func (w *watcher) nodeChanged() {
	if w.updates.awaited.Load() > 0 {
		w.collected.Notify()
	}
}

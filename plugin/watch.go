package plugin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// watch registers what the plugin wants to hear of: promised pods that were bound or are gone, nodes that changed (an
// initialized node counts once the scheduler's cache shows it without its taint).
func (p *Plugin) watch() (err error) {
	if p.needs.daemonSets, err = newDaemonSets(p.informer, p.owners); err != nil {
		return err
	}
	pods := p.informer.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			p.daemonPodAdded(obj)
			p.podChanged(obj)
			p.podArrived(nil, obj)
		},
		UpdateFunc: func(old, obj any) {
			p.podChanged(obj)
			p.podArrived(old, obj)
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				p.leave("deleted", p.promises.Release(pod.UID))
			}
		},
	}); err != nil {
		return err
	}
	if err := p.delays.watch(pods); err != nil {
		return err
	}
	nodes := p.informer.Core().V1().Nodes().Informer()
	_, err = nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.nodeChanged() },
		UpdateFunc: func(any, any) { p.nodeChanged() },
	})
	return err
}

func (p *Plugin) podChanged(obj any) {
	pod, ok := obj.(*corev1.Pod)
	switch {
	case !ok:
	case pod.Spec.NodeName != "":
		p.leave("bound", p.promises.Bound(pod.UID, time.Now()))
	default:
		p.foreignChanged(pod)
	}
}

func (p *Plugin) daemonPodAdded(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && ownedByDaemonSet(pod) {
		p.needs.daemonSets.arrived(metav1.GetControllerOf(pod).UID)
	}
}

func (p *Plugin) leave(why string, released []promise.Promise) {
	if n := len(released); n > 0 {
		p.metrics.released.WithLabelValues(why).Add(float64(n))
		p.metrics.promises.Set(float64(p.promises.Len()))
	}
}

// nodeChanged wakes the planner where it waits for a node; nodes change all the time otherwise.
func (p *Plugin) nodeChanged() {
	if p.planner.awaited.Load() > 0 {
		p.collected.Notify()
	}
}

// activate puts pods back into the scheduling queue, past any backoff.
func (p *Plugin) activate(refs []catalog.PodRef) {
	if p.sched == nil {
		return
	}
	pods := make(map[string]*corev1.Pod, len(refs))
	for _, ref := range refs {
		if pod := p.pod(ref); pod != nil && pod.Spec.NodeName == "" {
			pods[ref.Namespace+"/"+ref.Name] = pod
		}
	}
	if len(pods) > 0 {
		p.sched.SchedulingQueue.Activate(klog.Background(), pods)
	}
}

// pod returns the pod as the informer has it, nil if it is gone or another one by now.
func (p *Plugin) pod(ref catalog.PodRef) *corev1.Pod {
	pod, err := p.informer.Core().V1().Pods().Lister().Pods(ref.Namespace).Get(ref.Name)
	if err != nil || string(pod.UID) != ref.UID {
		return nil
	}
	return pod
}

// podArrived hands a pod that was placed to the planner, where room is reserved for its owner.
func (p *Plugin) podArrived(old, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if before, ok := old.(*corev1.Pod); ok && before.Spec.NodeName != "" {
		return
	}
	if p.reserved.Board().For(pod) {
		p.inbox.arrive(pod)
	}
}

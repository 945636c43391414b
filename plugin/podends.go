package plugin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/deleted"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// endLookups is how many pods are read at a time, mostEnds how many may wait for it. A pod beyond that counts as deleted.
	endLookups, mostEnds = 4, 1000
	// endTries, endTimeout and endRest are how often a pod is read that the API server does not return, how long each time, and the time
	// between.
	endTries   = 3
	endTimeout = 5 * time.Second
	endRest    = time.Second
)

// podEnds reports to the delays how pods ended. kube-scheduler's informer of pods leaves out those that have failed or succeeded: it
// deletes such a pod as if it were gone, with its content from before. So a pod that was bound and not being deleted is read from the
// API server. It is safe for concurrent use. All fields are required.
type podEnds struct {
	client clientset.Interface
	delays *delays
	ended  chan catalog.PodRef
	// changed wakes the planner.
	changed func()
}

func newPodEnds(client clientset.Interface, d *delays, changed func()) *podEnds {
	return &podEnds{client: client, delays: d, ended: make(chan catalog.PodRef, mostEnds), changed: changed}
}

// watch registers the delays with the informer of pods.
func (p *podEnds) watch(pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.delays.observe, UpdateFunc: func(_, obj any) { p.delays.observe(obj) },
		DeleteFunc: func(obj any) {
			obj = deleted.Object(obj)
			p.delays.observe(obj)
			if pod, ok := obj.(*corev1.Pod); ok {
				p.deleted(pod)
			}
		},
	})
	return err
}

// deleted receives a pod that the informer has deleted.
func (p *podEnds) deleted(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && p.delays.Ends(pod.UID) {
		select {
		case p.ended <- catalog.PodRefOf(pod):
			return
		default:
		}
	}
	p.delays.Deleted(pod.UID, time.Now())
}

// run looks up one pod after the other until the context ends.
func (p *podEnds) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case ref := <-p.ended:
			p.lookUp(ctx, ref)
			p.changed()
		}
	}
}

// lookUp reports how the pod ended. A pod of the same name is another.
func (p *podEnds) lookUp(ctx context.Context, ref catalog.PodRef) {
	for try := 1; ; try++ {
		pod, err := p.read(ctx, ref)
		switch {
		case err == nil && string(pod.UID) == ref.UID:
			p.delays.Observe(pod, time.Now())
			return
		case err == nil, apierrors.IsNotFound(err), try == endTries, ctx.Err() != nil:
			p.delays.Deleted(types.UID(ref.UID), time.Now())
			return
		}
		klog.FromContext(ctx).V(2).Info("Pod that has ended was not read, will try again", "pod", klog.KRef(ref.Namespace, ref.Name), "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(endRest):
		}
	}
}

func (p *podEnds) read(ctx context.Context, ref catalog.PodRef) (*corev1.Pod, error) {
	within, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return p.client.CoreV1().Pods(ref.Namespace).Get(within, ref.Name, metav1.GetOptions{})
}

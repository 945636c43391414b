// Package surge has the only pod of a Deployment replaced before it is evicted, so that its Service has a Ready endpoint all the time. A pod
// without the label pod-template-hash is no longer its ReplicaSet's, which starts another one; the Service still selects it. The state is on
// the pod: a process that starts again goes on from there. The rules are package disruption's.
package surge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// Config holds the dependencies of a Surger. Every field is required.
type Config struct {
	// Client reads from the cache, and writes.
	Client client.Client
	// Reader reads from the API server, where a lagging cache would do harm.
	Reader client.Reader
	// Events records what is done on the pods.
	Events announce.EventRecorder
	// Registerer registers the metric.
	Registerer prometheus.Registerer
}

// Surger replaces pods before they are evicted.
type Surger struct {
	config   Config
	released prometheus.Counter
}

// New returns a Surger. An error is one of the registration of its metric.
func New(c Config) (*Surger, error) {
	released := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "slipway", Name: "surges_total",
		Help: "Pods released from their ReplicaSet, so that their replacement starts before they are evicted.",
	})
	return &Surger{config: c, released: released}, c.Registerer.Register(released)
}

// Ahead has the only pod of a Deployment replaced before it is evicted. It reports whether the eviction waits for that, and why there is no
// surge where the pod would need one. doomed means that the pod's instance ends, whatever PodDisruptionBudgets say.
func (e *Surger) Ahead(ctx context.Context, pod *corev1.Pod, doomed bool, now time.Time) (waits bool, refusal string, err error) {
	if from, released := disruption.ReleasedFrom(pod); released {
		set, err := e.replicaSet(ctx, e.config.Client, pod.Namespace, from.Set)
		return err == nil && !disruption.Replaced(pod, from, set, now), "", err
	}
	controller := metav1.GetControllerOf(pod)
	if controller == nil || controller.Kind != "ReplicaSet" {
		return false, "", nil
	}
	set, err := e.replicaSet(ctx, e.config.Client, pod.Namespace, controller.Name)
	if err != nil || set == nil || !disruption.Sole(pod, set) {
		return false, "", err
	}
	deployment, err := e.deploymentOf(ctx, set)
	if err != nil {
		return false, "", err
	}
	claims, err := e.claimsOf(ctx, pod)
	if err != nil {
		return false, "", err
	}
	var budgets disruption.PodBudgets
	if !doomed {
		if budgets, err = new(index.Budgets).Of(ctx, e.config.Client, pod); err != nil {
			return false, "", err
		}
	}
	if why := disruption.SurgeRefusal(pod, set, deployment, claims, budgets); why != "" {
		return false, why, nil
	}
	return e.release(ctx, pod, set.Name, now)
}

// release takes the pod out of its ReplicaSet, once.
func (e *Surger) release(ctx context.Context, pod *corev1.Pod, name string, now time.Time) (waits bool, refusal string, err error) {
	// The cache may lag behind the pod's release: released again, it would wait for a change that came before.
	current := &corev1.Pod{}
	if err := e.config.Reader.Get(ctx, client.ObjectKeyFromObject(pod), current); err != nil {
		return apierrors.IsNotFound(err), "", client.IgnoreNotFound(err)
	}
	if _, released := disruption.ReleasedFrom(current); released || current.UID != pod.UID {
		return true, "", nil
	}
	// The cache may lag behind the version from which the set's status will have changed.
	set, err := e.replicaSet(ctx, e.config.Reader, pod.Namespace, name)
	if err != nil || set == nil {
		return false, "", err
	}
	from := disruption.Released{Set: set.Name, Version: set.ResourceVersion, At: now}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID,
		"labels":      map[string]any{appsv1.DefaultDeploymentUniqueLabelKey: nil},
		"annotations": map[string]string{disruption.ReleasedAnnotation: from.String()},
	}})
	if err != nil {
		return false, "", err
	}
	err = e.config.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // It ended, or is another pod of that name.
		return true, "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // Rights or policies of the user: evicted as any pod.
		return false, "the API server refuses its release: " + err.Error(), nil
	case err != nil:
		return false, "", fmt.Errorf("releasing pod %s/%s from ReplicaSet %s: %w", pod.Namespace, pod.Name, set.Name, err)
	}
	e.released.Inc()
	klog.FromContext(ctx).Info("Released pod from its ReplicaSet", "pod", klog.KObj(pod), "replicaSet", set.Name, "node", pod.Spec.NodeName)
	e.config.Events.Eventf(pod, corev1.EventTypeNormal, "Surging", "Its Deployment starts a replacement first: it is evicted when that is Ready, after %.0f minutes at most", disruption.SurgePatience.Minutes())
	return true, "", nil
}

// replicaSet returns a ReplicaSet, nil where it does not exist or the name is empty.
func (e *Surger) replicaSet(ctx context.Context, reader client.Reader, namespace, name string) (*appsv1.ReplicaSet, error) {
	if name == "" {
		return nil, nil
	}
	set := &appsv1.ReplicaSet{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return set, err
}

// deploymentOf returns the Deployment that controls the ReplicaSet, nil for none.
func (e *Surger) deploymentOf(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.Deployment, error) {
	controller := metav1.GetControllerOf(set)
	if controller == nil || controller.Kind != "Deployment" {
		return nil, nil
	}
	d := &appsv1.Deployment{}
	err := e.config.Client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: controller.Name}, d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return d, err
}

// claimsOf lists the PersistentVolumeClaims that the pod and its replacement would share, without those that do not exist.
func (e *Surger) claimsOf(ctx context.Context, pod *corev1.Pod) ([]*corev1.PersistentVolumeClaim, error) {
	var out []*corev1.PersistentVolumeClaim
	for _, name := range disruption.VolumeClaims(pod) {
		claim := &corev1.PersistentVolumeClaim{}
		err := e.config.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("getting PersistentVolumeClaim %s/%s: %w", pod.Namespace, name, err)
		default:
			out = append(out, claim)
		}
	}
	return out, nil
}

package gauges

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Times observes what happens, while leading: how long pods take from their creation until they are bound and until they are
// ready, and which NodeClaims and Nodes are new.
type Times struct {
	informers cache.Informers
	leading   func() bool
	metrics   *metrics
}

// NewTimes returns Times that observes once Watch was called.
func NewTimes(informers cache.Informers, leading func() bool, r prometheus.Registerer) (*Times, error) {
	if informers == nil || leading == nil || r == nil {
		return nil, errors.New("gauges: informers, whether we lead and a Registerer are required")
	}
	m, err := newMetrics(r)
	if err != nil {
		return nil, fmt.Errorf("gauges: %w", err)
	}
	return &Times{informers: informers, leading: leading, metrics: m}, nil
}

// Watch observes from now on.
func (t *Times) Watch(ctx context.Context) error {
	return errors.Join(
		watch(ctx, t, nil, t.pod),
		watch(ctx, t, t.created, nil),
		watch(ctx, t, nil, t.node),
	)
}

// watch calls the functions that there are for each object that is new and for each that has changed.
func watch[T any, P interface {
	*T
	client.Object
}](ctx context.Context, t *Times, added func(P), changed func(was, is P)) error {
	informer, err := t.informers.GetInformer(ctx, P(new(T)))
	if err != nil {
		return fmt.Errorf("gauges: watching %T: %w", *new(T), err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, old bool) {
			if is, ok := obj.(P); ok && added != nil && !old && t.leading() {
				added(is)
			}
		},
		UpdateFunc: func(before, after any) {
			was, ok := before.(P)
			is, also := after.(P)
			if ok && also && changed != nil && t.leading() {
				changed(was, is)
			}
		},
	})
	return err
}

func (t *Times) pod(was, is *corev1.Pod) {
	observe(t.metrics.bound, corev1.PodScheduled, was, is)
	observe(t.metrics.startup, corev1.PodReady, was, is)
}

func (t *Times) created(claim *karpv1.NodeClaim) {
	// Relaxed minValues are told by an annotation that is written with the claim.
	relaxed := claim.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] == "true"
	t.metrics.claims.WithLabelValues("provisioned", claim.Labels[karpv1.NodePoolLabelKey], strconv.FormatBool(relaxed)).Inc()
}

func (t *Times) node(was, is *corev1.Node) {
	if was.Labels[karpv1.NodeRegisteredLabelKey] == "" && is.Labels[karpv1.NodeRegisteredLabelKey] != "" {
		t.metrics.nodes.WithLabelValues(is.Labels[karpv1.NodePoolLabelKey], is.Labels[corev1.LabelTopologyZone]).Inc()
	}
}

// observe tells the time until a condition that has just become true for the first time. A pod that was ready before and is
// again is not new.
func observe(to prometheus.Observer, kind corev1.PodConditionType, was, is *corev1.Pod) {
	since := condition(is, kind)
	if since == nil || condition(was, kind) != nil || restarted(is) && kind == corev1.PodReady {
		return
	}
	to.Observe(since.LastTransitionTime.Sub(is.CreationTimestamp.Time).Seconds())
}

func restarted(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			return true
		}
	}
	return false
}

package gauges

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
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
	// transitions of the conditions of each kind, by its name.
	transitions map[string]transitions
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
	t := &Times{informers: informers, leading: leading, metrics: m, transitions: map[string]transitions{}}
	for _, k := range kinds() {
		if t.transitions[k.name], err = newTransitions(k, r); err != nil {
			return nil, fmt.Errorf("gauges: %w", err)
		}
	}
	return t, nil
}

// Watch observes from now on.
func (t *Times) Watch(ctx context.Context) error {
	return errors.Join(
		watch(ctx, t, handlers[*corev1.Pod]{changed: t.pod}),
		watch(ctx, t, handlers[*karpv1.NodeClaim]{added: t.created}),
		watch(ctx, t, handlers[*corev1.Node]{changed: t.node}),
		watch(ctx, t, of[*corev1.Node](t.transitions["node"])),
		watch(ctx, t, of[*karpv1.NodeClaim](t.transitions["nodeclaim"])),
		watch(ctx, t, of[*karpv1.NodePool](t.transitions["nodepool"])),
		watch(ctx, t, of[*awsv1.EC2NodeClass](t.transitions["ec2nodeclass"])),
	)
}

// handlers are called for each object that is new, has changed, or is gone; nil is not called.
type handlers[P client.Object] struct {
	added   func(is P)
	changed func(was, is P)
	deleted func(was P)
}

// watch calls handlers while leading.
func watch[T any, P interface {
	*T
	client.Object
}](ctx context.Context, t *Times, h handlers[P]) error {
	informer, err := t.informers.GetInformer(ctx, P(new(T)))
	if err != nil {
		return fmt.Errorf("gauges: watching %T: %w", *new(T), err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, old bool) {
			if is, ok := obj.(P); ok && h.added != nil && !old && t.leading() {
				h.added(is)
			}
		},
		UpdateFunc: func(before, after any) {
			was, ok := before.(P)
			is, also := after.(P)
			if ok && also && h.changed != nil && t.leading() {
				h.changed(was, is)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if was, ok := obj.(P); ok && h.deleted != nil && t.leading() {
				h.deleted(was)
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

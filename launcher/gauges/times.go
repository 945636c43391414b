package gauges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/deleted"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// Times observes events while leading: how long pods take from their creation until they are bound and until they are ready, and new
// NodeClaims and Nodes.
type Times struct {
	cache   cache.Cache
	leading func() bool
	metrics *metrics
	// transitions observe the conditions of each kind, by its name.
	transitions map[string]transitions
}

// NewTimes returns Times that observes once Watch is called. The cache has the indexes of package index.
func NewTimes(c cache.Cache, leading func() bool, r prometheus.Registerer) (*Times, error) {
	if c == nil || leading == nil || r == nil {
		return nil, errors.New("gauges: a cache, whether we lead and a Registerer are required")
	}
	m, err := newMetrics(r)
	if err != nil {
		return nil, fmt.Errorf("gauges: %w", err)
	}
	t := &Times{cache: c, leading: leading, metrics: m, transitions: map[string]transitions{}}
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
		watch(ctx, t, handlers[*corev1.Node]{changed: func(was, is *corev1.Node) { t.node(ctx, was, is) }}),
		watch(ctx, t, of(t.transitions["node"], func(n *corev1.Node) map[string]string { return t.claimed(ctx, n) })),
		watch(ctx, t, of(t.transitions["nodeclaim"], own[*karpv1.NodeClaim])),
		watch(ctx, t, of(t.transitions["nodepool"], own[*karpv1.NodePool])),
		watch(ctx, t, of(t.transitions["ec2nodeclass"], own[*awsv1.EC2NodeClass])),
	)
}

// handlers are called for each object that is created, changed or deleted; a nil handler is not called.
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
	informer, err := t.cache.GetInformer(ctx, P(new(T)))
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
			obj = deleted.Object(obj)
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
	// The annotation for relaxed minValues is written with the claim.
	relaxed := claim.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] == "true"
	t.metrics.claims.WithLabelValues("provisioned", claim.Labels[karpv1.NodePoolLabelKey], strconv.FormatBool(relaxed)).Inc()
}

func (t *Times) node(ctx context.Context, was, is *corev1.Node) {
	if was.Labels[karpv1.NodeRegisteredLabelKey] == "" && is.Labels[karpv1.NodeRegisteredLabelKey] != "" {
		if labels := t.claimed(ctx, is); labels != nil {
			t.metrics.nodes.WithLabelValues(labels[karpv1.NodePoolLabelKey], labels[corev1.LabelTopologyZone]).Inc()
		}
	}
}

// claimed returns the labels of a Node's NodeClaim, with whether the Node is initialized; nil for a Node without one. The kubelet can change
// the Node's own labels, and each change would add a permanent series.
func (t *Times) claimed(ctx context.Context, node *corev1.Node) map[string]string {
	if node.Spec.ProviderID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	claims := &karpv1.NodeClaimList{}
	err := t.cache.List(ctx, claims, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID}, client.UnsafeDisableDeepCopy)
	if err != nil || len(claims.Items) == 0 {
		return nil
	}
	labels := maps.Clone(claims.Items[0].Labels)
	delete(labels, karpv1.NodeInitializedLabelKey)
	if node.Labels[karpv1.NodeInitializedLabelKey] == "true" && labels != nil {
		labels[karpv1.NodeInitializedLabelKey] = "true"
	}
	return labels
}

// observe records the time until a condition became true for the first time. A pod that was ready before is not counted again.
func observe(to prometheus.Observer, kind corev1.PodConditionType, was, is *corev1.Pod) {
	if !conditions.PodIs(is, kind) || conditions.PodIs(was, kind) || restarted(is) && kind == corev1.PodReady {
		return
	}
	to.Observe(conditions.Pod(is, kind).LastTransitionTime.Sub(is.CreationTimestamp.Time).Seconds())
}

func restarted(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			return true
		}
	}
	return false
}

package gauges

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// kind is a kind of object whose conditions are told.
type kind struct {
	// name in the metrics' names.
	name string
	// list is an empty list of its objects.
	list client.ObjectList
	// labels of an object that its metrics have too.
	labels []string
	// buckets of what is timed.
	buckets []float64
}

// kinds are those of which Karpenter tells, with the labels that it adds (pkg/controllers/controllers.go, status.NewController).
func kinds() []kind {
	class, buckets := "karpenter.k8s.aws/ec2nodeclass", prometheus.ExponentialBuckets(0.5, 2, 15)
	return []kind{
		{"nodeclaim", &karpv1.NodeClaimList{}, []string{class, karpv1.NodePoolLabelKey}, buckets},
		{"nodepool", &karpv1.NodePoolList{}, nil, buckets},
		{"ec2nodeclass", &awsv1.EC2NodeClassList{}, nil, prometheus.DefBuckets},
		{"node", &corev1.NodeList{}, []string{class, karpv1.NodePoolLabelKey, karpv1.NodeInitializedLabelKey}, buckets},
	}
}

// metric is the name of a metric of the kind's.
func (k kind) metric(name string) string { return "operator_" + k.name + "_" + name }

// names of a metric's labels: its own and those of the object.
func (k kind) names(own ...string) []string {
	for _, label := range k.labels {
		own = append(own, strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(label))
	}
	return own
}

// values of the labels that names names.
func (k kind) values(obj client.Object, own ...string) []string {
	for _, label := range k.labels {
		own = append(own, obj.GetLabels()[label])
	}
	return own
}

// conditionsOf are an object's conditions.
func conditionsOf(obj client.Object) []metav1.Condition {
	var out []metav1.Condition
	switch o := obj.(type) {
	case status.Object:
		for _, c := range o.GetConditions() {
			out = append(out, metav1.Condition(c))
		}
	case *corev1.Node:
		for _, c := range o.Status.Conditions {
			out = append(out, metav1.Condition{
				Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return out
}

// standing tells how the conditions of a kind's objects stand.
type standing struct {
	kind
	count, seconds, terminating *prometheus.Desc
}

func newStanding(k kind) standing {
	condition := k.names("namespace", "name", "type", "status", "reason")
	return standing{
		kind:        k,
		count:       prometheus.NewDesc(k.metric("status_condition_count"), "Conditions that objects have: 1 each.", condition, nil),
		seconds:     prometheus.NewDesc(k.metric("status_condition_current_status_seconds"), "How long conditions have had their status.", condition, nil),
		terminating: prometheus.NewDesc(k.metric("termination_current_time_seconds"), "How long objects have been ending.", k.names("namespace", "name"), nil),
	}
}

func (s standing) describe(to chan<- *prometheus.Desc) {
	to <- s.count
	to <- s.seconds
	to <- s.terminating
}

func (s standing) collect(ctx context.Context, cache client.Reader, to chan<- prometheus.Metric) error {
	list, ok := s.list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("gauges: %T is no list", s.list)
	}
	if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	now := time.Now()
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("gauges: %T is no object", item)
		}
		for _, c := range conditionsOf(obj) {
			labels := s.values(obj, obj.GetNamespace(), obj.GetName(), c.Type, string(c.Status), c.Reason)
			to <- gauge(s.count, 1, labels...)
			to <- gauge(s.seconds, now.Sub(c.LastTransitionTime.Time).Seconds(), labels...)
		}
		if at := obj.GetDeletionTimestamp(); at != nil {
			to <- gauge(s.terminating, now.Sub(at.Time).Seconds(), s.values(obj, obj.GetNamespace(), obj.GetName())...)
		}
		return nil
	})
}

// transitions observes how the conditions of a kind's objects change, and how long its objects take to end.
type transitions struct {
	kind
	total       *prometheus.CounterVec
	lasted, end *prometheus.HistogramVec
}

func newTransitions(k kind, r prometheus.Registerer) (transitions, error) {
	t := transitions{
		kind: k,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: k.metric("status_condition_transitions_total"), Help: "Changes of a condition's status, by what it became.",
		}, k.names("type", "status", "reason")),
		lasted: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: k.metric("status_condition_transition_seconds"), Help: "How long conditions had a status before they changed it.", Buckets: k.buckets,
		}, k.names("type", "status")),
		end: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: k.metric("termination_duration_seconds"), Help: "From an object's deletion to its end.", Buckets: k.buckets,
		}, k.names()),
	}
	return t, errors.Join(r.Register(t.total), r.Register(t.lasted), r.Register(t.end))
}

// changed compares an object with what it was; nil where it is new.
func (t transitions) changed(was, is client.Object) {
	before := map[string]metav1.Condition{}
	if was != nil {
		for _, c := range conditionsOf(was) {
			before[c.Type] = c
		}
	}
	for _, c := range conditionsOf(is) {
		old, had := before[c.Type]
		if had && old.Status == c.Status {
			continue
		}
		t.total.WithLabelValues(t.values(is, c.Type, string(c.Status), c.Reason)...).Inc()
		if had {
			t.lasted.WithLabelValues(t.values(is, old.Type, string(old.Status))...).Observe(c.LastTransitionTime.Sub(old.LastTransitionTime.Time).Seconds())
		}
	}
}

// ended is told of an object that is gone.
func (t transitions) ended(obj client.Object) {
	if at := obj.GetDeletionTimestamp(); at != nil {
		t.end.WithLabelValues(t.values(obj)...).Observe(time.Since(at.Time).Seconds())
	}
}

// of returns what is to be called for each object of a kind.
func of[P client.Object](t transitions) handlers[P] {
	return handlers[P]{
		added:   func(is P) { t.changed(nil, is) },
		changed: func(was, is P) { t.changed(was, is) },
		deleted: func(was P) { t.ended(was) },
	}
}

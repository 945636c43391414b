package gauges

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// transitions observes how the conditions of a kind's objects change, and how long its objects take to be deleted.
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

// changed compares an object with its earlier version; nil if it is new. Its series have the labels that labels returns; labels is called
// only if something changed.
func (t transitions) changed(was, is client.Object, labels func() map[string]string) {
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
		kind, of := t.countedAs(c.Type), labels()
		t.total.WithLabelValues(t.values(of, kind, string(c.Status), bounded(c.Reason))...).Inc()
		if had {
			t.lasted.WithLabelValues(t.values(of, kind, string(old.Status))...).Observe(c.LastTransitionTime.Sub(old.LastTransitionTime.Time).Seconds())
		}
	}
}

// ended observes a deleted object.
func (t transitions) ended(obj client.Object) {
	if at := obj.GetDeletionTimestamp(); at != nil {
		t.end.WithLabelValues(t.values(obj.GetLabels())...).Observe(time.Since(at.Time).Seconds())
	}
}

// of returns the handlers of a kind. labels returns those labels of an object that users cannot change.
func of[P client.Object](t transitions, labels func(P) map[string]string) handlers[P] {
	return handlers[P]{
		added:   func(is P) { t.changed(nil, is, func() map[string]string { return labels(is) }) },
		changed: func(was, is P) { t.changed(was, is, func() map[string]string { return labels(is) }) },
		deleted: func(was P) { t.ended(was) },
	}
}

// own returns the labels of an object itself, which only administrators and the launcher write.
func own[P client.Object](obj P) map[string]string { return obj.GetLabels() }

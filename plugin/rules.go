package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/plugin/admission"
)

// admissionRules are the objects that admission reads, as the informers show them. It is safe for concurrent use.
type admissionRules struct {
	limitRanges     corelisters.LimitRangeLister
	runtimeClasses  nodelisters.RuntimeClassLister
	priorityClasses schedulinglisters.PriorityClassLister
	changes         atomic.Int64
}

func newAdmissionRules(f informers.SharedInformerFactory) (*admissionRules, error) {
	r := &admissionRules{
		limitRanges: f.Core().V1().LimitRanges().Lister(), runtimeClasses: f.Node().V1().RuntimeClasses().Lister(),
		priorityClasses: f.Scheduling().V1().PriorityClasses().Lister(),
	}
	for _, informer := range []cache.SharedIndexInformer{
		f.Core().V1().LimitRanges().Informer(), f.Node().V1().RuntimeClasses().Informer(), f.Scheduling().V1().PriorityClasses().Informer(),
	} {
		if _, err := informer.AddEventHandler(notifies(func() { r.changes.Add(1) })); err != nil {
			return nil, fmt.Errorf("watching what admission reads: %w", err)
		}
	}
	return r, nil
}

// notifies calls f at every change.
func notifies(f func()) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f() }, UpdateFunc: func(any, any) { f() }, DeleteFunc: func(any) { f() },
	}
}

// version rises when one of the objects changes.
func (r *admissionRules) version() int64 { return r.changes.Load() }

// read lists the objects.
func (r *admissionRules) read() (*admission.Rules, error) {
	var out admission.Rules
	var err error
	if out.LimitRanges, err = r.limitRanges.List(labels.Everything()); err != nil {
		return nil, fmt.Errorf("listing LimitRanges: %w", err)
	}
	if out.RuntimeClasses, err = r.runtimeClasses.List(labels.Everything()); err != nil {
		return nil, fmt.Errorf("listing RuntimeClasses: %w", err)
	}
	if out.PriorityClasses, err = r.priorityClasses.List(labels.Everything()); err != nil {
		return nil, fmt.Errorf("listing PriorityClasses: %w", err)
	}
	// Of several LimitRanges the first default counts. The API server takes them in no order.
	slices.SortFunc(out.LimitRanges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return &out, nil
}

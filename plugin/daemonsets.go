package plugin

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/admission"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

// liveEvery is how often a DaemonSet's newest pod is looked for: to find it, all of them are read.
const liveEvery = 30 * time.Second

// daemonSets are the DaemonSets of the cluster with the templates of the pods that the API server will make of them. Plan,
// filters and reservations all take them from here, so that they count the same room. It is safe for concurrent use.
type daemonSets struct {
	owners *intake.Owners
	sets   appslisters.DaemonSetLister
	rules  *admissionRules
	// epoch rises when a DaemonSet changes, or a pod shows more than the rules do.
	epoch atomic.Int64

	mu sync.Mutex
	// known are the completed DaemonSets, by UID.
	known map[types.UID]completed
}

// completed is what admission makes of one DaemonSet.
type completed struct {
	from  *appsv1.DaemonSet
	rules int64
	// out is nil where the API server refuses the pods.
	out *appsv1.DaemonSet
	// live means that a pod of the DaemonSet was the model. It is looked for again at until.
	live  bool
	until time.Time
}

func newDaemonSets(f informers.SharedInformerFactory, owners *intake.Owners, rules *admissionRules) (*daemonSets, error) {
	d := &daemonSets{owners: owners, sets: f.Apps().V1().DaemonSets().Lister(), rules: rules, known: map[types.UID]completed{}}
	if _, err := f.Apps().V1().DaemonSets().Informer().AddEventHandler(notifies(func() { d.epoch.Add(1) })); err != nil {
		return nil, fmt.Errorf("watching DaemonSets: %w", err)
	}
	return d, nil
}

// version rises when something changes that the templates depend on.
func (d *daemonSets) version() int64 { return d.epoch.Load() + d.rules.version() }

// arrived notes a pod of a DaemonSet: the first shows what no rule does.
func (d *daemonSets) arrived(owner types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if have, ok := d.known[owner]; ok && !have.live && !have.until.IsZero() {
		have.until = time.Time{}
		d.known[owner] = have
		d.epoch.Add(1)
	}
}

// list returns the completed DaemonSets, those excepted whose pods the API server refuses.
func (d *daemonSets) list(logger klog.Logger, now time.Time) ([]*appsv1.DaemonSet, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counted := d.rules.version()
	all, err := d.sets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing DaemonSets: %w", err)
	}
	var rules *admission.Rules
	known := make(map[types.UID]completed, len(all))
	var out []*appsv1.DaemonSet
	for _, ds := range all {
		have, ok := d.known[ds.UID]
		if !ok || !sameSpec(have.from, ds) || have.rules != counted || !now.Before(have.until) {
			if rules == nil {
				if rules, err = d.rules.read(); err != nil {
					return nil, err
				}
			}
			have = d.complete(logger, rules, ds, have)
			have.rules, have.until = counted, now.Add(liveEvery)
		}
		known[ds.UID] = have
		if have.out != nil {
			out = append(out, have.out)
		}
	}
	d.known = known
	return out, nil
}

// sameSpec reports whether two versions of a DaemonSet have one spec: the API server counts its changes.
func sameSpec(a, b *appsv1.DaemonSet) bool {
	return a == b || a.UID == b.UID && a.Generation == b.Generation && a.Generation > 0
}

func (d *daemonSets) complete(logger klog.Logger, rules *admission.Rules, ds *appsv1.DaemonSet, before completed) completed {
	live := d.newest(ds)
	out, err := rules.DaemonSet(ds, live)
	if err != nil && (before.from == nil || before.out != nil) {
		logger.V(1).Info("The API server refuses the pods of a DaemonSet, no room is counted for them", "daemonSet", klog.KObj(ds), "err", err)
	}
	return completed{from: ds, out: out, live: live != nil}
}

// newest is the youngest pod that was made from the DaemonSet's template; nil for none. A pod whose spec has changed since it was made, such as one that was
// resized in place, shows what the next one will be like only where no other does.
func (d *daemonSets) newest(ds *appsv1.DaemonSet) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range d.owners.PodsOf(intake.Controller{Namespace: ds.Namespace, UID: ds.UID}) {
		if admission.Current(ds, pod) && (newest == nil || closer(pod, newest) > 0) {
			newest = pod
		}
	}
	return newest
}

// closer is positive if a shows better than b what the API server makes of their template, and negative if b does.
func closer(a, b *corev1.Pod) int {
	return cmp.Or(-cmp.Compare(changes(a), changes(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// changes is 0 for a pod with the spec that it was made with, and 1 for one that was changed. API servers before 1.33 give pods no generation: theirs is 0.
func changes(pod *corev1.Pod) int64 { return min(max(pod.Generation-1, 0), 1) }

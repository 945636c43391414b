package terminate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	// gather is how long requests are collected for one call.
	gather = 100 * time.Millisecond
	// endPeriod is the period of asking EC2 for the states of terminating instances.
	endPeriod = 2 * time.Second
	// askAgain is when TerminateInstances is repeated for an instance that still runs, and the longest pause after a refusal: the first is endPeriod, and each
	// more doubles it.
	askAgain = 30 * time.Second
)

// ends terminates instances and tracks them until they have terminated, with one call of each kind for all. The mutex guards the map; only
// Run's goroutine calls the cloud.
type ends struct {
	cloud Instances
	guard leadership.Guard
	wake  chan struct{}
	// over receives the owner of an instance that has terminated, if there is a receiver.
	over chan owner

	mu     sync.Mutex
	wanted map[string]*end
	// shifted are the zones that a zonal shift is away from, as of the last step: no call is made for instances there, and that EC2 does not show one says
	// nothing. While they are not known, that says nothing of any instance.
	shifted map[string]bool
	known   bool
}

// owner names the object that waits for the end of an instance: its NodeClaim, or its Node where that has none.
type owner struct{ claim, node string }

type end struct {
	// owner is the last one that asked.
	owner owner
	// born is the latest time at which the instance was requested: EC2 may not show a young one yet.
	born time.Time
	// zone is the ID of its zone.
	zone string
	// terminate is false if only the state is needed.
	terminate bool
	// again is when it may be asked for again, first when it was asked for successfully for the first time.
	again time.Time
	first time.Time
	// ending means that EC2 shows the instance shutting down: the call need not be repeated.
	ending bool
	// called means that it did, or that it has accepted a call: to terminate an instance that a zonal shift hides from it is no error, and no success.
	called bool
	// gone means that the instance has terminated, ended when that was seen.
	gone  bool
	ended time.Time
	// counted means that took has returned how long it took.
	counted bool
	// failures is the number of failed terminations in a row, failure the last error; reportedAt is when it was last reported.
	failures   int
	failure    string
	reportedAt time.Time
}

func newEnds(c Instances, g leadership.Guard) *ends {
	return &ends{cloud: c, guard: g, wake: make(chan struct{}, 1), over: make(chan owner, 1024), wanted: map[string]*end{}}
}

// watch reports whether the instance of an object has terminated, without terminating it.
func (e *ends) watch(instanceID string, by owner, of client.Object) bool {
	return e.want(instanceID, by, of, false)
}

// end terminates the instance of an object and reports whether it has terminated. It is called until it has.
func (e *ends) end(instanceID string, by owner, of client.Object) bool {
	return e.want(instanceID, by, of, true)
}

func (e *ends) want(instanceID string, by owner, of client.Object, terminate bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.wanted[instanceID]
	if !ok {
		w = &end{born: of.GetCreationTimestamp().Time, zone: of.GetLabels()[awsv1.LabelTopologyZoneID]}
		e.wanted[instanceID] = w
	}
	w.owner = by
	if !ok || terminate && !w.terminate {
		w.terminate = terminate
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return w.gone
}

// took returns how long the instance took to terminate: once for each instance, and false otherwise.
func (e *ends) took(instanceID string) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.wanted[instanceID]
	if !ok || w.counted || !w.gone || w.first.IsZero() {
		return 0, false
	}
	w.counted = true
	return w.ended.Sub(w.first), true
}

// ending returns how far the end of an instance is.
func (e *ends) ending(instanceID string) ending {
	shifted, known := e.cloud.ShiftedZones()
	e.mu.Lock()
	defer e.mu.Unlock()
	out := ending{known: known}
	if w, ok := e.wanted[instanceID]; ok {
		out.called = w.called
		if shifted[w.zone] {
			out.zone = w.zone
		}
	}
	return out
}

// failed returns why EC2 does not terminate the instance, from its second refusal on and at most once per askAgain; "" if there is no
// failure, and while no call is made.
func (e *ends) failed(instanceID string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.wanted[instanceID]
	if !ok || e.shifted[w.zone] || w.failures < 2 || time.Since(w.reportedAt) < askAgain {
		return ""
	}
	w.reportedAt = time.Now()
	return w.failure
}

func (e *ends) forget(instanceID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.wanted, instanceID)
}

func (e *ends) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		case <-time.After(endPeriod):
		}
		// Nodes often terminate together: a short wait combines many requests into one call.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(gather):
		}
		// Requests that arrived meanwhile are handled now.
		select {
		case <-e.wake:
		default:
		}
		if err := e.step(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Could not end instances; trying again")
		}
	}
}

// step calls TerminateInstances for the due instances and DescribeInstances for those that have not terminated.
func (e *ends) step(ctx context.Context) error {
	// Shifts are read before the instances: one that ends in between may have hidden some.
	e.shift(e.cloud.ShiftedZones())
	calls, open := e.due(time.Now())
	if len(open) == 0 {
		return nil
	}
	ctx, cancel, ok := e.guard.Context(ctx)
	if !ok {
		return nil
	}
	defer cancel()
	var refused error
	for _, due := range calls {
		klog.FromContext(ctx).V(2).Info("Terminating instances", "instanceIDs", due)
		err := e.cloud.Terminate(ctx, due)
		e.asked(due, cloud.NotTerminated(err, due), time.Now())
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("terminating %s: %w", catalog.CountText(len(due), "instance"), err))
		}
	}
	// Instances that EC2 refuses to terminate hold up no others.
	instances, err := e.cloud.Instances(ctx, cloud.Selector{IDs: open})
	if err != nil {
		return errors.Join(refused, fmt.Errorf("describing %s: %w", catalog.CountText(len(open), "instance"), err))
	}
	e.observe(open, instances, time.Now())
	return refused
}

// shift notes the zones that a zonal shift is away from.
func (e *ends) shift(zones map[string]bool, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shifted, e.known = zones, known
}

// due returns the instances to terminate by call, and those that have not terminated. EC2 refuses a call because of one of its instances: those that it has
// refused before have a call of their own.
func (e *ends) due(now time.Time) (calls [][]string, open []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var due, refused []string
	for _, id := range slices.Sorted(maps.Keys(e.wanted)) {
		w := e.wanted[id]
		if w.gone {
			continue
		}
		open = append(open, id)
		switch {
		case !w.terminate || w.ending || e.shifted[w.zone] || now.Before(w.again):
		case w.failures > 0:
			refused = append(refused, id)
		default:
			due = append(due, id)
		}
	}
	for _, ids := range [][]string{due, refused} {
		if len(ids) > 0 {
			calls = append(calls, ids)
		}
	}
	return calls, open
}

// asked notes the outcome of a call for instances: failed has the errors of those that EC2 does not terminate.
func (e *ends) asked(ids []string, failed map[string]error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		w := e.wanted[id]
		if w == nil {
			continue
		}
		if err := failed[id]; err != nil {
			w.failures, w.failure = w.failures+1, err.Error()
			w.again = now.Add(min(endPeriod<<min(w.failures-1, 8), askAgain))
			continue
		}
		w.again, w.failures, w.failure = now.Add(askAgain), 0, ""
		w.called = w.called || e.known
		if w.first.IsZero() {
			w.first = now
		}
	}
}

func (e *ends) observe(asked []string, instances []cloud.Instance, now time.Time) {
	states := make(map[string]cloud.InstanceState, len(instances))
	for _, i := range instances {
		states[i.ID] = i.State
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range asked {
		w := e.wanted[id]
		if w == nil {
			continue
		}
		w.ending = states[id] == cloud.StateShuttingDown
		w.called = w.called || w.ending
		if !gone(states[id], now.Sub(w.born)) || states[id] == "" && (!e.known || e.shifted[w.zone]) {
			continue
		}
		w.gone, w.ended = true, now
		select {
		case e.over <- w.owner:
		default: // The reconciler checks again by itself.
		}
	}
}

// gone interprets a state, empty for an instance that EC2 does not show: a young one may not be shown yet.
func gone(state cloud.InstanceState, age time.Duration) bool {
	return state == cloud.StateTerminated || state == "" && age >= visibleAfter
}

// forgetOwner forgets the instances of an object that is gone.
func (e *ends) forgetOwner(o owner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.wanted, func(_ string, w *end) bool { return w.owner == o })
}

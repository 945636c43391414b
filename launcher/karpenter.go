package launcher

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// karpenterLease is the name of Karpenter's leader election Lease.
const karpenterLease = "karpenter-leader-election"

const (
	// lookForKarpenter is how often its Lease is read: less than its default duration of 15 s.
	lookForKarpenter = 10 * time.Second
	// lookAgain is how often it is read until it is known whether a Karpenter runs: a leader renews its Lease every 2 s by default.
	lookAgain = 2 * time.Second
	// succession is how long the Lease of a Karpenter that ended is left to the next one, as in an upgrade: one that waits tries every 2 to 4.4 s by default
	// (client-go's RetryPeriod and JitterFactor).
	succession = 10 * time.Second
)

// neighbour detects a running Karpenter: two programs that launch for the same NodePools would buy everything twice. A Karpenter runs if
// its Lease moves between two reads, as in client-go's leader election: renewTime is written by another machine's clock, and compared
// with nothing but itself. The Lease is in a namespace that a Karpenter may run in: a tenant may write one of that name as well.
type neighbour struct {
	reader   client.Reader
	selector labels.Selector
	// changed is called when a Karpenter started or stopped, and once after the first check.
	changed func()
	// keeps returns nil if the admission policies keep a running Karpenter from a NodePool, and else why not. It is set before anything runs.
	keeps func(pool string) error
	// launchers are the users that may create NodeClaims, as of the last read; nil before the first.
	launchers atomic.Pointer[users]
	// looked means that the first check is done: before it, the result is unknown.
	looked atomic.Bool
	// lease is the namespace of the current Lease; nil while there is none.
	lease atomic.Pointer[string]
	// seen are the Leases of the last read, by namespace; nil before the first. ignored are the namespaces whose Leases are not Karpenter's, and
	// rights are what that depends on. All are the checking goroutine's.
	seen    map[string]renewal
	ignored map[string]bool
	rights  rights
}

// renewal is a Lease as it was last seen to change.
type renewal struct {
	renewTime time.Time
	holder    string
	// at is when it was first read so, by this machine's clock.
	at time.Time
	// moved means that an earlier read differed: its holder was alive then.
	moved bool
}

// state is what two reads of a Lease show.
type state int

// The states of a Lease.
const (
	gone state = iota
	undecided
	live
	forged
)

func newNeighbour(reader client.Reader, handover string, changed func()) (*neighbour, error) {
	selector, err := labels.Parse(handover)
	if err != nil {
		return nil, err
	}
	if handover == "" {
		selector = labels.Nothing()
	}
	return &neighbour{reader: reader, selector: selector, changed: changed}, nil
}

// run checks until ctx ends.
func (n *neighbour) run(ctx context.Context) error {
	for {
		pause := lookForKarpenter
		if !n.look(ctx, time.Now()) {
			pause = lookAgain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// look reads Karpenter's Leases in all namespaces. It returns false if it has to be called again soon.
func (n *neighbour) look(ctx context.Context, now time.Time) (decided bool) {
	var list coordinationv1.LeaseList
	if err := n.reader.List(ctx, &list, client.MatchingFields{"metadata.name": karpenterLease}); err != nil {
		klog.FromContext(ctx).Error(err, "Karpenter's Leases could not be read", "name", karpenterLease)
		return n.looked.Load() // The last result stays.
	}
	var namespace *string
	decided = true
	seen, ignored := make(map[string]renewal, len(list.Items)), map[string]bool{}
	for i := range list.Items {
		lease := &list.Items[i]
		r, state, err := n.judge(ctx, lease, now)
		if err != nil {
			klog.FromContext(ctx).Error(err, "The namespaces that a Karpenter may run in could not be read", "lease", klog.KObj(lease))
			return n.looked.Load() // The last result stays.
		}
		seen[lease.Namespace] = r
		switch {
		case state == forged:
			ignored[lease.Namespace] = true
		case state == undecided:
			decided = false
		case state == live && (namespace == nil || lease.Namespace < *namespace):
			namespace = &lease.Namespace
		}
	}
	n.seen = seen
	n.ignore(ctx, ignored)
	if namespace == nil && !decided {
		return false // The last result stays.
	}
	before, known := n.lease.Swap(namespace), n.looked.Swap(true)
	if !known || (before == nil) != (namespace == nil) {
		n.changed()
	}
	if (before == nil) != (namespace == nil) {
		klog.FromContext(ctx).Info("A Karpenter started or stopped: while one runs, slipway manages only the NodePools of the handover selector",
			"live", namespace != nil)
	}
	return decided
}

// judge returns what two reads of a Lease show, and that a Lease which moves is forged where no Karpenter may run in its namespace.
func (n *neighbour) judge(ctx context.Context, lease *coordinationv1.Lease, now time.Time) (renewal, state, error) {
	r, state := n.renewed(lease, now)
	if state == gone {
		return r, gone, nil
	}
	if err := n.rights.read(ctx, n.reader, now); err != nil {
		return r, state, err
	}
	launchers := n.rights.users
	n.launchers.Store(&launchers)
	if !n.rights.in(lease.Namespace) {
		return r, forged, nil
	}
	return r, state, nil
}

// ignore logs the namespaces whose Leases are ignored since this read.
func (n *neighbour) ignore(ctx context.Context, namespaces map[string]bool) {
	for namespace := range namespaces {
		if !n.ignored[namespace] {
			klog.FromContext(ctx).Info("A Lease has the name of Karpenter's and is ignored: no service account of its namespace may create NodeClaims",
				"lease", klog.KRef(namespace, karpenterLease))
		}
	}
	n.ignored = namespaces
}

// renewed compares a Lease with the last read. A Lease that was not there at the last read has a living holder.
func (n *neighbour) renewed(lease *coordinationv1.Lease, now time.Time) (renewal, state) {
	spec := lease.Spec
	next := renewal{holder: ptr.Deref(spec.HolderIdentity, ""), at: now, moved: n.seen != nil}
	if spec.RenewTime != nil {
		next.renewTime = spec.RenewTime.Time
	}
	before, there := n.seen[lease.Namespace]
	if there && before.renewTime.Equal(next.renewTime) && before.holder == next.holder {
		next = before
	}
	valid := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second
	if next.holder == "" || next.renewTime.IsZero() {
		valid = 0
	}
	since := now.Sub(next.at)
	switch {
	case next.moved && since < valid:
		return next, live
	case since < valid, next.moved && since < valid+succession:
		return next, undecided
	}
	return next, gone
}

// manages reports whether slipway manages a NodePool, and if not, why.
func (n *neighbour) manages(pool *karpv1.NodePool) (bool, string) {
	if provider.OthersPool(pool) {
		return false, "its class is another provider's"
	}
	if !n.looked.Load() {
		return false, "the check for a running Karpenter is not done yet"
	}
	namespace := n.lease.Load()
	if namespace == nil {
		return true, ""
	}
	if n.Selected(pool) {
		if err := n.keeps(pool.Name); err != nil {
			return false, fmt.Sprintf("a live Karpenter holds Lease %s/%s: %v", *namespace, karpenterLease, err)
		}
		return true, ""
	}
	return false, fmt.Sprintf("a live Karpenter holds Lease %s/%s and the handover selector does not select this NodePool", *namespace, karpenterLease)
}

// Alone reports whether certainly no Karpenter is running.
func (n *neighbour) Alone() bool { return n.looked.Load() && n.lease.Load() == nil }

// Known reports whether it is known if a Karpenter is running.
func (n *neighbour) Known() bool { return n.looked.Load() }

// Selected reports whether a NodePool is handed over while a Karpenter is running.
func (n *neighbour) Selected(pool *karpv1.NodePool) bool {
	return !provider.OthersPool(pool) && n.selector.Matches(labels.Set(pool.Labels))
}

// handedOver reports whether a Karpenter is running, and the NodePool is slipway's all the while.
func (n *neighbour) handedOver(pool *karpv1.NodePool) bool { return !n.Alone() && n.Selected(pool) }

// theirs reports whether a Karpenter is running, and the NodePool is its own.
func (n *neighbour) theirs(pool *karpv1.NodePool) bool {
	return n.lease.Load() != nil && !n.Selected(pool)
}

// IsKarpenter reports whether a user may create NodeClaims.
func (n *neighbour) IsKarpenter(user string) bool {
	launchers := n.launchers.Load()
	return launchers != nil && launchers.has(user)
}

// own marks a new NodeClaim as slipway's while a Karpenter is running, which must not launch it.
func (n *neighbour) own(claim *karpv1.NodeClaim) {
	if !n.Alone() {
		finalizer.Take(claim)
	}
}

// ours reports whether slipway launches, joins and terminates a NodeClaim: those with an EC2NodeClass, and while a Karpenter is running,
// only those with slipway's finalizer. Until it is known whether one runs, those that slipway recorded are taken for ours. Another provider's
// claims are never touched, as in Karpenter (pkg/utils/nodeclaim, IsManaged).
func (n *neighbour) ours(claim *karpv1.NodeClaim) bool {
	if provider.OthersClaim(claim) {
		return false
	}
	_, recorded := claim.Annotations[catalog.InstanceTypesAnnotation]
	return finalizer.Taken(claim) || n.Alone() || recorded && !n.Known()
}

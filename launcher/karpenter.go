package launcher

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/karpenter-provider-aws/pkg/apis"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// karpenterLease is the name of Karpenter's leader election Lease.
const karpenterLease = "karpenter-leader-election"

// lookForKarpenter is how often its Lease is read: less than its default duration of 15 s.
const lookForKarpenter = 10 * time.Second

// neighbour detects a running Karpenter: two programs that launch for the same NodePools would buy everything twice.
type neighbour struct {
	reader   client.Reader
	selector labels.Selector
	// changed is called when a Karpenter started or stopped, and once after the first check.
	changed func()
	// looked means that the first check is done: before it, the result is unknown.
	looked atomic.Bool
	// lease is the namespace of the current Lease; nil while there is none.
	lease atomic.Pointer[string]
}

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
		n.look(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookForKarpenter):
		}
	}
}

func (n *neighbour) look(ctx context.Context, now time.Time) {
	var live *string
	for _, namespace := range []string{"kube-system", "karpenter"} {
		lease := &coordinationv1.Lease{}
		err := n.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: karpenterLease}, lease)
		if client.IgnoreNotFound(err) != nil {
			klog.FromContext(ctx).Error(err, "Karpenter's Lease could not be read", "namespace", namespace)
			return // The last result stays.
		}
		if err == nil && alive(lease, now) {
			live = &namespace
		}
	}
	before, known := n.lease.Swap(live), n.looked.Swap(true)
	if !known || (before == nil) != (live == nil) {
		n.changed()
	}
	if (before == nil) != (live == nil) {
		klog.FromContext(ctx).Info("A Karpenter started or stopped: while one runs, slipway manages only the NodePools of the handover selector", "live", live != nil)
	}
}

func alive(lease *coordinationv1.Lease, now time.Time) bool {
	spec := lease.Spec
	if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil || spec.HolderIdentity == nil || *spec.HolderIdentity == "" {
		return false
	}
	return now.Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second))
}

// manages reports whether slipway manages a NodePool, and if not, why.
func (n *neighbour) manages(pool *karpv1.NodePool) (bool, string) {
	if !n.looked.Load() {
		return false, "the check for a running Karpenter is not done yet"
	}
	namespace := n.lease.Load()
	if namespace == nil || n.selector.Matches(labels.Set(pool.Labels)) {
		return true, ""
	}
	return false, fmt.Sprintf("a live Karpenter holds Lease %s/%s and the handover selector does not select this NodePool", *namespace, karpenterLease)
}

// alone reports whether certainly no Karpenter is running.
func (n *neighbour) alone() bool { return n.looked.Load() && n.lease.Load() == nil }

// ours reports whether slipway launches, joins and terminates a NodeClaim: those with an EC2NodeClass, and while a Karpenter is running,
// only those that slipway recorded. Another provider's claims are never touched, as in Karpenter (pkg/utils/nodeclaim, IsManaged).
func (n *neighbour) ours(claim *karpv1.NodeClaim) bool {
	if ref := claim.Spec.NodeClassRef; ref != nil && ref.Group != "" && ref.Group != apis.Group {
		return false
	}
	_, recorded := claim.Annotations[catalog.InstanceTypesAnnotation]
	return recorded || n.alone()
}

package join

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// confirmAgain is when a claim is looked at again that is overdue by the cache alone.
const confirmAgain = time.Second

// confirm decides on a claim that is overdue once more, with its Node as the API server has it: the cache may not show yet that it is Ready. Other ends
// stay as they are.
func confirm(ctx context.Context, api client.Reader, o Observed, d Decision) (Decision, error) {
	name := o.Claim.Status.NodeName
	if o.Node != nil {
		name = o.Node.Name
	}
	if name == "" || d.End != registrationTimeout && d.End != readinessTimeout {
		return d, nil
	}
	current := &corev1.Node{}
	err := api.Get(ctx, types.NamespacedName{Name: name}, current)
	if client.IgnoreNotFound(err) != nil {
		return d, fmt.Errorf("reading Node %s before its NodeClaim %s is ended: %w", name, o.Claim.Name, err)
	}
	o.Node = nil
	if err == nil && takes(o.Claim, current) {
		o.Node = current
	}
	again := Decide(o)
	if again.End == "" {
		klog.FromContext(ctx).V(2).Info("NodeClaim is overdue by the cache alone", "nodeClaim", klog.KObj(o.Claim), "node", name, "reason", d.End)
	}
	return again, nil
}

package terminate

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// guarded reports whether the claim has the finalizer that keeps it until its instance has ended.
func guarded(claim *karpv1.NodeClaim) bool {
	return controllerutil.ContainsFinalizer(claim, karpv1.TerminationFinalizer)
}

// launched reports whether the claim has an instance, or may have one.
func launched(claim *karpv1.NodeClaim) bool {
	return claim.Status.ProviderID != "" || claim.Annotations[catalog.LaunchAnnotation] != ""
}

// released remembers the claims whose end is complete while another finalizer keeps them, such as foregroundDeletion: without it
// they look like claims whose finalizer somebody removed, which are still to be ended. A new process ends them once more, which
// changes nothing.
type released struct {
	mu     sync.Mutex
	claims map[string]types.UID
}

// add remembers a claim, unless nothing keeps it any more.
func (r *released) add(claim *karpv1.NodeClaim) {
	if len(claim.Finalizers) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[claim.Name] = claim.UID
}

// has reports whether the claim's end is complete.
func (r *released) has(claim *karpv1.NodeClaim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[claim.Name] == claim.UID && claim.UID != ""
}

// forget drops a claim that is gone.
func (r *released) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claims, name)
}

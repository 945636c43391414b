package terminate

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// guarded reports whether the claim has the finalizer that keeps it until its instance has terminated.
func guarded(claim *karpv1.NodeClaim) bool {
	return finalizer.Guarded(claim)
}

// launched reports whether the claim has an instance, or may have one.
func launched(claim *karpv1.NodeClaim) bool {
	return claim.Status.ProviderID != "" || claim.Annotations[catalog.LaunchAnnotation] != ""
}

// released records the claims whose termination is complete while another finalizer keeps them, such as foregroundDeletion. Otherwise they
// look like claims whose finalizer was removed, which still must be terminated. A new process terminates them once more, which changes
// nothing.
type released struct {
	mu     sync.Mutex
	claims map[string]types.UID
}

// add records a claim, unless no finalizer keeps it any more.
func (r *released) add(claim *karpv1.NodeClaim) {
	if len(claim.Finalizers) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[claim.Name] = claim.UID
}

// has reports whether the claim's termination is complete.
func (r *released) has(claim *karpv1.NodeClaim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[claim.Name] == claim.UID && claim.UID != ""
}

// forget drops a deleted claim.
func (r *released) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claims, name)
}

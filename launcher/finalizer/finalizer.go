package finalizer

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// Slipway is the finalizer of NodeClaims and Nodes that slipway owns while a Karpenter runs.
const Slipway = "slipway.dev/termination"

// Is reports whether a finalizer keeps an object until its instance has terminated: slipway's finalizer or Karpenter's.
func Is(name string) bool { return name == karpv1.TerminationFinalizer || name == Slipway }

// Guarded reports whether the object is kept until its instance has terminated.
func Guarded(o metav1.Object) bool { return slices.ContainsFunc(o.GetFinalizers(), Is) }

// Taken reports whether the object is slipway's although a Karpenter runs.
func Taken(o metav1.Object) bool { return slices.Contains(o.GetFinalizers(), Slipway) }

// Karpenters reports whether a Karpenter acts on the object: it has Karpenter's finalizer.
func Karpenters(o metav1.Object) bool {
	return slices.Contains(o.GetFinalizers(), karpv1.TerminationFinalizer)
}

// Guard adds Karpenter's finalizer to an object that has neither.
func Guard(o metav1.Object) {
	if !Guarded(o) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), karpv1.TerminationFinalizer))
	}
}

// GuardLike gives a Node the finalizer of its NodeClaim, or Karpenter's where it has none, unless the Node has one.
func GuardLike(node metav1.Object, claim *karpv1.NodeClaim) {
	switch {
	case Guarded(node):
	case claim != nil && Taken(claim):
		Take(node)
		Shield(node)
	default:
		Guard(node)
	}
}

// Take makes slipway the owner.
func Take(o metav1.Object) { set(o, Slipway) }

// Return makes the owner a Karpenter, or slipway where none runs.
func Return(o metav1.Object) { set(o, karpv1.TerminationFinalizer) }

// Release removes both finalizers.
func Release(o metav1.Object) {
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), Is))
}

func set(o metav1.Object, name string) {
	Release(o)
	o.SetFinalizers(append(o.GetFinalizers(), name))
}

// Shield keeps a Karpenter's consolidation and drift from a Node that is slipway's: it does not consider the Node, which it could not disrupt.
// Slipway does not take the annotation for the user's. A Node whose user has forbidden its disruption is left as it is.
func Shield(node metav1.Object) {
	annotations := node.GetAnnotations()
	if _, set := annotations[karpv1.DoNotDisruptAnnotationKey]; set {
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[karpv1.DoNotDisruptAnnotationKey], annotations[disruption.ShieldAnnotation] = "true", "true"
	node.SetAnnotations(annotations)
}

// Unshield undoes Shield.
func Unshield(node metav1.Object) {
	annotations := node.GetAnnotations()
	if annotations[disruption.ShieldAnnotation] == "" {
		return
	}
	delete(annotations, disruption.ShieldAnnotation)
	delete(annotations, karpv1.DoNotDisruptAnnotationKey)
	node.SetAnnotations(annotations)
}

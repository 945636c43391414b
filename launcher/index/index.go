// Package index defines the field indexes with which the launcher's controllers read the cache, so that each is registered once, and which
// changes of a NodePool they watch. It has no state of its own.
package index

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// The indexed fields.
const (
	// PodNodeName indexes pods by the node that they are bound to.
	PodNodeName = "spec.nodeName"
	// PodKept indexes the pods that a ReplicaSet keeps for last when it shrinks (package scalein), by the UID of the set. Pods of
	// other namespaces may name the same UID: ask within one.
	PodKept = "metadata.annotations.pod-deletion-cost"
	// AttachmentNodeName indexes VolumeAttachments by the node that they are for.
	AttachmentNodeName = "spec.nodeName"
	// NodeProviderID indexes Nodes by spec.providerID.
	NodeProviderID = "spec.providerID"
	// ClaimProviderID indexes NodeClaims by status.providerID.
	ClaimProviderID = "status.providerID"
	// ClaimInstanceID indexes NodeClaims by the instance id in status.providerID.
	ClaimInstanceID = "status.instanceID"
	// ClaimLaunching has the value Yes for NodeClaims whose launch was requested and whose instance is not recorded.
	ClaimLaunching = "metadata.annotations.launch"
	// ClaimNodeName indexes NodeClaims by status.nodeName.
	ClaimNodeName = "status.nodeName"
	// ClaimNodePool indexes NodeClaims by their label karpenter.sh/nodepool.
	ClaimNodePool = "metadata.labels.nodepool"
	// ClaimNodeClass indexes NodeClaims by spec.nodeClassRef.name.
	ClaimNodeClass = "spec.nodeClassRef.name"
	// ClaimPromised indexes NodeClaims by the UIDs of their promised pods.
	ClaimPromised = "metadata.annotations.pods"
	// SliceNode indexes ResourceSlices by NodeOfSlice.
	SliceNode = "node"
	// PoolNodeClass indexes NodePools by spec.template.spec.nodeClassRef.name.
	PoolNodeClass = "spec.template.spec.nodeClassRef.name"
)

// Yes is the only value of an index that selects a subset of the NodeClaims.
const Yes = "yes"

// PoolChanges are the changes of a NodePool that its NodeClaims are examined for. Its status is none: that changes with each of its nodes.
func PoolChanges() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// Each calls add for every index: register with a manager's field indexer, or with a fake client's builder.
func Each(add func(obj client.Object, field string, value client.IndexerFunc)) {
	claim := func(field string, value func(*karpv1.NodeClaim) string) {
		add(&karpv1.NodeClaim{}, field, func(o client.Object) []string { return one(value(o.(*karpv1.NodeClaim))) })
	}
	pod := func(field string, value func(*corev1.Pod) string) {
		add(&corev1.Pod{}, field, func(o client.Object) []string { return one(value(o.(*corev1.Pod))) })
	}
	pod(PodNodeName, func(p *corev1.Pod) string { return p.Spec.NodeName })
	pod(PodKept, keptFor)
	add(&storagev1.VolumeAttachment{}, AttachmentNodeName, func(o client.Object) []string { return one(o.(*storagev1.VolumeAttachment).Spec.NodeName) })
	add(&corev1.Node{}, NodeProviderID, func(o client.Object) []string { return one(o.(*corev1.Node).Spec.ProviderID) })
	claim(ClaimProviderID, func(c *karpv1.NodeClaim) string { return c.Status.ProviderID })
	claim(ClaimInstanceID, func(c *karpv1.NodeClaim) string { return InstanceID(c.Status.ProviderID) })
	claim(ClaimLaunching, launching)
	claim(ClaimNodeName, func(c *karpv1.NodeClaim) string { return c.Status.NodeName })
	claim(ClaimNodePool, func(c *karpv1.NodeClaim) string { return c.Labels[karpv1.NodePoolLabelKey] })
	claim(ClaimNodeClass, func(c *karpv1.NodeClaim) string { return className(c.Spec.NodeClassRef) })
	add(&karpv1.NodeClaim{}, ClaimPromised, func(o client.Object) []string { return promised(o.(*karpv1.NodeClaim)) })
	add(&karpv1.NodePool{}, PoolNodeClass, func(o client.Object) []string {
		return one(className(o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef))
	})
}

// Devices calls add for the index of ResourceSlices, which a cluster may not have.
func Devices(add func(obj client.Object, field string, value client.IndexerFunc)) {
	add(&resourcev1.ResourceSlice{}, SliceNode, func(o client.Object) []string { return one(NodeOfSlice(o.(*resourcev1.ResourceSlice))) })
}

// DevicesServed reports whether the API server has the ResourceSlices that Devices is about, which Kubernetes has from 1.34 on. Where it has not, that is logged.
func DevicesServed(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: resourcev1.GroupName, Kind: "ResourceSlice"}, resourcev1.SchemeGroupVersion.Version)
	if err == nil {
		return true, nil
	}
	if !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("finding ResourceSlices: %w", err)
	}
	klog.Background().Info("The setting ignoreDRARequests=false has no effect: the API server has no resourceslices of resource.k8s.io/v1")
	return false, nil
}

// Register registers every index, that of ResourceSlices with devices alone; it is called once, before the manager starts.
func Register(ctx context.Context, indexer client.FieldIndexer, devices bool) (err error) {
	add := func(obj client.Object, field string, value client.IndexerFunc) {
		if e := indexer.IndexField(ctx, obj, field, value); e != nil && err == nil {
			err = fmt.Errorf("index %T by %s: %w", obj, field, e)
		}
	}
	Each(add)
	if devices {
		Devices(add)
	}
	return err
}

// NodeOfSlice returns the name of the Node that the slice's devices are on: the one that it names, or else its owner; "" for devices of several nodes.
func NodeOfSlice(s *resourcev1.ResourceSlice) string {
	if name := ptr.Deref(s.Spec.NodeName, ""); name != "" {
		return name
	}
	for _, owner := range s.OwnerReferences {
		if owner.Kind == "Node" {
			return owner.Name
		}
	}
	return ""
}

// NodeOf returns the Node of a NodeClaim's instance, by providerID; nil where there is none. It is the cache's, and must not be changed.
func NodeOf(ctx context.Context, cache client.Reader, claim *karpv1.NodeClaim) (*corev1.Node, error) {
	if claim.Status.ProviderID == "" {
		return nil, nil
	}
	list := &corev1.NodeList{}
	if err := cache.List(ctx, list, client.MatchingFields{NodeProviderID: claim.Status.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes of NodeClaim %s: %w", claim.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// InstanceID returns the instance ID in a providerID such as aws:///us-east-1a/i-0123; "" for an empty providerID.
func InstanceID(providerID string) string {
	if providerID == "" {
		return ""
	}
	return path.Base(providerID)
}

func launching(c *karpv1.NodeClaim) string {
	if c.Status.ProviderID == "" && c.Annotations[catalog.LaunchAnnotation] != "" && c.DeletionTimestamp == nil {
		return Yes
	}
	return ""
}

func className(ref *karpv1.NodeClassReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// promised returns the UIDs of the promised pods; none if the list cannot be parsed.
func promised(claim *karpv1.NodeClaim) []string {
	pods, err := record.Pods(claim)
	if err != nil {
		return nil
	}
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.UID
	}
	return out
}

// controllerOf returns the UID of a pod's controller; "" for none.
func controllerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// keptFor returns the UID of the ReplicaSet that keeps a pod for last; "" if no set does.
func keptFor(pod *corev1.Pod) string {
	if scalein.Kept(pod.Annotations[corev1.PodDeletionCost]) {
		return controllerOf(pod)
	}
	return ""
}

func one(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

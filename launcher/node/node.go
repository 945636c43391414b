// Package node builds the Node object that the launcher creates before the kubelet boots, and completes one that the kubelet created first.
// All but Patch is pure.
package node

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// excludeDisruption excludes a booting Node from the zone's health: 500 of them at once would look like an outage
// (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
const excludeDisruption = "node.kubernetes.io/exclude-disruption"

// region matches the region in a zone's name: us-east-1a, us-west-2-lax-1a.
var region = regexp.MustCompile(`^[a-z]+(-[a-z]+)+-\d+`)

// recordPrefix is the prefix of the annotations that make a NodeClaim slipway's record: the Node needs none of them, and the list of pods is
// long.
const recordPrefix = "slipway.dev/"

// New returns the Node of a launched claim, complete except for what only the kubelet can set. One of a standby buffer is cordoned: DaemonSets' pods come,
// and no others. It has no conditions, so that it does not
// count as ready, and no extended resources, which a new kubelet would set to zero (pkg/kubelet/kubelet_node_status.go).
func New(claim *karpv1.NodeClaim, instance cloud.Instance) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        instance.PrivateDNSName,
		Labels:      withBeta(Labels(claim, instance)),
		Annotations: map[string]string{},
	}}
	for k, v := range claim.Annotations {
		if !strings.HasPrefix(k, recordPrefix) {
			out.Annotations[k] = v
		}
	}
	if record.Woken(claim) {
		out.Annotations[catalog.WokenAnnotation] = "true"
	}
	out.Labels[excludeDisruption] = "true"
	out.Spec = corev1.NodeSpec{ProviderID: instance.ProviderID(), Taints: record.Taints(claim), Unschedulable: record.StandbyOf(claim).Waits()}
	out.Status.Capacity = native(claim.Status.Capacity)
	out.Status.Allocatable = native(claim.Status.Allocatable)
	out.Status.Addresses = addresses(instance)
	return out
}

// addresses returns those that the cloud controller sets every few minutes, in its order (cloud-provider-aws, pkg/providers/v1/aws.go,
// extractIPv4NodeAddresses). A kubelet leaves the addresses of an existing Node as they are (pkg/kubelet/nodestatus/setters.go).
func addresses(instance cloud.Instance) []corev1.NodeAddress {
	all := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: instance.PrivateIP},
		{Type: corev1.NodeExternalIP, Address: instance.PublicIP},
		{Type: corev1.NodeInternalDNS, Address: instance.PrivateDNSName},
		{Type: corev1.NodeHostName, Address: instance.PrivateDNSName},
		{Type: corev1.NodeExternalDNS, Address: instance.PublicDNSName},
	}
	return slices.DeleteFunc(all, func(a corev1.NodeAddress) bool { return a.Address == "" })
}

// AddRegistration adds the labels and taints with which the kubelet would create the Node itself: it leaves those of an existing Node as they are
// (pkg/kubelet/kubelet_node_status.go, tryRegisterWithAPIServer). What the Node has already stays, and what the launcher writes once the kubelet has
// joined is left out.
func AddRegistration(out *corev1.Node, labels map[string]string, taints []corev1.Taint) {
	for key, value := range labels {
		_, there := out.Labels[key]
		if !there && key != karpv1.NodeRegisteredLabelKey && key != karpv1.NodeInitializedLabelKey {
			metav1.SetMetaDataLabel(&out.ObjectMeta, key, value)
		}
	}
	for _, taint := range taints {
		known := append(slices.Clone(out.Spec.Taints), karpv1.UnregisteredNoExecuteTaint)
		if !slices.ContainsFunc(known, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			out.Spec.Taints = append(out.Spec.Taints, taint)
		}
	}
}

// Labels returns those of the claim, that of its class, which Karpenter adds to claims and Nodes that others created (its hydration controllers), and those that
// follow from the launched instance.
func Labels(claim *karpv1.NodeClaim, instance cloud.Instance) map[string]string {
	out := maps.Clone(claim.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if ref := claim.Spec.NodeClassRef; ref != nil && out[catalog.LabelNodeClass] == "" {
		out[catalog.LabelNodeClass] = ref.Name
	}
	out[corev1.LabelHostname] = instance.PrivateDNSName
	out[corev1.LabelTopologyZone] = instance.Zone
	out[corev1.LabelTopologyRegion] = region.FindString(instance.Zone)
	out[corev1.LabelInstanceTypeStable] = instance.InstanceType
	if instance.ZoneID != "" {
		out[catalog.LabelZoneID] = instance.ZoneID
	}
	if instance.PlacementGroupID != "" {
		out[catalog.LabelPlacementGroupID] = instance.PlacementGroupID
	}
	if instance.Partition > 0 {
		out[catalog.LabelPlacementGroupPartition] = strconv.Itoa(int(instance.Partition))
	}
	return out
}

// withBeta adds the deprecated keys of labels. The cloud controller sets those of zone, region and instance type only when it initializes a Node
// (k8s.io/cloud-provider, controllers/node/node_controller.go), which a Node without its taint is already. That of the CSI driver's zone is its driver's.
func withBeta(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	for key, value := range labels {
		beta := catalog.BetaKey(key)
		if _, ok := out[beta]; beta != "" && value != "" && !ok {
			out[beta] = value
		}
	}
	return out
}

// Complete updates a Node from the claim until it is registered, and reports whether anything changed. Labels and annotations of the claim
// are set; other labels are added if they are missing (the hostname is the kubelet's); taints and the providerID are set. A kubelet that
// created its Node first lacks most of them, and one that found an existing Node does not change them (pkg/kubelet/kubelet_node_status.go).
// While the claim is not registered no taint can have been removed on purpose, but a startup taint, by its agent while no launcher led: the Node has had it
// where it has the launcher's own, which comes with it. As with Karpenter, a Node with the label for it keeps its own taints.
func Complete(have, want *corev1.Node, claim *karpv1.NodeClaim) (*corev1.Node, bool) {
	out := have.DeepCopy()
	for k, v := range want.Labels {
		_, there := out.Labels[k]
		if _, claimed := claim.Labels[k]; claimed && k != corev1.LabelHostname || !there {
			metav1.SetMetaDataLabel(&out.ObjectMeta, k, v)
		}
	}
	for k, v := range want.Annotations {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, k, v)
	}
	starting := slices.ContainsFunc(have.Spec.Taints, func(t corev1.Taint) bool { return t.Key == catalog.StartingTaintKey })
	for _, taint := range want.Spec.Taints {
		if out.Labels[karpv1.NodeDoNotSyncTaintsLabelKey] == "true" && taint.Key != catalog.StartingTaintKey {
			continue
		}
		is := func(t corev1.Taint) bool { return t.MatchTaint(&taint) }
		if starting && slices.ContainsFunc(claim.Spec.StartupTaints, is) {
			continue
		}
		if !slices.ContainsFunc(out.Spec.Taints, is) {
			out.Spec.Taints = append(out.Spec.Taints, taint)
		}
	}
	if out.Spec.ProviderID == "" {
		out.Spec.ProviderID = want.Spec.ProviderID
	}
	out.Spec.Unschedulable = out.Spec.Unschedulable || want.Spec.Unschedulable
	return out, !equality.Semantic.DeepEqual(have, out)
}

// Registered returns the Node as registered: with the finalizer of its NodeClaim, Karpenter's label and owner, and without the taint that its user data may have
// set until then.
func Registered(have *corev1.Node, claim *karpv1.NodeClaim) *corev1.Node {
	out := have.DeepCopy()
	finalizer.GuardLike(out, claim)
	metav1.SetMetaDataLabel(&out.ObjectMeta, karpv1.NodeRegisteredLabelKey, "true")
	out.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: new(true),
	}}
	out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&karpv1.UnregisteredNoExecuteTaint) })
	return out
}

// native returns the resources that a kubelet reports without a device plugin.
func native(in corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods,
	} {
		if q, ok := in[name]; ok {
			out[name] = q
		}
	}
	return out
}

// Started returns the Node without the startup taint and without its label for booting, and whether it had either.
func Started(have *corev1.Node, startingTaint string) (*corev1.Node, bool) {
	out := have.DeepCopy()
	out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, func(t corev1.Taint) bool { return t.Key == startingTaint })
	_, labelled := out.Labels[excludeDisruption]
	delete(out.Labels, excludeDisruption)
	return out, labelled || len(out.Spec.Taints) != len(have.Spec.Taints)
}

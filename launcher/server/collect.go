package server

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// memory holds what a stream sent about its claims, with the versions of its inputs: in a wave of nodes nearly all are unchanged.
type memory map[string]remembered

type remembered struct {
	// claim and version are the claim's, node is the version of its Node, and types that of the instance types. version is empty if the cache does not
	// show every promised pod.
	claim       types.UID
	version     string
	node, types uint64
	message     *api.InFlightNode
}

// look is one pass over the cache.
type look struct {
	*Server
	before, after memory
	// lists are the instance types, types their version or an older one.
	lists lists
	types uint64
}

// recall returns the stored description of a claim, or builds it again if any of its inputs has changed.
func (l *look) recall(ctx context.Context, claim *karpv1.NodeClaim) *api.InFlightNode {
	next := remembered{
		claim: claim.UID, version: claim.ResourceVersion, node: l.hub.versionOf(claim.Status.NodeName), types: l.types,
	}
	have, ok := l.before[claim.Name]
	next.message = have.message
	if !ok || have != next {
		var complete bool
		if next.message, complete = l.inFlightNode(ctx, claim, l.lists); !complete {
			next.version = ""
		}
	}
	l.after[claim.Name] = next
	return next.message
}

// collect reads a client's current state from the cache. The cache's objects are shared and are not changed.
func (s *Server) collect(ctx context.Context, before memory) (sentState, memory, error) {
	var pools karpv1.NodePoolList
	if err := s.config.Client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return sentState{}, nil, err
	}
	l := &look{Server: s, before: before, after: make(memory, len(before)), types: s.types.version()}
	l.lists = s.types.get()
	claims, err := s.config.Claims.All(ctx)
	if err != nil {
		return sentState{}, nil, err
	}
	now := sentState{pools: map[string]*api.NodePool{}, types: map[string]*api.InstanceTypes{}, inFlight: make(map[string]*api.InFlightNode, len(before)), claims: len(claims)}
	foreign := map[string]string{}
	for i := range pools.Items {
		if ok, why := s.config.Manages(&pools.Items[i]); !ok {
			foreign[pools.Items[i].Name] = why
		}
	}
	byPool := map[string][]*karpv1.NodeClaim{}
	for _, claim := range claims {
		if provider.OthersClaim(claim) {
			continue
		}
		claim = estimated(claim, l.lists)
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		byPool[pool] = append(byPool[pool], claim)
		if conditions.InFlight(claim) && (foreign[pool] == "" || record.InstanceTypes(claim) != nil) {
			now.inFlight[claim.Name] = l.recall(ctx, claim)
		}
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		if provider.OthersPool(p) {
			continue
		}
		message := foreign[p.Name]
		o, known := l.lists.known(p)
		if !known {
			o.problem = "the instance types of EC2NodeClass " + className(p) + " are not loaded yet"
		}
		limits, held := gated(p, byPool[p.Name], s.config.Gate(p))
		message = cmp.Or(message, notReady(p, o), held)
		now.pools[p.Name] = nodePool(p, nodepool.Usage(byPool[p.Name], l.lists.usdOf(p, limits)), message, o.partitions)
		now.pools[p.Name].Limits, now.pools[p.Name].Overlaid = texts(limits), l.lists.keys[p.Name]
		now.pools[p.Name].HandedOver = foreign[p.Name] == "" && s.config.HandedOver(p)
	}
	for name, o := range l.lists.by {
		now.types[name] = o.message
	}
	return now, l.after, nil
}

// inFlightNode describes a claim's node to the scheduler, with the promised pods that the cache shows; complete means that it shows all.
func (s *Server) inFlightNode(ctx context.Context, claim *karpv1.NodeClaim, lists lists) (out *api.InFlightNode, complete bool) {
	expected := view.ParseExpected(claim.Annotations[catalog.ExpectedAnnotation])
	out = &api.InFlightNode{
		NodeClaim: claim.Name, NodeName: claim.Status.NodeName, NodePool: claim.Labels[karpv1.NodePoolLabelKey],
		Phase: api.Phase_PHASE_RECORDED, Labels: claim.Labels, Taints: taints(claim.Spec.Taints),
		Replaces:     record.Replaces(claim),
		Deadline:     millis(record.Deadline(claim, s.config.Patience)),
		InstanceType: cmp.Or(claim.Labels[corev1.LabelInstanceTypeStable], expected.InstanceType),
		Zone:         cmp.Or(claim.Labels[corev1.LabelTopologyZone], expected.Zone),
		CapacityType: cmp.Or(claim.Labels[karpv1.CapacityTypeLabelKey], expected.CapacityType),
	}
	if s := record.StandbyOf(claim); s.Waits() {
		out.Standby, out.Stopping = s.Buffer, s.State == record.StandbyStopping
	}
	out.Outdated = record.Outdated(claim) || conditions.ClaimIs(claim, karpv1.ConditionTypeDrifted)
	pods, err := record.Pods(claim)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Promises of a NodeClaim cannot be read")
	}
	promises, err := index.Promised(ctx, s.config.Pods, pods)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Promised pods of a NodeClaim cannot be found")
	}
	for _, p := range promises {
		if p.Pod != nil { // The scheduler knows pods by their names.
			out.Pods = append(out.Pods, &api.PodRef{
				Namespace: p.Ref.Namespace, Name: p.Ref.Name, Uid: p.Ref.UID, SchedulerOnly: p.Ref.SchedulerOnly, Adopted: p.Ref.Adopted,
			})
			if s.config.bound(p.Pod) {
				out.BoundPods = append(out.BoundPods, p.Ref.UID)
			}
		}
	}
	allocatable := catalog.WithRequested(lowest(claim, lists), claim.Spec.Resources.Requests)
	if claim.Status.ProviderID != "" {
		out.Phase, allocatable = api.Phase_PHASE_LAUNCHED, claim.Status.Allocatable
	}
	node := &corev1.Node{}
	name := claim.Status.NodeName
	if name != "" && s.config.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy) == nil {
		out.Phase, out.Labels = api.Phase_PHASE_NODE_CREATED, node.Labels
		// The nodes of standby buffers are cordoned by the launcher itself.
		if node.Labels[karpv1.NodeRegisteredLabelKey] == "true" && record.StandbyOf(claim).Buffer == "" {
			out.Taints = taints(catalog.LastingTaints(node, claim.Spec.StartupTaints))
		}
		if status := readyStatus(node); status != "" {
			out.Phase = api.Phase_PHASE_REGISTERED
			allocatable = reported(allocatable, node.Status.Allocatable)
			out.Started = !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == catalog.StartingTaintKey })
			if status == corev1.ConditionTrue {
				out.Phase = api.Phase_PHASE_READY
			}
		}
	}
	out.Allocatable = texts(allocatable)
	return out, len(out.Pods) == len(pods)
}

// bound reports whether a pod has a node, by the cache or because the launcher has just bound it.
func (c *Config) bound(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" || c.Bound(pod.UID)
}

// lowest returns, for each resource, the least allocatable of the instance types that the claim may become.
func lowest(claim *karpv1.NodeClaim, lists lists) corev1.ResourceList {
	types := lists.ofClaim(claim).byName
	var out corev1.ResourceList
	for _, name := range record.InstanceTypes(claim) {
		t, ok := types[name]
		switch {
		case !ok:
		case out == nil:
			out = t.Allocatable.DeepCopy()
		default:
			for resource, have := range out {
				if other := t.Allocatable[resource]; other.Cmp(have) < 0 {
					out[resource] = other
				}
			}
		}
	}
	return out
}

// reported returns the kubelet's values, and the expected ones for resources that its device plugins have not reported yet.
func reported(expected, kubelet corev1.ResourceList) corev1.ResourceList {
	out, _ := nodeobj.Reported(kubelet, expected)
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range expected {
		if have, ok := out[name]; !ok || have.IsZero() {
			out[name] = q
		}
	}
	catalog.CapPods(out)
	return out
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	if c := conditions.Posted(node); c != nil {
		return c.Status
	}
	return ""
}

// explainEnd describes how an in-flight node ended, and which of its pods are not bound. known is the node as it was last sent, nil if it never was.
func (s *Server) explainEnd(ctx context.Context, e *api.InFlightEnd, known *api.InFlightNode) {
	claim := &karpv1.NodeClaim{}
	found := s.config.Client.Get(ctx, types.NamespacedName{Name: e.GetNodeClaim()}, claim, client.UnsafeDisableDeepCopy) == nil
	if known == nil && found {
		known, _ = s.inFlightNode(ctx, claim, s.types.get())
		e.NodeName = known.GetNodeName()
	}
	switch {
	case found && conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized):
		e.Outcome, e.Reason, e.Message = api.Outcome_OUTCOME_INITIALIZED, "Initialized", "the node is an ordinary one by now"
	default:
		e.Outcome, e.Reason, e.Message = api.Outcome_OUTCOME_DELETED, "Deleted", "the NodeClaim was deleted"
		if f, ok := s.failures.named(e.GetNodeClaim()); ok {
			e.Outcome, e.Reason, e.Message = api.Outcome_OUTCOME_FAILED, f.reason, f.message
		}
	}
	for _, p := range known.GetPods() {
		pod := &corev1.Pod{}
		err := s.config.Client.Get(ctx, types.NamespacedName{Namespace: p.GetNamespace(), Name: p.GetName()}, pod, client.UnsafeDisableDeepCopy)
		if err != nil || string(pod.UID) != p.GetUid() || !s.config.bound(pod) {
			e.UnboundPods = append(e.UnboundPods, p.GetUid())
		}
	}
}

package join

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// observe gathers Decide's input for one claim.
func (c *Controller) observe(ctx context.Context, claim *karpv1.NodeClaim) (Observed, error) {
	o := Observed{Now: time.Now(), Claim: claim, Settings: c.config.Settings}
	o.LedSince = c.leading.since(ctx, o.Now)
	if err := c.nodesOf(ctx, &o); err != nil {
		return o, err
	}
	c.askInstance(ctx, &o)
	var err error
	if o.Slots, err = c.slots(ctx, claim); err != nil {
		return o, err
	}
	if o.Node == nil {
		return o, nil
	}
	if o.OnNode, err = c.config.Pods.On(ctx, o.Node.Name); err != nil {
		return o, err
	}
	if !o.Settings.IgnoreDRARequests && len(requestedDrivers(claim)) > 0 {
		if o.Slices, err = slicesOf(ctx, c.config.Client, o.Node.Name); err != nil {
			return o, err
		}
	}
	o.Known = c.memory.known(claim.UID, o.Node.Name, o.Slots, o.Now)
	o.LeaseRenewed = c.memory.renewal(claim.UID).at
	o.ReadySince, o.Answered = c.memory.ready(claim.UID, conditions.NodeReady(o.Node), o.Now)
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	c.memory.network(claim.UID, conditions.Posted(o.Node) != nil, networkLate(o.Node))
	o.NetworkAtStart = c.memory.networkAtStart(pool)
	if err = c.poolOf(ctx, pool, &o); err != nil {
		return o, err
	}
	if o.Around, err = c.around.around(ctx, o); err != nil {
		return o, err
	}
	if conditions.Posted(o.Node) != nil && (!conditions.NodeReady(o.Node) || awaited(o)) {
		o.DaemonKeptOff, err = c.daemonKeptOff(ctx, o.Node)
	}
	return o, err
}

// poolOf notes what the NodePool says about the binding of pods. One that is deleted says nothing.
func (c *Controller) poolOf(ctx context.Context, name string, o *Observed) error {
	pool := &karpv1.NodePool{}
	if err := c.config.Client.Get(ctx, types.NamespacedName{Name: name}, pool, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	o.SwitchedOff = c.config.Health.SwitchedOff(pool)
	o.NoDeletionCosts, _ = scalein.Off(pool.Annotations) // The NodePool's condition says what is wrong with it.
	return nil
}

// askEvery is how often EC2 is asked about an instance that boots for longer than bootTime. All claims share these times, so that one call answers for
// all.
const askEvery = 30 * time.Second

// askInstance asks for the state of an instance whose node should be ready by now: an instance that EC2 took away while it booted sends
// nothing, and a cluster without a queue gets no message.
func (c *Controller) askInstance(ctx context.Context, o *Observed) {
	started := record.StartedAt(o.Claim)
	if o.Node == nil || conditions.NodeReady(o.Node) || started.IsZero() || o.Now.Sub(started) < bootTime {
		return
	}
	last, due := c.memory.instance(o.Claim.UID, o.Now.Truncate(askEvery))
	o.Instance, o.StateReason = last.State, last.StateReason
	if !due {
		return
	}
	id := index.InstanceID(o.Claim.Status.ProviderID)
	found, err := c.config.Instances.Instances(ctx, cloud.Selector{IDs: []string{id}})
	switch {
	case err != nil:
		klog.FromContext(ctx).V(2).Info("EC2 returned no state of an instance, asking again later", "instanceID", id, "err", err)
	case len(found) == 1:
		o.Instance, o.StateReason = found[0].State, found[0].StateReason
		c.memory.recordInstance(o.Claim.UID, found[0])
	}
}

// nodesOf returns the claim's Node: by providerID, since a kubelet may have registered under another name than EC2's, else by name. Of
// several with the same providerID it is the one whose kubelet has joined; the other is a placeholder.
func (c *Controller) nodesOf(ctx context.Context, o *Observed) error {
	var list corev1.NodeList
	if err := c.config.Client.List(ctx, &list, client.MatchingFields{index.NodeProviderID: o.Claim.Status.ProviderID}); err != nil {
		return err
	}
	for i := range list.Items {
		n := &list.Items[i]
		switch {
		case o.Node == nil:
			o.Node = n
		case conditions.Posted(o.Node) != nil && conditions.Posted(n) != nil:
			o.Duplicate = n.Name
		case conditions.Posted(o.Node) != nil:
			o.Placeholder = n
		case conditions.Posted(n) != nil:
			o.Node, o.Placeholder = n, o.Node
		}
	}
	if o.Node != nil {
		return nil
	}
	// A kubelet that created the Node first has not set a providerID yet. One that the launcher has just set is not in the index yet.
	named := &corev1.Node{}
	err := c.config.Client.Get(ctx, types.NamespacedName{Name: o.Claim.Status.NodeName}, named)
	if err == nil && takes(o.Claim, named) {
		o.Node = named
	}
	return client.IgnoreNotFound(err)
}

func (c *Controller) slots(ctx context.Context, claim *karpv1.NodeClaim) ([]Slot, error) {
	refs, err := record.Pods(claim)
	if err != nil {
		// The annotation is damaged. The node joins as one without promised pods, or is ended.
		klog.FromContext(ctx).Error(err, "Promises of a NodeClaim cannot be read", "nodeClaim", klog.KObj(claim))
	}
	promises, err := index.Promised(ctx, c.config.Pods, refs)
	if err != nil {
		return nil, err
	}
	slots := make([]Slot, 0, len(promises))
	for _, p := range promises {
		s := Slot{Ref: p.Ref, Pod: p.Pod}
		if p.Pod != nil {
			if err = c.volumes(ctx, &s); err != nil {
				return nil, err
			}
		}
		slots = append(slots, s)
	}
	return slots, nil
}

// volumes notes what the volume claims of the slot's pod say about its binding.
func (c *Controller) volumes(ctx context.Context, s *Slot) error {
	for _, v := range s.Pod.Spec.Volumes {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = s.Pod.Name + "-" + v.Name
		default:
			continue
		}
		pvc := &corev1.PersistentVolumeClaim{}
		err := c.config.Client.Get(ctx, types.NamespacedName{Namespace: s.Pod.Namespace, Name: name}, pvc)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if pvc.Status.Phase != corev1.ClaimBound { // A claim that does not exist counts as unbound.
			s.UnboundVolume = name
			return nil
		}
		pv := &corev1.PersistentVolume{}
		if err = c.config.Client.Get(ctx, types.NamespacedName{Name: pvc.Spec.VolumeName}, pv, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
			s.UnboundVolume = name // The cache of volumes is behind that of claims.
			return nil
		}
		if err != nil {
			return err
		}
		s.Volumes = append(s.Volumes, pv)
		if s.ClaimTaken == "" && s.Pod.Spec.NodeName == "" && slices.Contains(pvc.Spec.AccessModes, corev1.ReadWriteOncePod) {
			if s.ClaimTaken, err = taken(ctx, c.config.Pods, s.Pod, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// taken returns that another pod on a node uses a ReadWriteOncePod claim of the pod; "" if none does. One that terminates uses it until it is gone, as for
// the scheduler (pkg/scheduler/framework/plugins/volumerestrictions).
func taken(ctx context.Context, pods index.Pods, pod *corev1.Pod, claim string) (string, error) {
	others, err := pods.In(ctx, pod.Namespace)
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if other.UID == pod.UID || other.Spec.NodeName == "" || disruption.Terminal(other) {
			continue
		}
		if slices.Contains(disruption.VolumeClaims(other), claim) {
			return fmt.Sprintf("volume claim %s is ReadWriteOncePod, and pod %s on node %s uses it", claim, other.Name, other.Spec.NodeName), nil
		}
	}
	return "", nil
}

// daemonKeptOff returns a DaemonSet whose pods fit the node and tolerate all of its taints except the launcher's.
func (c *Controller) daemonKeptOff(ctx context.Context, node *corev1.Node) (string, error) {
	var list appsv1.DaemonSetList
	if err := c.config.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	for i := range list.Items {
		ds := &list.Items[i]
		pod := &corev1.Pod{Spec: ds.Spec.Template.Spec}
		fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Node affinity of a DaemonSet cannot be read", "daemonSet", klog.KObj(ds), "err", err)
			continue
		}
		if fits && keptOffByOursAlone(pod, node) {
			return ds.Namespace + "/" + ds.Name, nil
		}
	}
	return "", nil
}

// keptOffByOursAlone compares tolerations with taints; the DaemonSet controller adds tolerations of the node's own conditions
// (pkg/controller/daemon/util/daemonset_util.go).
func keptOffByOursAlone(pod *corev1.Pod, node *corev1.Node) bool {
	kept := false
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || daemonsTolerate(pod, taint) || toleratedBy(pod, taint) {
			continue
		}
		if taint.Key != catalog.StartingTaintKey {
			return false
		}
		kept = true
	}
	return kept
}

func daemonsTolerate(pod *corev1.Pod, taint *corev1.Taint) bool {
	switch taint.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return taint.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable:
		return true
	case corev1.TaintNodeNetworkUnavailable:
		return pod.Spec.HostNetwork
	}
	return false
}

func toleratedBy(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return bind.Tolerates(t, *taint) })
}

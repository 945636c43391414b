package sim

import (
	"maps"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	ndftypes "k8s.io/component-helpers/nodedeclaredfeatures/types"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

const (
	kubeletVersion = "v1.36.3-eks-sim"
	// efaResource is what the device plugin of Elastic Fabric Adapters offers.
	efaResource = "vpc.amazonaws.com/efa"
	// attachAnnotation is volumeutil.ControllerManagedAttachAnnotation.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// observation is what the kubelet sees of its machine at a moment.
type observation struct {
	now          time.Time
	networkReady bool
	devices      bool
	images       []corev1.ContainerImage
}

// host is the constant part of a machine.
type host struct {
	instance instance.Instance
	config   userdata.Config
	size     size
	// features are the declared features of the kubelet.
	features []string
	// prefetches means that the user data have the prefetch unit.
	prefetches bool
}

// initialNode returns the Node that the kubelet creates when none exists: pkg/kubelet/kubelet_node_status.go, initialNode.
func (h host) initialNode(o observation) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        h.instance.PrivateDNSName,
			Annotations: map[string]string{attachAnnotation: "true"},
			Labels: map[string]string{
				corev1.LabelHostname:    h.instance.PrivateDNSName,
				corev1.LabelOSStable:    h.instance.OS(),
				corev1.LabelArchStable:  h.instance.Arch,
				"beta.kubernetes.io/os": h.instance.OS(),
				// The kubelet still sets this beta label.
				"beta.kubernetes.io/arch": h.instance.Arch,
			},
		},
		Spec: corev1.NodeSpec{
			ProviderID: h.instance.ProviderID(),
			Taints: append(slices.Clone(h.config.Taints), corev1.Taint{
				Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
			}),
		},
	}
	maps.Copy(node.Labels, h.config.Labels)
	h.setStatus(node, o)
	return node
}

// reconcile makes the changes that a registering kubelet makes to an existing Node, and no others: default labels, the
// attach annotation, extended resources to zero until a device plugin has registered, huge pages. Custom labels, taints and
// providerID stay (SCHEDULER: tryRegisterWithAPIServer).
func reconcile(initial, existing *corev1.Node) (changed bool) {
	if existing.Annotations[attachAnnotation] != initial.Annotations[attachAnnotation] {
		setIn(&existing.Annotations, attachAnnotation, initial.Annotations[attachAnnotation])
		changed = true
	}
	for _, key := range []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, corev1.LabelOSStable,
		corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	} {
		if value, ok := initial.Labels[key]; ok && existing.Labels[key] != value {
			setIn(&existing.Labels, key, value)
			changed = true
		}
	}
	if existing.Status.Capacity == nil {
		existing.Status.Capacity, changed = initial.Status.Capacity.DeepCopy(), true
	}
	if existing.Status.Allocatable == nil {
		existing.Status.Allocatable, changed = initial.Status.Allocatable.DeepCopy(), true
	}
	for name := range existing.Status.Capacity {
		switch {
		case v1helper.IsExtendedResourceName(name):
			existing.Status.Capacity[name], existing.Status.Allocatable[name] = resource.Quantity{}, resource.Quantity{}
			changed = true
		case v1helper.IsHugePageResourceName(name):
			if _, ok := initial.Status.Capacity[name]; !ok {
				delete(existing.Status.Capacity, name)
				delete(existing.Status.Allocatable, name)
				changed = true
			}
		}
	}
	for name, q := range initial.Status.Capacity {
		if has := existing.Status.Capacity[name]; v1helper.IsHugePageResourceName(name) && has.Cmp(q) != 0 {
			existing.Status.Capacity[name], existing.Status.Allocatable[name] = q, initial.Status.Allocatable[name]
			changed = true
		}
	}
	return changed
}

func setIn(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// setStatus writes into node what the kubelet reports of its machine at the moment of o. Extended resources that others set
// stay.
func (h host) setStatus(node *corev1.Node, o observation) {
	s := &node.Status
	if len(s.Addresses) == 0 { // Those that a cloud controller has set stay (pkg/kubelet/nodestatus/setters.go).
		s.Addresses = h.addresses()
	}
	if s.Capacity == nil {
		s.Capacity = corev1.ResourceList{}
	}
	if s.Allocatable == nil {
		s.Allocatable = corev1.ResourceList{}
	}
	maps.Copy(s.Capacity, h.size.capacity)
	maps.Copy(s.Allocatable, h.size.allocatable)
	for name, n := range map[string]int64{h.instance.GPUResource: h.instance.GPUs, efaResource: h.instance.EFAs} {
		if o.devices && n > 0 {
			name := corev1.ResourceName(name)
			s.Capacity[name] = *resource.NewQuantity(n, resource.DecimalSI)
			s.Allocatable[name] = s.Capacity[name]
		}
	}
	s.NodeInfo = corev1.NodeSystemInfo{
		MachineID:               "ec2" + h.instance.ID[min(len(h.instance.ID), 2):],
		SystemUUID:              "ec2" + h.instance.ID[min(len(h.instance.ID), 2):],
		BootID:                  h.instance.ID,
		KernelVersion:           "6.12.0-sim",
		OSImage:                 "Amazon Linux 2023 (simulated)",
		ContainerRuntimeVersion: "containerd://2.1.0-sim",
		KubeletVersion:          kubeletVersion,
		OperatingSystem:         h.instance.OS(),
		Architecture:            h.instance.Arch,
	}
	s.Images = o.images
	s.DaemonEndpoints.KubeletEndpoint.Port = 10250
	s.DeclaredFeatures = h.features
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		readyCondition(o.networkReady),
	} {
		setCondition(s, c, o.now)
	}
}

func (h host) addresses() []corev1.NodeAddress {
	out := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: h.instance.PrivateIP},
		{Type: corev1.NodeInternalDNS, Address: h.instance.PrivateDNSName},
		{Type: corev1.NodeHostName, Address: h.instance.PrivateDNSName},
	}
	if net.ParseIP(h.instance.PrivateIP) == nil {
		return out[1:]
	}
	return out
}

func readyCondition(networkReady bool) corev1.NodeCondition {
	if networkReady {
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
		Message: "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
	}
}

func setCondition(s *corev1.NodeStatus, c corev1.NodeCondition, now time.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	for i, old := range s.Conditions {
		if old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// statusChanged compares two statuses as the kubelet does, without heartbeats.
func statusChanged(a, b *corev1.NodeStatus) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, s := range []*corev1.NodeStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return !equality.Semantic.DeepEqual(a, b)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// declaredFeatures returns the features that an unconfigured kubelet with the feature gates of this process declares.
func declaredFeatures() []string {
	return nodedeclaredfeatures.DefaultFramework.DiscoverNodeFeatures(&ndftypes.NodeConfiguration{
		FeatureGates: gates(utilfeature.DefaultMutableFeatureGate.GetAll()),
	})
}

// gates also accepts the names of gates that this process does not define: they are off.
type gates map[featuregate.Feature]featuregate.FeatureSpec

// Enabled reports whether the named gate is on.
func (g gates) Enabled(name string) bool {
	_, known := g[featuregate.Feature(name)]
	return known && utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
}

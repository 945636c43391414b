package node_test

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const excludeDisruption = "node.kubernetes.io/exclude-disruption"

func claim() *karpv1.NodeClaim {
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1"),
	}
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "default-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "default", "team": "a", corev1.LabelHostname: "wrong"},
			Annotations: map[string]string{
				karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v3", karpv1.DoNotDisruptAnnotationKey: "true",
				catalog.PodsAnnotation: "[]",
			},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints:        []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}},
			StartupTaints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}},
		},
		Status: karpv1.NodeClaimStatus{Capacity: resources, Allocatable: resources},
	}
}

func instance(zone string) cloud.Instance {
	return cloud.Instance{
		ID: "i-1", InstanceType: "m7g.large", Zone: zone, ZoneID: "use1-az1", CapacityType: "spot",
		PrivateDNSName: "ip-10-0-0-1.ec2.internal", PrivateIP: "10.0.0.1",
	}
}

func TestNew(t *testing.T) {
	got := node.New(claim(), instance("us-east-1a"))
	native := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("29")}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ip-10-0-0-1.ec2.internal",
			Labels: map[string]string{
				karpv1.NodePoolLabelKey: "default", "team": "a", corev1.LabelHostname: "ip-10-0-0-1.ec2.internal",
				corev1.LabelTopologyZone: "us-east-1a", corev1.LabelTopologyRegion: "us-east-1", corev1.LabelInstanceTypeStable: "m7g.large",
				corev1.LabelFailureDomainBetaZone: "us-east-1a", corev1.LabelFailureDomainBetaRegion: "us-east-1", corev1.LabelInstanceType: "m7g.large",
				"topology.k8s.aws/zone-id": "use1-az1", excludeDisruption: "true",
			},
			Annotations: map[string]string{
				karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v3", karpv1.DoNotDisruptAnnotationKey: "true",
			},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///us-east-1a/i-1",
			Taints: []corev1.Taint{
				{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
				{Key: "cni", Effect: corev1.TaintEffectNoExecute},
				{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule},
			},
		},
		// Without conditions it does not count as ready. Without a GPU, because a new kubelet would set it to zero.
		Status: corev1.NodeStatus{
			Capacity: native, Allocatable: native,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
				{Type: corev1.NodeInternalDNS, Address: "ip-10-0-0-1.ec2.internal"},
				{Type: corev1.NodeHostName, Address: "ip-10-0-0-1.ec2.internal"},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A public address, and its name where the VPC gives names, are the Node's from the start.
func TestPublicAddress(t *testing.T) {
	public := instance("us-east-1a")
	public.PublicIP = "54.0.0.1"
	private := []corev1.NodeAddress{
		{Type: corev1.NodeInternalDNS, Address: "ip-10-0-0-1.ec2.internal"}, {Type: corev1.NodeHostName, Address: "ip-10-0-0-1.ec2.internal"},
	}
	want := append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "54.0.0.1"}}, private...)
	if diff := cmp.Diff(want, node.New(claim(), public).Status.Addresses); diff != "" {
		t.Errorf("without a name, -want +got:\n%s", diff)
	}
	public.PublicDNSName = "ec2-54-0-0-1.compute-1.amazonaws.com"
	want = append(want, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: public.PublicDNSName})
	if diff := cmp.Diff(want, node.New(claim(), public).Status.Addresses); diff != "" {
		t.Errorf("with a name, -want +got:\n%s", diff)
	}
}

// What the kubelet would register with is added to the Node, and replaces nothing of the NodeClaim's or the launcher's.
func TestAddRegistration(t *testing.T) {
	got := node.New(claim(), instance("us-east-1a"))
	before := got.DeepCopy()
	mine := corev1.Taint{Key: "mine", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	node.AddRegistration(got, map[string]string{
		"disk": "nvme", "team": "kubelet", corev1.LabelTopologyZone: "us-east-1z", excludeDisruption: "false",
		karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
	}, []corev1.Taint{mine, {Key: "dedicated", Value: "kubelet", Effect: corev1.TaintEffectNoSchedule}, karpv1.UnregisteredNoExecuteTaint, mine})
	before.Labels["disk"] = "nvme"
	before.Spec.Taints = append(before.Spec.Taints, mine)
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The Node of an instance that was stopped says so, that of one which a pod came for before the stop does not.
func TestWoken(t *testing.T) {
	for _, c := range []struct {
		state record.StandbyState
		set   func(status.ConditionSet)
		want  string
	}{
		{record.StandbyPreparing, nil, ""},
		{record.StandbyAwake, nil, ""},
		{record.StandbyAwake, func(s status.ConditionSet) { s.SetFalse(record.ConditionStandby, "UnauthorizedOperation", "refused") }, ""},
		{record.StandbyAwake, func(s status.ConditionSet) { s.SetTrueWithReason(record.ConditionStandby, "Asleep", "stopped") }, "true"},
		{record.StandbyAwake, func(s status.ConditionSet) { s.SetFalse(record.ConditionStandby, record.ReasonWoken, "woken") }, "true"},
	} {
		of := claim()
		of.Annotations[catalog.StandbyAnnotation] = "buffer"
		if c.state != record.StandbyPreparing {
			of.Annotations[catalog.StandbyStateAnnotation] = record.FormatStandby(c.state, time.Now())
		}
		if c.set != nil {
			c.set(of.StatusConditions())
		}
		if got := node.New(of, instance("us-east-1a")).Annotations[catalog.WokenAnnotation]; got != c.want {
			t.Errorf("state %q, conditions %v: %q, want %q", c.state, of.Status.Conditions, got, c.want)
		}
	}
}

func TestLabelsOfAClaimWithoutAny(t *testing.T) {
	for zone, region := range map[string]string{
		"us-east-1a": "us-east-1", "us-gov-west-1b": "us-gov-west-1", "us-west-2-lax-1a": "us-west-2", "ap-southeast-3c": "ap-southeast-3",
	} {
		got := node.Labels(&karpv1.NodeClaim{}, instance(zone))
		if got[corev1.LabelTopologyRegion] != region || got[corev1.LabelTopologyZone] != zone {
			t.Errorf("zone %s: region %q, want %q", zone, got[corev1.LabelTopologyRegion], region)
		}
	}
}

// The kubelet created the Node first, without all labels and taints. Values of the claim are set, others stay.
func TestComplete(t *testing.T) {
	c := claim()
	want := node.New(c, instance("us-east-1a"))
	have := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Labels: map[string]string{
		"team": "kubelet", "own": "x", corev1.LabelHostname: "custom",
	}}}
	have.Spec.Taints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute, Value: "kubelet"}, {Key: corev1.TaintNodeNotReady}}
	got, changed := node.Complete(have, want, c)
	switch {
	case !changed || have.Spec.ProviderID != "":
		t.Fatal("nothing was completed, or the original was changed")
	case got.Labels["team"] != c.Labels["team"] || got.Labels["own"] != "x" || got.Labels[corev1.LabelTopologyZone] != "us-east-1a" ||
		got.Labels[corev1.LabelHostname] != "custom":
		t.Errorf("labels %v", got.Labels)
	case got.Annotations[karpv1.NodePoolHashAnnotationKey] != c.Annotations[karpv1.NodePoolHashAnnotationKey]:
		t.Errorf("annotations %v", got.Annotations)
	case got.Spec.ProviderID != "aws:///us-east-1a/i-1":
		t.Errorf("providerID %q", got.Spec.ProviderID)
	}
	if diff := cmp.Diff([]string{"cni", corev1.TaintNodeNotReady, "dedicated", catalog.StartingTaintKey}, keys(got)); diff != "" {
		t.Errorf("taints, -want +got:\n%s", diff)
	}
	if _, again := node.Complete(got, want, c); again {
		t.Error("completing twice changes something")
	}
}

// The agent of a startup taint removed it while no launcher led. The Node was created with it, as its starting taint shows: it does not come back.
func TestCompleteLeavesRemovedStartupTaintsAlone(t *testing.T) {
	c := claim()
	want := node.New(c, instance("us-east-1a"))
	have := want.DeepCopy()
	have.Spec.Taints = []corev1.Taint{{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}}
	got, _ := node.Complete(have, want, c)
	if diff := cmp.Diff([]string{catalog.StartingTaintKey, "dedicated"}, keys(got)); diff != "" {
		t.Errorf("taints, -want +got:\n%s", diff)
	}
}

// The Node of a NodeClaim that another created says which class it is of: that is how the Nodes of other providers are told from it.
func TestLabelsNameTheClass(t *testing.T) {
	c := claim()
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"}
	if got := node.Labels(c, instance("us-east-1a"))[catalog.LabelNodeClass]; got != "gpu" {
		t.Errorf("class %q", got)
	}
	c.Labels[catalog.LabelNodeClass] = "own"
	if got := node.Labels(c, instance("us-east-1a"))[catalog.LabelNodeClass]; got != "own" {
		t.Errorf("class %q of a NodeClaim with the label", got)
	}
}

// With Karpenter's label nodes keep their own taints; slipway's own taint is still set.
func TestCompleteLeavesTaintsAlone(t *testing.T) {
	c := claim()
	have := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.NodeDoNotSyncTaintsLabelKey: "true"}}}
	got, _ := node.Complete(have, node.New(c, instance("us-east-1a")), c)
	if diff := cmp.Diff([]string{catalog.StartingTaintKey}, keys(got)); diff != "" {
		t.Errorf("taints, -want +got:\n%s", diff)
	}
}

// User data made for Karpenter sets its taint until the node is registered: no other component would remove it.
func TestRegistered(t *testing.T) {
	c := claim()
	c.UID = "uid"
	have := node.New(c, instance("us-east-1a"))
	have.Spec.Taints = append(have.Spec.Taints, karpv1.UnregisteredNoExecuteTaint)
	got := node.Registered(have, c)
	if diff := cmp.Diff([]string{"dedicated", "cni", catalog.StartingTaintKey}, keys(got)); diff != "" {
		t.Errorf("taints, -want +got:\n%s", diff)
	}
	if got.Labels[karpv1.NodeRegisteredLabelKey] != "true" || got.OwnerReferences[0].UID != "uid" || got.Finalizers[0] != karpv1.TerminationFinalizer {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	if len(have.Spec.Taints) != 4 {
		t.Error("the original was changed")
	}
}

func keys(n *corev1.Node) []string {
	var out []string
	for _, taint := range n.Spec.Taints {
		out = append(out, taint.Key)
	}
	return out
}

func TestStarted(t *testing.T) {
	have := node.New(claim(), instance("us-east-1a"))
	got, changed := node.Started(have, catalog.StartingTaintKey)
	if !changed || len(got.Spec.Taints) != 2 || got.Labels[excludeDisruption] != "" || have.Labels[excludeDisruption] == "" {
		t.Errorf("changed %v, taints %v, labels %v", changed, got.Spec.Taints, got.Labels)
	}
	if _, again := node.Started(got, catalog.StartingTaintKey); again {
		t.Error("a node that has started starts again")
	}
}

package e2e_test

import (
	"maps"
	"slices"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The Node that the launcher creates before its machine boots has what the cloud controller would give it, and what its user
// data makes the kubelet register with: a pod that selects the deprecated keys runs on the first node, which has its public address from the start.
func TestEarlyNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "early")
	w.classOf("early", func(s *awsv1.EC2NodeClassSpec) {
		s.AssociatePublicIPAddress = new(true)
		s.UserData = new(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    flags:
    - --node-labels=e2e.slipway.dev/disk=nvme
    - --register-with-taints=e2e.slipway.dev/mine=x:NoSchedule
`)
	})
	release := w.hold("early")
	w.pool("early", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = "early"
		onlyTypes(p, "m6i.large")
	})
	want := map[string]string{
		corev1.LabelFailureDomainBetaZone: "us-east-1b", corev1.LabelFailureDomainBetaRegion: "us-east-1", corev1.LabelInstanceType: "m6i.large",
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
	}
	mine := corev1.Toleration{Key: "e2e.slipway.dev/mine", Operator: corev1.TolerationOpExists}
	w.deployment("web", 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		maps.Copy(s.NodeSelector, want)
		s.Tolerations = append(s.Tolerations, mine)
	}))
	w.await(t, "the Node, before its machine boots", func() bool {
		claims := w.claimsOf("early")
		return len(claims) == 1 && w.node(claims[0].Object.Status.NodeName).Object.Name != ""
	})
	early := w.node(w.claimsOf("early")[0].Object.Status.NodeName).Object
	release()
	w.awaitRunning(1)
	if n := len(w.everClaimed("early")); n != 1 {
		t.Errorf("%d NodeClaims, want 1", n)
	}
	node := w.node(w.pods()[0].Object.Spec.NodeName).Object
	want["e2e.slipway.dev/disk"] = "nvme"
	for key, value := range want {
		if early.Labels[key] != value || node.Labels[key] != value {
			t.Errorf("label %s of node %s is %q before the boot and %q after it, want %q", key, node.Name, early.Labels[key], node.Labels[key], value)
		}
	}
	if !slices.Contains(node.Spec.Taints, corev1.Taint{Key: mine.Key, Value: "x", Effect: corev1.TaintEffectNoSchedule}) || node.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
		t.Errorf("the node has labels %v and taints %v, want it registered, with the taint of its user data", node.Labels, node.Spec.Taints)
	}
	instance := instancesOf(t, "early")[0]
	addresses := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: awssdk.ToString(instance.PrivateIpAddress)},
		{Type: corev1.NodeExternalIP, Address: awssdk.ToString(instance.PublicIpAddress)},
		{Type: corev1.NodeInternalDNS, Address: node.Name},
		{Type: corev1.NodeHostName, Address: node.Name},
		{Type: corev1.NodeExternalDNS, Address: awssdk.ToString(instance.PublicDnsName)},
	}
	for when, n := range map[string]*corev1.Node{"before the boot": early, "after it": node} {
		if diff := cmp.Diff(addresses, n.Status.Addresses); diff != "" {
			t.Errorf("addresses %s (-want +got):\n%s", when, diff)
		}
	}
}

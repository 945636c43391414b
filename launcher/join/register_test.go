package join_test

import (
	"slices"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const userData = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    flags:
    - --node-labels=disk=nvme,karpenter.sh/nodepool=other
    - --register-with-taints=mine=x:NoSchedule
`

// A Node that the launcher creates has the labels and taints with which its class's user data makes the kubelet register, beside those of its NodeClaim.
func TestUserDataSetsLabelsAndTaints(t *testing.T) {
	w := newWorld(t)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "classy"}}
	class.Spec.AMISelectorTerms, class.Spec.UserData = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}, new(userData)
	w.create(class)
	claim := w.claim(0)
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "classy"}
	if err := w.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.looks(w.controller(), 1)
	got := w.node("node-1")
	if got == nil || got.Labels["disk"] != "nvme" || got.Labels[karpv1.NodePoolLabelKey] != "default" {
		t.Fatalf("Node %+v", got)
	}
	mine := corev1.Taint{Key: "mine", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	if !slices.Contains(got.Spec.Taints, mine) || len(got.Spec.Taints) < 2 {
		t.Errorf("taints %v", got.Spec.Taints)
	}
}

// A class that was deleted meanwhile keeps no instance from its Node.
func TestNodeOfAClassThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	claim := w.claim(0)
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "deleted"}
	if err := w.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.looks(w.controller(), 1)
	if w.node("node-1") == nil {
		t.Error("there is no Node")
	}
}

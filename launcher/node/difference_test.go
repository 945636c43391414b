package node_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/node"
)

// TestDifference adds a label without a word about what others write, and takes a taint away from the version that was read alone.
func TestDifference(t *testing.T) {
	have := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "7"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "ours", Effect: corev1.TaintEffectNoExecute}, {Key: "theirs", Effect: corev1.TaintEffectNoSchedule},
	}}}
	labelled, untainted := have.DeepCopy(), have.DeepCopy()
	labelled.Labels = map[string]string{"ready": "true"}
	untainted.Spec.Taints = untainted.Spec.Taints[1:]
	for want, expected := range map[*corev1.Node]string{
		labelled:  `{"metadata":{"labels":{"ready":"true"},"uid":"1"}}`,
		untainted: `{"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"effect":"NoSchedule","key":"theirs"}]}}`,
	} {
		data, err := node.Difference(have, want).Data(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != expected {
			t.Errorf("patch:\n%s\nexpected:\n%s", data, expected)
		}
	}
}

// A patch of a NodeClaim's status says nothing about its metadata, and the other way around; each is for the version that was read.
func TestClaimPatches(t *testing.T) {
	have := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Annotations: map[string]string{"a": "1", "b": "1"}}}
	have.Status.ProviderID, have.Status.ImageID = "aws:///us-east-1a/i-1", "ami-1"
	want := have.DeepCopy()
	want.Annotations = map[string]string{"a": "2"}
	want.Status.ImageID, want.Status.NodeName = "", "n"
	for expected, patch := range map[string]client.Patch{
		`{"metadata":{"annotations":{"a":"2","b":null},"resourceVersion":"7"}}`:         node.ClaimMetadata(have),
		`{"metadata":{"resourceVersion":"7"},"status":{"imageID":null,"nodeName":"n"}}`: node.ClaimStatus(have),
	} {
		data, err := patch.Data(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != expected {
			t.Errorf("patch:\n%s\nexpected:\n%s", data, expected)
		}
		if _, err := patch.Data(&corev1.Node{}); err == nil {
			t.Error("a patch of a NodeClaim is one of a Node")
		}
	}
}

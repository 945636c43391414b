package node_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

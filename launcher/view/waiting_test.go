package view_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// A node that was ready is not ready while its kubelet does not answer, with the kubelet's message. One that terminates terminates, and one whose kubelet has
// posted nothing is what its NodeClaim says.
func TestStateOfANodeThatIsNotReady(t *testing.T) {
	const lost = "Kubelet stopped posting node status."
	ready := func(status corev1.ConditionStatus, reason, message string) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: reason, Message: message}}
	}
	initialized := claim("default-a", "n1", karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized)
	joined := claim("default-a", "n1", karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered)
	ended := initialized.DeepCopy()
	ended.DeletionTimestamp = &metav1.Time{Time: created()}
	for name, c := range map[string]struct {
		claim      *karpv1.NodeClaim
		conditions []corev1.NodeCondition
		state      view.State
		why        string
	}{
		"ready":            {initialized, ready(corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"), view.StateReady, ""},
		"no word":          {initialized, nil, view.StateReady, ""},
		"never a word":     {initialized, ready(corev1.ConditionUnknown, "NodeStatusNeverUpdated", "Kubelet never posted node status."), view.StateReady, ""},
		"a dead kubelet":   {initialized, ready(corev1.ConditionUnknown, "NodeStatusUnknown", lost), view.StateNotReady, lost},
		"a sick kubelet":   {initialized, ready(corev1.ConditionFalse, "KubeletNotReady", "PLEG is not healthy"), view.StateNotReady, "PLEG is not healthy"},
		"without a reason": {initialized, ready(corev1.ConditionFalse, "KubeletNotReady", ""), view.StateNotReady, "KubeletNotReady"},
		"it boots":         {joined, ready(corev1.ConditionFalse, "KubeletNotReady", "no CNI"), view.StateJoined, ""},
		"it terminates":    {ended, ready(corev1.ConditionUnknown, "NodeStatusUnknown", lost), view.StateTerminating, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: c.conditions}}
			in := view.Objects{NodeClaims: []*karpv1.NodeClaim{c.claim}, Nodes: []*corev1.Node{node}}
			if row := view.New(in).Nodes[0]; row.State != c.state || row.Why != c.why {
				t.Errorf("the state is %q since %q, want %q since %q", row.State, row.Why, c.state, c.why)
			}
			var out bytes.Buffer
			if err := view.ExplainNode(&out, "n1", in); err != nil || !strings.HasPrefix(out.String(), "Node n1: "+string(c.state)+"\n") || !strings.Contains(out.String(), c.why) {
				t.Errorf("explained (%v):\n%s", err, out.String())
			}
		})
	}
}

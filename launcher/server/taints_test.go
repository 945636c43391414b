package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A node in flight that is registered keeps off the pods that its Node keeps off, by a cordon or by a taint of its own. It takes pods while it only starts.
func TestTaintsOfNodesInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		// more is a further taint of the Node.
		more string
		// unregistered means that its kubelet has not joined, standby that it is one of a standby buffer.
		cordoned, unregistered, standby bool
		want                            []string
	}{
		"it starts":              {want: []string{"team"}},
		"cordoned":               {cordoned: true, want: []string{"team", corev1.TaintNodeUnschedulable}},
		"cordoned for a while":   {cordoned: true, more: corev1.TaintNodeUnschedulable, want: []string{"team", corev1.TaintNodeUnschedulable}},
		"a taint by hand":        {more: "example.com/broken", want: []string{"team", "example.com/broken"}},
		"before it registers":    {cordoned: true, more: "example.com/broken", unregistered: true, want: []string{"team"}},
		"for a standby buffer":   {cordoned: true, more: corev1.TaintNodeUnschedulable, standby: true, want: []string{"team"}},
		"a taint of its network": {more: corev1.TaintNodeNetworkUnavailable, want: []string{"team"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
			if !c.unregistered {
				node.Labels[karpv1.NodeRegisteredLabelKey] = "true"
			}
			keys := []string{"team", catalog.StartingTaintKey, corev1.TaintNodeNotReady, "node.cloudprovider.kubernetes.io/uninitialized", "readiness.k8s.io/cni", "agent"}
			if c.more != "" {
				keys = append(keys, c.more)
			}
			for _, key := range keys {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
			}
			node.Spec.Unschedulable = c.cordoned
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			w := newWorld(t, append(ready("default", nil), node)...)
			w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})
			claim := w.claim("default-1")
			// Agents may have another effect themselves.
			claim.Spec.StartupTaints = []corev1.Taint{{Key: "agent", Value: "starts", Effect: corev1.TaintEffectNoExecute}}
			if c.standby {
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyAnnotation, "uid-of-buffer")
			}
			if err := w.api.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			claim.Status.NodeName = "n"
			if err := w.api.Status().Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, taint := range w.await(w.watch(w.client), "the full state", (*api.CatalogUpdate).GetFull).GetInFlight()[0].GetTaints() {
				got = append(got, taint.GetKey())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("taints, -want +got:\n%s", diff)
			}
		})
	}
}

package server_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Well-known labels of a template are sent as requirements, and a NodeClaim that is recorded with them asks for what its labels say.
func TestTemplateLabelsAreRequirements(t *testing.T) {
	objects := ready("default", nil)
	pool := objects[0].(*karpv1.NodePool)
	pool.Spec.Template.Labels = map[string]string{
		"team": "a", karpv1.CapacityTypeLabelKey: "on-demand", "failure-domain.beta.kubernetes.io/zone": "us-east-1a", catalog.LabelInstanceTenancy: "dedicated",
	}
	w := newWorld(t, objects...)
	sent := w.await(w.watch(w.client), "a first message", func(*api.CatalogUpdate) bool { return true }).GetNodePools()[0]
	own := map[string]string{karpv1.NodePoolLabelKey: "default", "team": "a", catalog.LabelInstanceTenancy: "dedicated"}
	if diff := cmp.Diff(own, sent.GetLabels()); diff != "" {
		t.Errorf("labels sent, -want +got:\n%s", diff)
	}
	want := map[string]string{karpv1.CapacityTypeLabelKey: "on-demand", "topology.kubernetes.io/zone": "us-east-1a", catalog.LabelInstanceTenancy: "dedicated"}
	if len(sent.GetRequirements()) != len(want) {
		t.Errorf("requirements sent: %v", sent.GetRequirements())
	}
	claim := planned("default-1", "default", "u1")
	claim.Requirements = sent.GetRequirements()
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{claim}})
	recorded := w.claim("default-1")
	reqs, err := record.Requirements(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range want {
		if got := reqs[key].List(); !slices.Equal(got, []string{value}) || recorded.Labels[key] != value {
			t.Errorf("%s: requirement %v, label %q, want %q", key, got, recorded.Labels[key], value)
		}
	}
}

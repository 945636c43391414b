package launch

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A NodeClaim that slipway did not plan names no instance types: all that it requires of them counts, and one call names no
// more than Karpenter's would.
func TestOptionsOfForeignClaims(t *testing.T) {
	var types []catalog.InstanceType
	add := func(name, arch, gpu string, price float64) {
		labels := map[string]string{corev1.LabelArchStable: arch}
		if gpu != "" {
			labels[catalog.LabelInstanceGPUName] = gpu
		}
		types = append(types, catalog.InstanceType{Name: name, Labels: labels, Offerings: []catalog.Offering{
			{Zone: "us-east-1a", ZoneID: "use1-az1", CapacityType: "on-demand", Price: price, Available: true},
			{Zone: "us-east-1b", ZoneID: "use1-az2", CapacityType: "on-demand", Price: price, Available: true},
		}})
	}
	add("g5g.xlarge", "arm64", "t4g", 0.42)
	add("g5.xlarge", "amd64", "a10g", 1)
	for i := range 70 {
		add(fmt.Sprintf("m%02d.large", i), "arm64", "", 0.1+float64(i)/1000)
	}
	count := func(reqs ...karpv1.NodeSelectorRequirementWithMinValues) (n int, named map[string]bool) {
		t.Helper()
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "static-1"}}
		claim.Spec.Requirements = reqs
		choice, err := Search{Claim: claim, Types: types}.Options()
		if err != nil {
			t.Fatal(err)
		}
		named = map[string]bool{}
		for _, o := range choice.Options {
			named[o.InstanceType] = true
		}
		return len(choice.Options), named
	}
	if n, named := count(requirement(corev1.LabelArchStable, "amd64")); n != 2 || !named["g5.xlarge"] {
		t.Errorf("architecture: %v", named)
	}
	if n, named := count(requirement(catalog.LabelInstanceGPUName, "t4g", "a10g")); n != 4 || len(named) != 2 {
		t.Errorf("a label that most types do not have: %v", named)
	}
	if n, named := count(requirement(corev1.LabelArchStable, "arm64")); n != 120 || len(named) != 60 || !named["m00.large"] || named["m60.large"] {
		t.Errorf("%d options of %d types, want those of the 60 cheapest", n, len(named))
	}
	if n, named := count(requirement(catalog.LabelZoneID, "use1-az2"), requirement(corev1.LabelArchStable, "amd64")); n != 1 {
		t.Errorf("zone id: %v", named)
	}
}

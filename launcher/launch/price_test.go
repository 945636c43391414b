package launch_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// An instance whose capacity reservation has ended costs what its type costs on demand. A class that does not exist is an error, and nothing is written.
func TestPriceOfARunningInstance(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		const was = "m7g.large/us-east-1a/reserved/0.000001"
		claim, instance := w.newClaim("default-a"), cloud.Instance{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "on-demand"}
		claim.Annotations[catalog.ExpectedAnnotation], claim.Annotations[catalog.CostAnnotation] = was, `{"instance":0.000001,"declared":0.02}`
		claim.Spec.NodeClassRef.Name = "nowhere"
		if err := w.subject.Price(t.Context(), claim, instance); err == nil || claim.Annotations[catalog.ExpectedAnnotation] != was {
			t.Errorf("error %v, annotations %v", err, claim.Annotations)
		}
		claim.Spec.NodeClassRef.Name = "default"
		if err := w.subject.Price(t.Context(), claim, instance); err != nil {
			t.Fatal(err)
		}
		if got := claim.Annotations[catalog.ExpectedAnnotation]; got != "m7g.large/us-east-1a/on-demand/0.100000" {
			t.Errorf("expected offering %s", got)
		}
		if cost, ok := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation]); !ok || cost != (catalog.Cost{Instance: 0.08, Declared: 0.02}) {
			t.Errorf("cost %+v", cost)
		}
	})
}

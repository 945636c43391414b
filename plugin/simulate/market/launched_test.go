package market

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// launched returns a NodeClaim of an offering, an age ago, with the price of its instance.
func launched(name, offering string, ago time.Duration, usd float64) *karpv1.NodeClaim {
	parts := strings.Split(offering, "/")
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon().Add(-ago))}}
	c.Labels = map[string]string{corev1.LabelInstanceTypeStable: parts[0], corev1.LabelTopologyZone: parts[1], karpv1.CapacityTypeLabelKey: parts[2]}
	c.Annotations = map[string]string{catalog.CostAnnotation: catalog.FormatCost(catalog.Cost{Instance: usd, Volumes: 0.002})}
	c.Status.ProviderID = "aws:///us-east-1a/i-1"
	return c
}

// Without spot prices, those at which NodeClaims were launched are used, each said with where it is from; an offering that no NodeClaim has stays
// without a price.
func TestSpotPricesOfNodeClaims(t *testing.T) {
	m, err := Read(Files{})
	if err != nil {
		t.Fatal(err)
	}
	unknown := launched("theirs", "m6i.large/us-east-1a/spot", time.Hour, 0)
	unknown.Annotations = nil
	windows := launched("windows", "m6i.large/us-east-1c/spot", time.Hour, 0.09)
	windows.Labels[corev1.LabelOSStable] = "windows"
	booting := launched("booting", "m7i.large/us-east-1c/spot", time.Second, 0.09)
	booting.Status.ProviderID = ""
	objects := &input.Objects{NodeClaims: []*karpv1.NodeClaim{
		launched("new", "m5.large/us-east-1a/spot", time.Hour, 0.03), launched("old", "m5.large/us-east-1a/spot", 9*time.Hour, 0.05),
		launched("firm", "m5.large/us-east-1b/on-demand", time.Hour, 0.2), unknown, windows, booting,
	}}
	got := m.AtLaunch(objects, noon())
	if text := fmt.Sprint(got.Spot); text != "map[us-east-1a:map[m5.large:0.03]]" {
		t.Errorf("spot prices are %s", text)
	}
	if got.OnDemand["m5.large"] != m.OnDemand["m5.large"] || m.Spot != nil || len(m.Notes) != 3 {
		t.Errorf("on-demand prices, or the market that was read, have changed: %v, %v", m.Spot, m.Notes)
	}
	notes := strings.Join(got.Notes, "\n")
	if want := "m5.large in us-east-1a at 0.0300 USD per hour (NodeClaim new, launched 1h0m0s ago)"; !strings.Contains(notes, want) || slices.Contains(got.Notes, noSpotNote) {
		t.Errorf("notes lack %q:\n%s", want, notes)
	}
	if none := m.AtLaunch(&input.Objects{NodeClaims: objects.NodeClaims[2:]}, noon()); none != m {
		t.Errorf("there are spot prices of no NodeClaim: %v", none.Spot)
	}
	price := "0.1"
	objects.NodeOverlays = []*v1alpha1.NodeOverlay{{Spec: v1alpha1.NodeOverlaySpec{Price: &price}}}
	if m.AtLaunch(objects, noon()) != m {
		t.Error("the price of a NodeOverlay would be applied twice")
	}
	objects.NodeOverlays = nil
	given, err := Read(Files{Prices: []byte(`{"on-demand": {"m5.large": 0.1}}`)})
	if err != nil || given.AtLaunch(objects, noon()) != given {
		t.Errorf("the prices of a file are replaced (%v)", err)
	}
}

// What EC2 refuses is not available until it is tried again; what was refused before that is.
func TestRefusedOfferings(t *testing.T) {
	refused := func(instanceType string, until time.Time) string {
		return fmt.Sprintf(`{"code": "InsufficientInstanceCapacity", "zone": "us-east-1a", "capacityType": "on-demand", "instanceTypes": [%q], "attempts": 2, "until": %q}`,
			instanceType, until.Format(time.RFC3339))
	}
	m, err := Read(Files{Now: noon(), Zones: []byte(`["us-east-1a", "us-east-1b"]`), Prices: []byte(`{"on-demand": {"m5.large": 0.1, "m5.xlarge": 0.2}, "refused": [` +
		refused("m5.large", noon().Add(time.Minute)) + "," + refused("m5.xlarge", noon().Add(-time.Minute)) + `]}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m5.large", "m5.xlarge"} {
		for _, o := range m.offerings(catalog.Facts{Name: name}, []zone{{Zone: "us-east-1a"}, {Zone: "us-east-1b"}}) {
			want := name != "m5.large" || o.Zone != "us-east-1a"
			if o.Available != want || (o.Refusal.Code == ec2error.InsufficientInstanceCapacity) == want || o.UnavailableUntil.IsZero() != want {
				t.Errorf("%s: %+v", name, o)
			}
		}
	}
	if open := m.Open(); len(open.Notes) != len(m.Notes)-1 || !open.offerings(catalog.Facts{Name: "m5.large"}, []zone{{Zone: "us-east-1a"}})[0].Available {
		t.Errorf("the market without refusals has the notes %v", open.Notes)
	}
	if notes := strings.Join(m.Notes, "\n"); !strings.Contains(notes, "1 offering that EC2 refuses now") {
		t.Errorf("notes: %s", notes)
	}
}

package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// The bill says how many of the launched nodes it leaves out, such as those taken over from Karpenter, whose NodeClaims have no expected price.
func TestUnpricedNodesAreCounted(t *testing.T) {
	taken := func(name, providerID string) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Status.ProviderID = providerID
		return c
	}
	priced := claim("priced", "")
	priced.Status.ProviderID = "aws:///a/i-3"
	for _, c := range []struct {
		claims   []*karpv1.NodeClaim
		unpriced int
		bill     string
	}{
		{[]*karpv1.NodeClaim{priced}, 0, "1 node, 0.0300 USD per hour (22 per month), 100% of it spot\n"},
		{[]*karpv1.NodeClaim{taken("a", "aws:///a/i-1"), taken("b", "aws:///a/i-2")}, 2, "2 nodes, 0.0000 USD per hour; 2 without a known price\n"},
		{
			[]*karpv1.NodeClaim{priced, taken("a", "aws:///a/i-1"), taken("recorded", "")},
			1,
			"2 nodes, 0.0300 USD per hour (22 per month), 100% of it spot; 1 without a known price; 1 more not launched yet\n",
		},
	} {
		o := view.New(view.Objects{NodeClaims: c.claims})
		var table, text bytes.Buffer
		if err := errors.Join(o.Write(&table, view.FormatTable), o.Write(&text, view.FormatJSON)); err != nil {
			t.Fatal(err)
		}
		var fields struct {
			Unpriced int `json:"unpriced"`
		}
		if err := json.Unmarshal(text.Bytes(), &fields); err != nil || fields.Unpriced != c.unpriced {
			t.Errorf("JSON has %d nodes without a price (%v), want %d", fields.Unpriced, err, c.unpriced)
		}
		if !strings.Contains(table.String(), c.bill) {
			t.Errorf("the bill is not %q:\n%s", c.bill, table.String())
		}
	}
}

// A node without a known price is not said to cost nothing.
func TestExplainNodeWithoutAPrice(t *testing.T) {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
	c.Status.NodeName = "node"
	var out bytes.Buffer
	if err := view.ExplainNode(&out, "taken", view.Objects{NodeClaims: []*karpv1.NodeClaim{c}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ", of no known price, NodePool ") || strings.Contains(out.String(), "USD") {
		t.Errorf("got:\n%s", out.String())
	}
}

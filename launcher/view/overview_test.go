package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
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

// What another provider's controller launched, such as EKS Auto Mode's, is not slipway's: its nodes are among the others, its NodePools are not judged, and
// its boots say nothing of slipway's.
func TestOverviewLeavesOutOtherProviders(t *testing.T) {
	own, theirs := booted("default-a", "m7g.large", "ami-1", 30), booted("auto-a", "m7g.large", "ami-1", 90)
	theirs.Status.NodeName, theirs.Status.ProviderID = "auto", "aws:///us-east-1a/i-1"
	theirs.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general-purpose", Annotations: map[string]string{catalog.PausedAnnotation: "true"}}}
	pool.Spec.Template.Spec.NodeClassRef = theirs.Spec.NodeClassRef
	in := view.Objects{
		NodeClaims: []*karpv1.NodeClaim{theirs, own}, NodePools: []*karpv1.NodePool{pool}, Now: after(5).Time,
		Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "auto"}}},
	}
	o := view.New(in)
	if len(o.Nodes) != 1 || o.Nodes[0].NodeClaim != "default-a" || o.Others != 1 || o.Launched != 1 || len(o.NotReady)+len(o.Paused) > 0 {
		t.Errorf("%+v", o)
	}
	if len(in.NodeClaims) != 2 || in.NodeClaims[0] != theirs {
		t.Error("the list was changed")
	}
	waits := claim("default-b", "")
	waits.CreationTimestamp = after(0)
	if e := view.ReadyOf(waits, in); e == nil || e.Boots != 1 {
		t.Errorf("estimated by %+v", e)
	}
}

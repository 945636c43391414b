package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// A buffer has the nodes that come while one of its own is there: what is taken is there again once it has booted. Larger buffers are listed until one has all.
func TestBufferAnswers(t *testing.T) {
	start := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	launch := func(pool string, after time.Duration, pods int) view.Decision {
		return view.Decision{At: start.Add(after), What: view.Launched, NodePool: pool, Pods: pods, Price: 0.1}
	}
	decisions := []view.Decision{
		launch("web", 0, 4), launch("web", time.Second, 1), launch("web", 2*time.Second, 1), launch("web", time.Hour, 2),
		launch("batch", 0, 1),
		launch("moves", 0, 0), // For pods of another node.
		{At: start, What: view.Terminated, NodePool: "web", Pods: 9},
	}
	claim := func(kind string, took time.Duration, woken bool) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: kind, Labels: map[string]string{karpv1.NodePoolLabelKey: "web"}, Annotations: map[string]string{
			catalog.CostAnnotation: catalog.FormatCost(catalog.Cost{Instance: 0.095, Volumes: 0.005}),
		}}}
		c.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
		c.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		for i := range c.Status.Conditions {
			c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(start)
			if c.Status.Conditions[i].Type == karpv1.ConditionTypeInitialized {
				c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(start.Add(took))
			}
		}
		if woken {
			c.Annotations[catalog.StandbyAnnotation], c.Annotations[catalog.StandbyStateAnnotation] = "uid", record.FormatStandby(record.StandbyAwake, start)
		}
		return c
	}
	got := view.BufferAnswers(decisions, []*karpv1.NodeClaim{claim("cold", 50*time.Second, false), claim("woken", 20*time.Second, true)})
	want := []view.BufferAnswer{
		{NodePool: "batch", Nodes: 1, Arrivals: 1, Had: 1, SavedSeconds: 50, StandbySavedSeconds: 30, PerDay: 2.4, StandbyPerDay: 0.048},
		{NodePool: "web", Nodes: 1, Arrivals: 4, Had: 2, SavedSeconds: 300, StandbySavedSeconds: 180, PerDay: 2.4, StandbyPerDay: 0.12},
		{NodePool: "web", Nodes: 2, Arrivals: 4, Had: 3, SavedSeconds: 350, StandbySavedSeconds: 210, PerDay: 4.8, StandbyPerDay: 0.24},
		{NodePool: "web", Nodes: 4, Arrivals: 4, Had: 4, SavedSeconds: 400, StandbySavedSeconds: 240, PerDay: 9.6, StandbyPerDay: 0.48},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, g := range got {
		// Figures are rounded: sums of floats differ.
		if fmt.Sprintf("%.6v", g) != fmt.Sprintf("%.6v", want[i]) {
			t.Errorf("%+v, want %+v", g, want[i])
		}
	}
	var text strings.Builder
	if err := view.WriteBufferAnswers(&text, got, start, start.Add(24*time.Hour)); err != nil || !strings.Contains(text.String(), "web        2 nodes   3 of 4 nodes     4.80") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// A record without decisions is told from none at all.
func TestBuffersWithoutARecord(t *testing.T) {
	for _, decisions := range [][]view.Decision{nil, {}} {
		if got := view.ReportBuffers(decisions, nil, time.Now()); got.NoRecord != (decisions == nil) || len(got.Answers) > 0 {
			t.Errorf("%#v: %+v", decisions, got)
		}
	}
}

package voluntary_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

// member is a NodeClaim and its Node, initialized and ready, as the change leaves them.
func member(name string, change func(*karpv1.NodeClaim, *corev1.Node)) []client.Object {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	claim.Status.NodeName = name
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	change(claim, node)
	return []client.Object{claim, node}
}

// Which nodes of a fleet count, and which of them consume budgets, is reported as in Karpenter's metrics, while leading.
func TestFleetAsBudgetsSeeIt(t *testing.T) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "50%"}, {Nodes: "1", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}
	objects := []client.Object{pool}
	for name, change := range map[string]func(*karpv1.NodeClaim, *corev1.Node){
		"fine": func(*karpv1.NodeClaim, *corev1.Node) {},
		"sick": func(_ *karpv1.NodeClaim, n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown },
		"cordoned": func(_ *karpv1.NodeClaim, n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
		},
		"leaving": func(c *karpv1.NodeClaim, _ *corev1.Node) {
			c.DeletionTimestamp, c.Finalizers = new(metav1.Now()), []string{karpv1.TerminationFinalizer}
		},
		"lost":     func(c *karpv1.NodeClaim, _ *corev1.Node) { c.Status.NodeName = "elsewhere" },
		"starting": func(c *karpv1.NodeClaim, _ *corev1.Node) { c.Status.Conditions = nil },
		"ending": func(c *karpv1.NodeClaim, _ *corev1.Node) {
			c.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
		},
		"refused": func(c *karpv1.NodeClaim, _ *corev1.Node) {
			c.DeletionTimestamp, c.Finalizers = new(metav1.Now()), []string{karpv1.TerminationFinalizer}
			c.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeInstanceTerminating, disruption.TerminationFailed, "EC2 protects it")
		},
	} {
		objects = append(objects, member(name, change)...)
	}
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	ledger, err := budget.New(voluntary.Observe(api, index.ListClaims(api), index.ListNodes(api)))
	if err != nil {
		t.Fatal(err)
	}
	leads, registry := true, prometheus.NewRegistry()
	if _, err := voluntary.NewMetrics(registry, ledger, func() bool { return leads }); err != nil {
		t.Fatal(err)
	}
	want := `# HELP karpenter_nodepools_allowed_disruptions How many nodes of a NodePool may be disrupted at the same time, now.
# TYPE karpenter_nodepools_allowed_disruptions gauge
karpenter_nodepools_allowed_disruptions{nodepool="default",reason="Drifted"} 1
karpenter_nodepools_allowed_disruptions{nodepool="default",reason="Empty"} 3
karpenter_nodepools_allowed_disruptions{nodepool="default",reason="Underutilized"} 3
# HELP karpenter_nodepools_nodes_consuming_budgets How many nodes of a NodePool are disrupted now, or not ready.
# TYPE karpenter_nodepools_nodes_consuming_budgets gauge
karpenter_nodepools_nodes_consuming_budgets{nodepool="default",reason="Drifted"} 4
karpenter_nodepools_nodes_consuming_budgets{nodepool="default",reason="Empty"} 4
karpenter_nodepools_nodes_consuming_budgets{nodepool="default",reason="Underutilized"} 4
`
	names := []string{"karpenter_nodepools_allowed_disruptions", "karpenter_nodepools_nodes_consuming_budgets"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	leads = false
	if err := testutil.GatherAndCompare(registry, strings.NewReader(""), names...); err != nil {
		t.Error(err)
	}
}

// Decisions are counted by what was decided, and by NodePool.
func TestDecisionsAreCounted(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	ledger, err := budget.New(voluntary.Observe(api, index.ListClaims(api), index.ListNodes(api)))
	if err != nil {
		t.Fatal(err)
	}
	leads, registry := true, prometheus.NewRegistry()
	m, err := voluntary.NewMetrics(registry, ledger, func() bool { return leads })
	if err != nil {
		t.Fatal(err)
	}
	m.Decided("default", voluntary.Replace, "drifted", "")
	m.Decided("default", voluntary.Replace, "drifted", "")
	m.Eligible("drifted", 3)
	m.TimedOut("multi")
	m.Judged(true, "default", "Balanced")
	m.Judged(false, "default", "Balanced")
	m.Scored(false, "default", "Balanced", 0.2)
	want := `# HELP karpenter_consolidation_moves_total Moves that would have paid, by each NodePool that they take nodes from: approved, or rejected by its consolidationPolicy Balanced.
# TYPE karpenter_consolidation_moves_total counter
karpenter_consolidation_moves_total{decision="approved",nodepool="default",policy="Balanced"} 1
karpenter_consolidation_moves_total{decision="rejected",nodepool="default",policy="Balanced"} 1
# HELP karpenter_consolidation_score Scores of moves in NodePools with consolidationPolicy Balanced: the share of the cost that they save by the share of the disruption that they are.
# TYPE karpenter_consolidation_score histogram
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="0.1"} 0
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="0.25"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="0.33"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="0.5"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="1"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="2"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="5"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="10"} 1
karpenter_consolidation_score_bucket{decision="rejected",nodepool="default",policy="Balanced",le="+Inf"} 1
karpenter_consolidation_score_sum{decision="rejected",nodepool="default",policy="Balanced"} 0.2
karpenter_consolidation_score_count{decision="rejected",nodepool="default",policy="Balanced"} 1
# HELP karpenter_voluntary_disruption_consolidation_timeouts_total Consolidation decisions that time ran out for: what had been found until then was carried out.
# TYPE karpenter_voluntary_disruption_consolidation_timeouts_total counter
karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type="multi"} 1
karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type="single"} 0
# HELP karpenter_voluntary_disruption_decisions_by_nodepool_total Disruption decisions that were carried out, by NodePool.
# TYPE karpenter_voluntary_disruption_decisions_by_nodepool_total counter
karpenter_voluntary_disruption_decisions_by_nodepool_total{consolidation_type="",decision="replace",nodepool="default",reason="drifted"} 2
# HELP karpenter_voluntary_disruption_eligible_nodes Nodes that may be disrupted as far as they and their pods are concerned, by reason. Without a value while another replica leads.
# TYPE karpenter_voluntary_disruption_eligible_nodes gauge
karpenter_voluntary_disruption_eligible_nodes{reason="drifted"} 3
karpenter_voluntary_disruption_eligible_nodes{reason="empty"} 0
karpenter_voluntary_disruption_eligible_nodes{reason="underutilized"} 0
`
	err = testutil.GatherAndCompare(registry, strings.NewReader(want),
		"karpenter_voluntary_disruption_decisions_by_nodepool_total", "karpenter_voluntary_disruption_eligible_nodes",
		"karpenter_consolidation_moves_total", "karpenter_consolidation_score", "karpenter_voluntary_disruption_consolidation_timeouts_total")
	if err != nil {
		t.Error(err)
	}
	leads = false // Another replica has them.
	if err := testutil.GatherAndCompare(registry, strings.NewReader(""), "karpenter_voluntary_disruption_eligible_nodes"); err != nil {
		t.Error(err)
	}
	if _, err := voluntary.NewMetrics(nil, ledger, nil); err == nil {
		t.Error("no error without dependencies")
	}
}

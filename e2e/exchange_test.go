package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// consolidatable says whether all nodes of the test's NodePool may be consolidated, as far as their own pods are concerned.
func (w *world) consolidatable() bool {
	return !slices.ContainsFunc(w.claimsOf(w.name), func(c observe.Claim) bool {
		return !c.Object.StatusConditions().Get(karpv1.ConditionTypeConsolidatable).IsTrue()
	})
}

// plannedWith waits until the scheduler plans with nodes of this instance type, which the test's NodePool has just allowed: the launcher's
// questions about consolidation may come before its next list of what can be launched.
func (w *world) plannedWith(instanceType string) {
	w.t.Helper()
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "probe"}}
	probe.Spec = w.podSpec("1000", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[corev1.LabelInstanceTypeStable] = instanceType })
	w.create(probe)
	w.await(w.t, "a pod that fits no node not to be told that NodePool "+w.name+" has no "+instanceType, func() bool {
		c := conditions.Pod(w.history(probe.UID).Object, corev1.PodScheduled)
		return c != nil && strings.Contains(c.Message, "NodePool "+w.name+": ") && !strings.Contains(c.Message, "NodePool "+w.name+": requires")
	})
	if err := w.client.Delete(w.t.Context(), probe, client.GracePeriodSeconds(0)); err != nil {
		w.t.Fatal(err)
	}
}

// Three nodes that have become too large go in one move, and two smaller ones come for them: neither one for one nor all into one.
// Then the fleet is at rest: pods that their controller replaces, round after round, move no node any more.
func TestManyNodesBecomeFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "many-to-few")
	held := []karpv1.Budget{{Nodes: "0"}}
	var open []karpv1.Budget
	w.shrinking(func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.4xlarge")
		open, p.Spec.Disruption.Budgets = p.Spec.Disruption.Budgets, held
	})
	w.budget()
	// Two pods of web fit beside each filler, three on a small node: the pods of three nodes need two, and those of one node both.
	// The fillers have their nodes first: a third pod of web in one of them would leave its filler without room.
	filler := w.deployment("filler", 3, w.podSpec("13", "512Mi", apart("filler")))
	w.awaitRunning(3)
	w.deployment("web", 6, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(9)
	large := w.claimsOf(w.name)
	if len(large) != 3 {
		t.Fatalf("%d nodes were launched for three fillers and what fits beside them, want 3", len(large))
	}
	w.scale(filler, 0)
	w.await(t, "the nodes to be Consolidatable", func() bool { return w.running() == 6 && w.consolidatable() })
	w.change(func(p *karpv1.NodePool) { onlyTypes(p, "m6i.4xlarge", "m6i.xlarge") })
	w.plannedWith("m6i.xlarge")
	w.change(func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = open })
	w.await(t, "the large nodes to be gone and all pods to be ready", func() bool {
		return !slices.ContainsFunc(large, func(c observe.Claim) bool { return !claimGone(w.cluster, c) }) && w.ready() == 6
	})
	w.keptAvailable(6)
	if n := len(w.everClaimed(w.name)); n != 5 {
		t.Errorf("%d nodes were bought, want the three large ones and two small ones", n)
	}
	told := w.toldOf("DisruptionLaunching")
	const priced = "m6i.xlarge on-demand (0.1942 USD/h: instance 0.1920 + volumes 0.0022)"
	if want := "replaced by " + priced + ", " + priced; len(told) != 3 || !strings.Contains(told[0], want) {
		t.Errorf("DisruptionLaunching was said %q, want of each of the three nodes %q", told, want)
	}
	w.rests(3)
}

// rests lets a pod be replaced by its controller, round after round, of one node and then of the next, and sees that nothing moves
// after the launcher has decided anew.
func (w *world) rests(rounds int) {
	w.t.Helper()
	claims, n := w.claimsOf(w.name), w.ready()
	const given = "karpenter_voluntary_disruption_decisions_by_nodepool_total"
	moves := w.launcherCount(given)
	for round := range rounds {
		node := claims[round%len(claims)].Object.Status.NodeName
		stay := slices.DeleteFunc(w.web(), func(p observe.Pod) bool {
			return p.Object.Spec.NodeName != node || p.Terminating.Seen() || p.Deleted.Seen()
		})
		if len(stay) == 0 {
			w.t.Fatalf("round %d: node %s of a fleet at rest has no pods", round, node)
		}
		// Without a grace period: the nodes are full, a pod that comes while another still ends would need one more.
		if err := w.client.Delete(w.t.Context(), stay[0].Object, client.GracePeriodSeconds(0)); err != nil {
			w.t.Fatal(err)
		}
		w.await(w.t, fmt.Sprintf("the pod of round %d to be replaced", round), func() bool {
			return w.ready() == n && slices.ContainsFunc(w.web(), func(p observe.Pod) bool { return p.Object.UID == stay[0].Object.UID && p.Deleted.Seen() })
		})
		w.decides(2)
	}
	if bought := w.everClaimed(w.name); bought[len(bought)-1].Object.UID != claims[len(claims)-1].Object.UID {
		w.t.Errorf("a fleet at rest got another node, %s", bought[len(bought)-1].Object.Name)
	}
	for _, c := range claims {
		if name := c.Object.Status.NodeName; w.node(name).Cordoned.Seen() || claimGone(w.cluster, c) {
			w.t.Errorf("node %s of a fleet at rest was to be moved", name)
		}
	}
	if now := w.launcherCount(given); now != moves {
		w.t.Errorf("%v nodes were given up in a fleet at rest", now-moves)
	}
}

// decides waits until the launcher has decided about consolidation so many times while all nodes of the test may be consolidated.
func (w *world) decides(times int) {
	w.t.Helper()
	const name = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
	begin := time.Now()
	for from := w.launcherCount(name); w.launcherCount(name) < from+float64(times); {
		if !w.consolidatable() {
			from = w.launcherCount(name)
		}
		if time.Since(begin) > mostPatience {
			w.t.Fatalf("the launcher did not decide %d times within %s", times, mostPatience)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(100 * time.Millisecond): // A metric tells nobody that it has changed.
		}
	}
}

// launcherCount is the sum of one of the launcher's metrics: over what is labelled with the test's NodePool or underutilized, where it has
// such labels.
func (w *world) launcherCount(name string) float64 {
	w.t.Helper()
	families := w.launcherMetrics()
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == "nodepool" && l.GetValue() != w.name || l.GetName() == "reason" && l.GetValue() != "underutilized"
		}) {
			sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// A NodePool that had on-demand nodes alone may have spot nodes now: they come in their place.
func TestOnDemandBecomesSpot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "to-spot")
	w.shrinking(func(p *karpv1.NodePool) { onlyTypes(p, "r6a.xlarge") }) // Other tests have spot nodes of smaller types interrupted.
	w.budget()
	w.deployment("web", 2, w.podSpec("300m", "512Mi", apart("web")))
	w.await(t, "all pods to be ready", func() bool { return w.ready() == 2 })
	before := w.claimsOf(w.name)
	w.change(func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, "spot", "on-demand") })
	w.await(t, "both nodes to be spot nodes", func() bool {
		claims := w.claimsOf(w.name)
		return len(claims) == 2 && w.ready() == 2 && !slices.ContainsFunc(claims, func(c observe.Claim) bool {
			return c.Object.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeSpot
		})
	})
	w.keptAvailable(2)
	if n := len(w.everClaimed(w.name)); n != 2*len(before) {
		t.Errorf("%d nodes were bought for %d", n, len(before))
	}
}

// A spot node becomes a cheaper spot node with the feature gate alone.
func TestSpotBecomesSpotWithItsGateOnlyAlone(t *testing.T) {
	w := newWorld(t, "spot-to-spot")
	w.shrinking(func(p *karpv1.NodePool) {
		onlyTypes(p, "r6a.2xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "spot")
	})
	w.budget()
	w.deployment("web", 2, w.podSpec("300m", "512Mi", nil))
	w.await(t, "all pods to be ready", func() bool { return w.ready() == 2 })
	large := w.claimsOf(w.name)[0]
	// Nearly all instance types there are: EC2 would not take a cheaper one back at once.
	w.change(func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = slices.DeleteFunc(p.Spec.Template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
			return r.Key == corev1.LabelInstanceTypeStable
		})
	})
	w.await(t, "the node to be told that the gate keeps it", func() bool {
		return slices.ContainsFunc(w.toldOf("Unconsolidatable"), func(m string) bool { return strings.Contains(m, "SpotToSpotConsolidation") })
	})
	if w.node(large.Object.Status.NodeName).Cordoned.Seen() {
		t.Error("a spot node was to be moved to another without the gate")
	}
	w.restartWith(launcherSettings("NodeRepair=true,SpotToSpotConsolidation=true"))
	w.await(t, "the large node to be gone and all pods to be ready", func() bool { return claimGone(w.cluster, large) && w.ready() == 2 })
	w.keptAvailable(2)
	for _, c := range w.claimsOf(w.name) {
		if got := c.Object.Labels[karpv1.CapacityTypeLabelKey]; got != karpv1.CapacityTypeSpot || c.Expected.Price >= large.Expected.Price {
			t.Errorf("NodeClaim %s is %s for %v USD, the one before cost %v", c.Object.Name, got, c.Expected.Price, large.Expected.Price)
		}
	}
}

// restartWith restarts the launcher with these settings, and with the ordinary ones when the test has ended.
func (w *world) restartWith(settings []byte) {
	w.t.Helper()
	w.t.Cleanup(func() {
		err := errors.Join(os.WriteFile(w.settings, launcherSettings(featureGates), 0o600), w.Kill(sandbox.Launcher))
		if err != nil && !errors.Is(err, supervise.ErrNotRunning) {
			w.t.Error(err)
		}
	})
	if err := os.WriteFile(w.settings, settings, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kill(sandbox.Launcher)
}

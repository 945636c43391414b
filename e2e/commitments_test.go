package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/commitments"
)

func commitmentsConfigMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "slipway-commitments"}, Data: map[string]string{commitments.Key: text},
	}
}

// commit writes the ConfigMap with the account's commitments.
func (w *world) commit(text string) {
	w.t.Helper()
	object := commitmentsConfigMap(text)
	err := w.client.Create(w.t.Context(), object)
	if err != nil {
		err = w.client.Update(w.t.Context(), object)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// uncommit deletes it, and waits until the launcher has none: the nodes of other tests are not covered.
func (w *world) uncommit(id string) {
	object := commitmentsConfigMap("")
	if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), object)); err != nil {
		w.t.Error(err)
	}
	w.await(w.t, "the launcher to have no commitments", func() bool { return w.left(id) < 0 })
}

// left returns what the launcher reports as left of a commitment; -1 for a commitment that it does not have.
func (w *world) left(id string) float64 {
	for _, m := range w.launcherMetrics()["slipway_commitment_left"].GetMetric() {
		if labelsOf(m)["commitment"] == id {
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

// told reports whether an Event about the ConfigMap has the reason and the text.
func (w *world) told(reason, text string) bool {
	var list corev1.EventList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return false
	}
	return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
		return e.Reason == reason && e.InvolvedObject.Kind == "ConfigMap" && e.InvolvedObject.Name == "slipway-commitments" && strings.Contains(e.Message, text)
	})
}

// cheap reports whether every covered node of the test is recorded at next to nothing for its instance, and every other one at its price.
func (w *world) cheap() bool {
	return !slices.ContainsFunc(w.claimsOf(w.name), func(c observe.Claim) bool {
		cost, ok := catalog.ParseCost(c.Object.Annotations[catalog.CostAnnotation])
		return !ok || c.Object.Annotations[catalog.CoveredByAnnotation] != "" != (cost.Instance < 0.001)
	})
}

// bought counts the NodeClaims of the test by capacity type and what covers them.
func (w *world) bought() map[string]int {
	out := map[string]int{}
	for _, c := range w.claimsOf(w.name) {
		key := c.Object.Labels[karpv1.CapacityTypeLabelKey]
		if by := c.Object.Annotations[catalog.CoveredByAnnotation]; by != "" {
			key += " " + by
		}
		out[key]++
	}
	return out
}

// A Savings Plan that is read from the ConfigMap pays for two nodes: they are on demand, and further ones are spot, which cost less than half of
// it. An entry with a mistake is reported on the ConfigMap; a list that cannot be read leaves the last one in use.
func TestCommitmentsAlone(t *testing.T) {
	awaitReady(t)
	w := newWorld(t, "commitments")
	defer w.uncommit("sp-m6i")
	w.pool(w.name, func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	// m6i.large costs 0.096 on demand, and 0.072 under the plan.
	const list = "- {id: sp-m6i, kind: EC2InstanceSavingsPlan, family: m6i, usdPerHour: 0.32, discountPercent: 25, sharePercent: 50}\n"
	w.commit(list + "- {id: sp-bad, kind: ComputeSavingsPlan, usdPerHour: -1, discountPercent: 25}\n")
	w.await(t, "the launcher to read the commitments", func() bool { return w.left("sp-m6i") == 0.16 })
	w.await(t, "the mistake to be reported", func() bool { return w.told("CommitmentLeftOut", "sp-bad: usdPerHour: ") })

	w.simulatesCovered(list)
	w.deployment("web", 4, w.podSpec("1200m", "1Gi", nil))
	w.awaitRunning(4)
	if got := w.bought(); got["on-demand sp-m6i"] != 2 || got["spot"] != 2 {
		t.Errorf("bought %v, want 2 covered nodes and 2 spot nodes", got)
	}
	if !w.cheap() {
		t.Error("the NodeClaims' annotations do not have the prices of covered nodes for them, and of them alone")
	}
	if text := w.slipway("status", "-o", "wide"); strings.Count(text, "on-demand (sp-m6i)") != 2 {
		t.Errorf("status does not show the commitment of 2 nodes:\n%s", text)
	}
	w.await(t, "the metric to show what is left", func() bool { left := w.left("sp-m6i"); return left > 0.0159 && left < 0.0161 })

	w.commit("sp-m6i: 10")
	w.await(t, "the list to be reported as unreadable", func() bool { return w.told("CommitmentsUnreadable", "data[commitments.yaml]") })
	if left := w.left("sp-m6i"); left < 0 {
		t.Error("the last good list is not in use any more")
	}
}

// simulatesCovered asks offline what would be launched with such commitments.
func (w *world) simulatesCovered(list string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "commitments.yaml")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		w.t.Fatal(err)
	}
	spec := w.podSpec("1200m", "1Gi", func(s *corev1.PodSpec) { s.SchedulerName = "nobody" })
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "waits"}, Spec: spec}
	w.create(waits)
	var answer struct {
		Nodes       []struct{ NodePool, CoveredBy string }
		Commitments []catalog.CommitmentUse
	}
	text := w.slipway("simulate", "--from-cluster", "--commitments", file, "-o", "json")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		w.t.Fatal(err)
	}
	covered := slices.ContainsFunc(answer.Nodes, func(n struct{ NodePool, CoveredBy string }) bool {
		return n.NodePool == w.name && n.CoveredBy == "sp-m6i"
	})
	if !covered || len(answer.Commitments) != 1 || answer.Commitments[0].Left != 0.088 {
		w.t.Errorf("no covered node, or another rest than 0.088, in:\n%s", text)
	}
	if err := w.client.Delete(w.t.Context(), waits); err != nil {
		w.t.Fatal(err)
	}
}

package e2e_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// bill returns the recorded bill.
func (w *world) bill(by bill.By) bill.Bill {
	w.t.Helper()
	out, text := bill.Bill{}, w.slipway("bill", "--by", string(by), "--days", "2", "-o", "json")
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		w.t.Fatalf("%v in:\n%s", err, text)
	}
	return out
}

// lineOf returns the line of the name; a zero one if there is none.
func lineOf(b bill.Bill, name string) bill.Line {
	for _, l := range b.Lines {
		if l.Name == name {
			return l
		}
	}
	return bill.Line{}
}

// paidFor returns what the nodes of the test cost from their launch to a time, and until when the last one was launched.
func (w *world) paidFor(to time.Time) (usd float64, last time.Time) {
	w.t.Helper()
	for _, c := range w.claimsOf(w.name) {
		cost, ok := catalog.ParseCost(c.Object.Annotations[catalog.CostAnnotation])
		launched := c.Object.StatusConditions().Get(karpv1.ConditionTypeLaunched)
		if !ok || !launched.IsTrue() {
			w.t.Fatalf("NodeClaim %s has no cost, or is not launched", c.Object.Name)
		}
		usd += cost.Total() * to.Sub(launched.LastTransitionTime.Time).Hours()
		if launched.LastTransitionTime.After(last) {
			last = launched.LastTransitionTime.Time
		}
	}
	return usd, last
}

// Pods run for two minutes. The bill has what their nodes cost, within 0.5 %, and charges it to their NodePool, namespace, workload and label; lines
// and what is charged to nobody add up to the sum.
func TestBill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bill")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	w.deployment("web", 2, w.podSpec("1200m", "1Gi", nil))
	w.awaitRunning(2)
	_, last := w.paidFor(time.Now())
	begin, of := time.Now(), bill.Bill{}
	for ; of.To.Before(last.Add(2 * time.Minute)); time.Sleep(2 * time.Second) {
		if time.Since(begin) > mostPatience {
			t.Fatalf("the bill of %s to %s has not two minutes after %s; end of the launcher's log:\n%s", of.From, of.To, last, w.Tail("launcher", 40))
		}
		of = w.bill(bill.ByNodePool)
	}
	want, _ := w.paidFor(of.To)
	line := lineOf(of, w.name)
	if math.Abs(line.Total-want) > 0.005*want {
		t.Errorf("the NodePool's bill is %.6f USD until %s, its nodes cost %.6f: %+v", line.Total, of.To, want, line)
	}
	if share := line.Requested.Total() / line.Total; share < 0.3 || share > 0.7 || math.Abs(line.Requested.Total()+line.Idle.Total()-line.Total) > 1e-6 {
		t.Errorf("%.3f of the nodes is requested: %+v", share, line)
	}

	workloads, sum := w.bill(bill.ByWorkload), 0.0
	for _, l := range workloads.Lines {
		sum += l.Total
	}
	for _, usd := range workloads.Unused {
		sum += usd
	}
	if sum += workloads.Idle.Total() + workloads.Interrupted.Total(); math.Abs(sum-workloads.Total) > 1e-6 {
		t.Errorf("the lines add up to %.6f USD, the bill is %.6f", sum, workloads.Total)
	}
	web, namespace := lineOf(workloads, w.name+"/Deployment/web"), lineOf(w.bill(bill.ByNamespace), w.name)
	if web.Total < line.Requested.Total()-1e-6 || namespace.Total < web.Total-1e-6 {
		t.Errorf("the NodePool's requested share is %+v, the workload is charged %+v, the namespace %+v", line.Requested, web, namespace)
	}
	focus := strings.Split(w.slipway("bill", "--days", "2", "-o", "focus"), "\n")
	if !strings.HasPrefix(focus[0], "BilledCost,") || !slices.ContainsFunc(focus, func(row string) bool { return strings.HasSuffix(strings.TrimSpace(row), ","+w.name+",,Deployment,web") }) {
		t.Errorf("FOCUS has no row of the workload:\n%s", strings.Join(focus[:min(len(focus), 20)], "\n"))
	}
}

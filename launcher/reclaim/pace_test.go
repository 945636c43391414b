package reclaim_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// queue reconciles each of the nodes when it asks for it, for a time.
func (f *flow) queue(nodes int, duration time.Duration) {
	begin := time.Now()
	due := make([]time.Time, nodes)
	for {
		next := 0
		for i := range due {
			if due[i].Before(due[next]) {
				next = i
			}
		}
		time.Sleep(time.Until(due[next]))
		if time.Since(begin) >= duration {
			return
		}
		result, err := f.subject.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: fmt.Sprint("claim-", next)}})
		if err != nil || result.RequeueAfter <= 0 {
			f.t.Fatalf("node %d is not reconciled again: %v", next, err)
		}
		due[next] = time.Now().Add(result.RequeueAfter)
	}
}

// emptyFleet makes empty nodes of a NodePool with a budget.
func emptyFleet(t *testing.T, nodes int, budget string) *flow {
	t.Helper()
	f := newFlow(t)
	pool := &karpv1.NodePool{}
	pool.Name = "default"
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: budget}}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	f.create(t.Context(), pool)
	for i := range nodes {
		f.addNode(t.Context(), fmt.Sprint(i))
	}
	return f
}

// unready makes a node sick.
func (f *flow) unready(name string) {
	node := &corev1.Node{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		f.t.Fatal(err)
	}
	node.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := f.api.Status().Update(f.t.Context(), node); err != nil {
		f.t.Fatal(err)
	}
}

// However many empty nodes wait for a place in the budgets of a NodePool, the cluster is looked at once for all of them, and one Event says why they wait.
func TestWaitingNodesShareALook(t *testing.T) {
	for _, c := range []struct {
		name, budget string
		sick         int
		looks        int
	}{
		{"closed", "0", 0, 6},
		{"closed, with sick nodes", "0", 25, 12},
		{"used up", "1", 2, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes = 50
				f := emptyFleet(t, nodes, c.budget)
				for i := range c.sick {
					f.unready(fmt.Sprint(i))
				}
				f.queue(nodes, time.Minute)
				if f.looks > c.looks || f.looks == 0 {
					t.Errorf("%d looks at the cluster in a minute, want at most %d", f.looks, c.looks)
				}
				if n := strings.Count(f.trace.String(), "DisruptionBlocked"); n != 1 {
					t.Errorf("%d Events, want one", n)
				}
			})
		})
	}
}

// Healthy nodes that wait for a place do not keep one back that has its place already, as it is not Ready.
func TestSickNodeIsNotKeptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := emptyFleet(t, 2, "1")
		f.unready("1")
		got := f.look(t.Context())
		if !strings.Contains(got, "0: leaving false") || !strings.Contains(got, "1: leaving true") {
			t.Error(got)
		}
	})
}

// An edit of a NodePool opens its budgets at once.
func TestEditOpensBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := emptyFleet(t, 1, "0")
		if got := f.look(t.Context()); !strings.Contains(got, "claim-0 again in 10s") {
			t.Fatal(got)
		}
		pool := &karpv1.NodePool{}
		if err := f.api.Get(t.Context(), client.ObjectKey{Name: "default"}, pool); err != nil {
			t.Fatal(err)
		}
		pool.Spec.Disruption.Budgets[0].Nodes = "1"
		if err := f.api.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		if again := f.subject.PoolEvent(t.Context(), pool); len(again) != 1 {
			t.Errorf("%v is reconciled", again)
		}
		if got := f.look(t.Context()); !strings.Contains(got, "0: leaving true") {
			t.Error(got)
		}
	})
}

// The same reason of a node that stays is recorded once.
func TestReasonIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := emptyFleet(t, 1, "1")
		f.answer = "busy"
		f.queue(1, time.Minute)
		if n := strings.Count(f.trace.String(), "Unconsolidatable"); n != 1 {
			t.Errorf("%d Events, want one:\n%s", n, f.trace.String())
		}
	})
}

// A node that stays needed for the same reason is cordoned ever less often, down to once in two minutes, and soon again after another answer.
func TestNeededNodeIsCordonedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := emptyFleet(t, 1, "1")
		f.answer = "busy"
		f.queue(1, 10*time.Minute)
		if n := strings.Count(f.trace.String(), "asked about 0"); n != 8 {
			t.Errorf("the node was cordoned %d times in ten minutes, want 8:\n%s", n, f.trace.String())
		}
		f.answer = "silent"
		time.Sleep(time.Minute)
		if got := f.look(t.Context()); !strings.Contains(got, "claim-0 again in 10s") {
			t.Error(got)
		}
		f.answer = "free"
		time.Sleep(10 * time.Second)
		if got := f.look(t.Context()); !strings.Contains(got, "0: leaving true") {
			t.Error(got)
		}
	})
}

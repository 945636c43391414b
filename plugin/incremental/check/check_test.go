package check_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/breaker"
	"github.com/slipway-k8s/slipway/plugin/incremental/check"
)

// judge is a plugin with one answer for all nodes.
type judge struct {
	status *fwk.Status
	score  int64
	asked  int
}

func (j *judge) Name() string { return "Judge" }

func (j *judge) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	j.asked++
	return nil, nil
}

func (j *judge) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (j *judge) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return j.status
}

func (j *judge) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (j *judge) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return j.score, nil
}

func (j *judge) ScoreExtensions() fwk.ScoreExtensions { return j }

func (j *judge) NormalizeScore(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeScoreList) *fwk.Status {
	return nil
}

// bench is a check of two plugins and one node.
type bench struct {
	check.Check
	ours, stock *judge
	tripped     int
	forgotten   int
	nodes       []fwk.NodeInfo
}

func newBench() *bench {
	node := framework.NewNodeInfo()
	node.SetNode(st.MakeNode().Name("one").Obj())
	b := &bench{ours: &judge{}, stock: &judge{}, nodes: []fwk.NodeInfo{node}}
	b.Check = check.Check{Ours: b.ours, Kubernetes: b.stock, Breaker: &breaker.Breaker{Name: "Judge", Tripped: func(string, any) { b.tripped++ }}, Forget: func() { b.forgotten++ }}
	return b
}

func (b *bench) filters(ctx context.Context) bool {
	return b.Filters(ctx, framework.NewCycleState(), st.MakePod().Name("pod").Obj(), b.nodes)
}

// The first sixteen answers are checked, and about one of 256 after these.
func TestHowManyAnswersAreChecked(t *testing.T) {
	b := newBench()
	for i := range 16 {
		if !b.filters(t.Context()) || b.stock.asked != i+1 {
			t.Fatalf("of %d answers %d were checked", i+1, b.stock.asked)
		}
	}
	for range 256 * 100 {
		if !b.filters(t.Context()) {
			t.Fatal("an answer that is equal is not used")
		}
	}
	if later := b.stock.asked - 16; later < 50 || later > 150 {
		t.Errorf("%d of %d later answers were checked", later, 256*100)
	}
}

// One answer that differs may come of an object that changed meanwhile; a second one does not, whether it is a filter's, by its code or its words, or a score.
func TestTwoDifferencesTrip(t *testing.T) {
	for name, differ := range map[string]func(b *bench) bool{
		"code": func(b *bench) bool {
			b.ours.status = fwk.NewStatus(fwk.Unschedulable)
			return b.filters(t.Context())
		},
		"words": func(b *bench) bool {
			b.ours.status, b.stock.status = fwk.NewStatus(fwk.Unschedulable, "a"), fwk.NewStatus(fwk.Unschedulable, "b")
			return b.filters(t.Context())
		},
		"score": func(b *bench) bool {
			b.ours.score = 1
			return b.Scores(t.Context(), framework.NewCycleState(), st.MakePod().Name("pod").Obj(), b.nodes, nil)
		},
		"skip": func(b *bench) bool {
			b.stock.score = 1
			return b.Scores(t.Context(), framework.NewCycleState(), st.MakePod().Name("pod").Obj(), b.nodes, fwk.NewStatus(fwk.Skip))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			if differ(b) || b.tripped != 0 || b.forgotten != 1 {
				t.Errorf("an answer that differs was used, tripped (%d), or was not forgotten (%d)", b.tripped, b.forgotten)
			}
			if differ(b) || b.tripped != 1 || b.forgotten != 2 {
				t.Errorf("a second one was used, did not trip (%d), or was not forgotten (%d)", b.tripped, b.forgotten)
			}
		})
	}
	b := newBench()
	differ := func() bool {
		b.ours.score = 1
		defer func() { b.ours.score = 0 }()
		return b.Scores(t.Context(), framework.NewCycleState(), st.MakePod().Name("pod").Obj(), b.nodes, nil)
	}
	differ()
	for range 17 {
		b.filters(t.Context())
	}
	for b.stock.asked = 0; differ(); { // It is checked at some time.
	}
	if b.tripped != 0 {
		t.Error("two answers that differ, with sixteen right ones between them, tripped")
	}
}

// What a context that has ended stopped half way proves nothing.
func TestEndedContextProvesNothing(t *testing.T) {
	b := newBench()
	b.ours.status = fwk.NewStatus(fwk.Unschedulable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if b.filters(ctx) || b.tripped != 0 {
			t.Errorf("an answer was used or tripped: %d", b.tripped)
		}
	}
}

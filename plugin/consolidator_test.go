package plugin

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Decisions rest after much planning: a question that comes meanwhile is answered without any.
func TestDecisionsRest(t *testing.T) {
	c := &consolidator{rest: time.Now().Add(time.Hour)}
	if got := c.safe(t.Context(), decision{}); !strings.Contains(got.GetMessage(), "the last decision took much planning") {
		t.Errorf("answer %v: want it to say that decisions rest", got)
	}
}

// A decision does not give way to a gang that lacks pods. The gang waits once: its pods do not wait when they are planned again, or when the
// scheduler has tried them again.
func TestDecisionsBesideAGangThatLacksPods(t *testing.T) {
	objects, reported := fleetOfSize(benchCatalog(), 8, 66)
	pod := benchPod("g-0", "")
	pod.Labels = map[string]string{plan.LabelGang: "g", plan.KeyGangSize: "2"}
	p := benchPlannerOf(t, append(objects, pod))
	p.connection.set(link.Connection{Up: true})
	start := time.Now()
	step := func(after time.Duration, inBatch bool) {
		t.Helper()
		p.step(t.Context(), start.Add(after))
		if got := p.batch.Has(pod.UID); got != inBatch {
			t.Fatalf("after %s the pod is in the batch: %t, want %t", after, got, inBatch)
		}
		if p.consolidator.busy.Load() {
			t.Errorf("after %s decisions give way", after)
		}
	}
	p.collected.Add(intake.Entry{Pod: pod, At: start})
	p.collected.Drain()
	step(0, true)
	asked := time.Now()
	a, err := p.consolidator.decide(t.Context(), decision{
		question: aboutFleet(reported, 8), catalog: p.view.State(nil, start), reserved: p.reserved.Snapshot(), buffers: p.buffers.table,
	})
	if took := time.Since(asked); err != nil || a.GetQuestions() == 0 || took >= time.Duration(a.GetQuestions())*giveWayAtMost {
		t.Errorf("%d questions took %s, error %v: want no pause for each", a.GetQuestions(), took, err)
	}
	step(batch.DefaultGangTimeout, false)
	again := batch.DefaultGangTimeout + time.Minute
	p.unplaced.PlanBy(start.Add(again))
	step(again, false)
	p.collected.Add(intake.Entry{Pod: pod, At: start.Add(again)})
	p.collected.Drain()
	step(again+time.Second, false)
	if p.unplaced.Held() != 1 {
		t.Errorf("%d pods are held, want the gang's", p.unplaced.Held())
	}
}

package plugin

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
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

// A node with a pod whose replacement would wait, as its namespace sleeps, stays and says so; those beside it go. The room of a buffer in that namespace keeps
// no node.
func TestDecisionsKnowWhoSleeps(t *testing.T) {
	objects, reported := fleetOfSize(benchCatalog(), 8, 66)
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{window.SleepAnnotation: `- {schedule: "@daily", duration: 48h}`}}}
	asleep := ""
	for round := range 2 {
		p := benchPlannerOf(t, append(slices.Clone(objects), shop.DeepCopy()))
		a, err := p.consolidator.decide(t.Context(), decision{
			question: aboutFleet(reported, 8), catalog: p.view.State(nil, time.Now()), reserved: p.reserved.Snapshot(), buffers: p.buffers.table,
		})
		if err != nil || len(a.GetMoves()) == 0 {
			t.Fatalf("moves %v, error %v", a.GetMoves(), err)
		}
		if round == 0 {
			asleep = a.GetMoves()[0].GetNodeNames()[0]
			for _, o := range objects {
				if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName == asleep {
					pod.Namespace = shop.Name
					break
				}
			}
			continue
		}
		for _, m := range a.GetMoves() {
			if slices.Contains(m.GetNodeNames(), asleep) {
				t.Errorf("node %s goes, which has a pod that sleeps", asleep)
			}
		}
		if !slices.ContainsFunc(a.GetKept(), func(k *api.KeptNode) bool {
			return k.GetName() == asleep && strings.Contains(k.GetReason(), "would wait: namespace shop sleeps until")
		}) {
			t.Errorf("node %s stays without its reason: %v", asleep, a.GetKept())
		}
		room := benchPod("room", "")
		room.Namespace = shop.Name
		node := &consolidate.Node{Name: "b", Offer: consolidate.Offer{Price: 1}}
		if why := p.consolidator.blocked(node, []*corev1.Pod{room}, p.reserved.Snapshot(), time.Now()); why != "" {
			t.Errorf("the room of a buffer keeps its node: %s", why)
		}
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

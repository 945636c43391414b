package consolidate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/consolidate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func both() *api.ConsolidateAnswer {
	return &api.ConsolidateAnswer{Moves: []*api.PlannedMove{{
		NodeNames: []string{"a", "b"}, Evictions: 2, Saving: 0.3, MostPerHour: 0.1,
		Replacements: []*api.Expected{{InstanceType: "m7g.large", CapacityType: "spot", Price: 0.0358, Cost: &api.Cost{Instance: 0.0336, Volumes: 0.0022}}},
		Avoid:        []string{"next"},
	}}}
}

// TestMovesAreHandedOver checks that each set of nodes that the scheduler returns becomes one move. While the move runs, its
// nodes are blocked in later questions.
func TestMovesAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = both()
		w.run(time.Minute)
		if len(w.moves) != 1 || len(w.moves[0].Claims) != 2 || *w.moves[0].MostPerHour != 0.1 || w.moves[0].Reason != karpv1.DisruptionReasonUnderutilized ||
			len(w.moves[0].Avoid) != 1 {
			t.Fatalf("moves %+v", w.moves)
		}
		if quiet := w.moves[0].Quiet; !slices.Equal(quiet, []time.Duration{30 * time.Second, 30 * time.Second}) {
			t.Errorf("the move is called off if pods came within %s, want consolidateAfter", quiet)
		}
		if want := "replaced by m7g.large spot (0.0358 USD/h: instance 0.0336 + volumes 0.0022), saves 0.3000 USD/h with 2 evictions"; w.moves[0].Message != want {
			t.Errorf("message %q, want %q", w.moves[0].Message, want)
		}
		if len(w.asked) != 1 {
			t.Errorf("asked %d times: both nodes are in a move", len(w.asked))
		}
		if want := "a ConsolidationCandidate: Consolidation candidate: " + w.moves[0].Message; len(w.events) == 0 || w.events[0] != want {
			t.Errorf("events %q, want %q first", w.events, want)
		}
	})
}

// TestPodAge checks that the setting and the NodePool's annotation for the age of pods reach the question.
func TestPodAge(t *testing.T) {
	for _, c := range []struct {
		annotation string
		want       time.Duration
	}{{"", 30 * time.Minute}, {"0s", 0}, {"2h", 2 * time.Hour}, {"soon", 30 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			pool := &karpv1.NodePool{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, pool); err != nil {
				t.Fatal(err)
			}
			pool.Annotations = map[string]string{catalog.PodAgeAnnotation: c.annotation}
			if err := w.api.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			w.run(time.Second)
			if got := time.Duration(w.asked[0].GetNodes()[0].GetPodAge()) * time.Millisecond; got != c.want {
				t.Errorf("%q: %s, want %s", c.annotation, got, c.want)
			}
		})
	}
}

// TestAsksWhenSomethingChanges checks that an unchanged cluster causes ever fewer questions, down to one every few minutes,
// since prices change. A new pod is a change.
func TestAsksWhenSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = &api.ConsolidateAnswer{Kept: []*api.KeptNode{{Name: "a", Reason: "its pods cost nothing less elsewhere"}}}
		go func() {
			time.Sleep(time.Minute + time.Second)
			w.pod("late", "b")
		}()
		w.run(16 * time.Minute)
		// At 0, 0:10 and 0:30; at 1:10, 1:20, 1:40, 2:20, 3:40, 6:20, 10:20, 14:20.
		if len(w.asked) != 11 {
			t.Errorf("asked %d times, want 11", len(w.asked))
		}
		want := []string{"a Unconsolidatable: its pods cost nothing less elsewhere"}
		if diff := cmp.Diff(want, w.events); diff != "" {
			t.Errorf("within a quarter of an hour a node gets one Event (-want +got):\n%s", diff)
		}
	})
}

// TestReasonsThatChangeAreRecorded checks that a node gets an Event about each reason for which it stays, three in a quarter of an hour at most.
func TestReasonsThatChangeAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stays := func(why string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.answer = &api.ConsolidateAnswer{Kept: []*api.KeptNode{{Name: "a", Reason: why}}}
		}
		stays("first")
		go func() {
			for i, why := range []string{"second", "first", "third", "fourth"} {
				time.Sleep(2*time.Minute + time.Second)
				stays(why)
				w.pod(fmt.Sprintf("late-%d", i), "b")
			}
		}()
		w.run(14 * time.Minute)
		want := []string{"a Unconsolidatable: first", "a Unconsolidatable: second", "a Unconsolidatable: third"}
		if diff := cmp.Diff(want, w.events); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
	})
}

// TestReasonsThatStayAreRepeated checks that a reason that stays the same is recorded again before its Event is gone after an hour, and not sooner.
func TestReasonsThatStayAreRepeated(t *testing.T) {
	for long, want := range map[time.Duration]int{50 * time.Minute: 1, 59 * time.Minute: 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.answer = &api.ConsolidateAnswer{Kept: []*api.KeptNode{{Name: "a", Reason: "it is full"}}}
			w.run(long)
			if len(w.events) != want || w.events[0] != "a Unconsolidatable: it is full" {
				t.Errorf("Events of %s: %q, want %d", long, w.events, want)
			}
		})
	}
}

// TestReasonsOfProtectedNodesAreRecorded checks that blocked nodes are in the question and get an Event. Without a candidate
// there is no question.
func TestReasonsOfProtectedNodesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"a", "b"} {
			pod := &corev1.Pod{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "pod-" + name}, pod); err != nil {
				t.Fatal(err)
			}
			pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			if err := w.api.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		w.run(time.Minute)
		if len(w.asked) != 0 {
			t.Errorf("asked %v: nothing may be touched", w.asked)
		}
		if len(w.events) != 2 || !strings.Contains(w.events[0], "web/pod-a") || !strings.Contains(w.events[0], "Unconsolidatable") {
			t.Errorf("events %q", w.events)
		}
	})
}

// TestReasonsOfNodePoolsAreRecordedOnce checks that a NodePool whose settings keep all of its nodes has one Event, and its nodes have none.
func TestReasonsOfNodePoolsAreRecordedOnce(t *testing.T) {
	never, policy := "NodePool default consolidates nothing (consolidateAfter Never)", "NodePool default gives up empty nodes only (consolidationPolicy WhenEmpty)"
	for want, set := range map[string]func(*karpv1.Disruption){
		never:  func(d *karpv1.Disruption) { d.ConsolidateAfter = karpv1.MustParseNillableDuration("Never") },
		policy: func(d *karpv1.Disruption) { d.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			pool := &karpv1.NodePool{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, pool); err != nil {
				t.Fatal(err)
			}
			set(&pool.Spec.Disruption)
			if err := w.api.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			w.answer = &api.ConsolidateAnswer{Kept: []*api.KeptNode{{Name: "a", Reason: policy}, {Name: "b", Reason: policy}}}
			w.run(5 * time.Minute)
			if diff := cmp.Diff([]string{"NodePool default Unconsolidatable: " + want}, w.events); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			if len(w.outlook.Stays) != 2 || w.outlook.Stays[0].Why != want {
				t.Errorf("nodes stay, as it is shown, because of %+v", w.outlook.Stays)
			}
		})
	}
}

// TestBudgetsRefuseMoves checks that a refusal by the budgets is recorded, and that the question is repeated when something
// changes.
func TestBudgetsRefuseMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = both()
		w.refuse = &budget.RefusedError{NodePool: "default", Reason: karpv1.DisruptionReasonUnderutilized, Why: "blocking budget"}
		w.run(time.Minute)
		want := "a DisruptionBlocked: No allowed disruptions for disruption reason Underutilized due to blocking budget"
		if len(w.events) != 4 || w.events[2] != want {
			t.Errorf("events %q, want %q", w.events, want)
		}
		if len(w.moves) != 0 {
			t.Errorf("moves %v", w.moves)
		}
	})
}

// TestMovesSettleFirst checks that there is no decision while the pods of a move have no reservations: the scheduler might
// count the move's nodes as free. Afterwards there is one at once.
func TestMovesSettleFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.unsettled = true
		go func() {
			time.Sleep(25 * time.Second)
			if w.mu.Lock(); len(w.asked) != 0 {
				t.Errorf("asked %d times while a move had no room", len(w.asked))
			}
			w.unsettled = false
			w.mu.Unlock()
		}()
		w.run(31 * time.Second)
		if len(w.asked) != 1 {
			t.Errorf("asked %d times, want once, when the move had its room", len(w.asked))
		}
	})
}

// TestSilentScheduler checks that a scheduler without an answer causes no move, and is asked again.
func TestSilentScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = nil
		w.run(31 * time.Second)
		if len(w.asked) != 4 || len(w.moves) != 0 {
			t.Errorf("asked %d times, moves %v", len(w.asked), w.moves)
		}
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := consolidate.New(consolidate.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

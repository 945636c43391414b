package provision_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// within plans the classes with the maker given, in so much time. The time is that of a bubble, in which the filters take none: a busy machine cuts no plan short.
func within(t *testing.T, limit time.Duration, classes []plan.Class, makePlan func(context.Context, plan.Input) plan.Plan) (r provision.Result) {
	t.Helper()
	// The verifier's goroutines live longer than the bubble.
	p, err := provision.New(provision.Config{Verifier: verifytest.New(t), Make: makePlan})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		r, err = p.Provision(ctx, provision.Request{Classes: classes, Cluster: clusterview.Source{
			Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: verifytest.Zones("z1"), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// codes are the reasons of the pods without a node, by class.
func codes(p plan.Plan) map[int]string {
	out := map[int]string{}
	for _, u := range p.Unplaced {
		for _, r := range u.Reasons {
			out[u.Class] += r.Code
		}
	}
	return out
}

// A planner that uses all of its time leaves the filters theirs: its plan is used.
func TestPlanThatTakesItsTime(t *testing.T) {
	classes := []plan.Class{verifytest.Class("a", 2, verifytest.Pod("a"))}
	r := within(t, 4*time.Second, classes, func(ctx context.Context, in plan.Input) plan.Plan {
		<-ctx.Done()
		p := oneEach(ctx, in)
		p.CutShort = true
		return p
	})
	if len(r.Plan.Claims) != 1 || len(r.Plan.Unplaced) > 0 || !r.Plan.CutShort {
		t.Errorf("plan %+v: want the claim that was planned in time, and to know that it was cut short", r.Plan)
	}
}

// When the time is over, what the filters let pass is used; what they reject waits, gangs as a whole, with the reason.
func TestTimeIsOver(t *testing.T) {
	none := map[string]string{"none": "such"}
	classes := []plan.Class{
		verifytest.Class("a", 2, verifytest.Pod("a").NodeSelector(none)),
		verifytest.Class("b", 2, verifytest.Pod("b")),
		verifytest.Class("c", 1, verifytest.Pod("c").Label(plan.LabelGang, "g").NodeSelector(none)),
		verifytest.Class("d", 1, verifytest.Pod("d").Label(plan.LabelGang, "g")),
	}
	r := within(t, 8*time.Second, classes, func(ctx context.Context, in plan.Input) plan.Plan {
		end, _ := ctx.Deadline()
		time.Sleep(2*time.Until(end) + 100*time.Millisecond) // The time of all rounds.
		return oneEach(ctx, in)
	})
	if len(r.Plan.Claims) != 1 || r.Plan.Claims[0].Name != "b" || !r.Plan.CutShort {
		t.Errorf("claims %+v, want that of b", r.Plan.Claims)
	}
	got := codes(r.Plan)
	if len(got) != 3 || got[0] != "FilterRejected" || got[2] != "FilterRejected" || got[3] != "FilterRejected" {
		t.Errorf("reasons %v, want the filters' for a, c and d", got)
	}
}

// What the filters were never asked about is not launched.
func TestNoTimeForTheFilters(t *testing.T) {
	classes := []plan.Class{verifytest.Class("a", 2, verifytest.Pod("a"))}
	r := within(t, 0, classes, oneEach)
	if len(r.Plan.Claims) > 0 || !r.Plan.CutShort || len(r.Plan.Unplaced) != 1 || len(r.Plan.Unplaced[0].Pods) != 2 || codes(r.Plan)[0] != "PlanningCutShort" {
		t.Errorf("plan %+v: want both pods to wait for the next batch", r.Plan)
	}
}

// A planner that is stopped in the middle, by a signal or the end of leadership, leaves nothing to launch.
func TestStoppedInTheMiddle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := provision.New(provision.Config{Verifier: verifytest.New(t), Make: func(ctx context.Context, in plan.Input) plan.Plan {
		cancel()
		<-ctx.Done()
		return oneEach(ctx, in)
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Provision(ctx, provision.Request{
		Classes: []plan.Class{verifytest.Class("a", 2, verifytest.Pod("a"))},
		Cluster: clusterview.Source{
			Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: verifytest.Zones("z1"), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
		},
	})
	if err != nil || len(r.Plan.Claims) > 0 || !r.Plan.CutShort {
		t.Errorf("plan %+v, error %v: want no claim", r.Plan, err)
	}
}

// A plan of many classes that is stopped is taken back in time proportional to its size: 16 times as many take nowhere near 256 times as long.
func TestStoppedWithManyClasses(t *testing.T) {
	stop := func(n int) time.Duration {
		classes := make([]plan.Class, 0, n)
		for i := range n {
			name := fmt.Sprintf("c-%d", i)
			classes = append(classes, verifytest.Class(name, 1, verifytest.Pod(name)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var stopped time.Duration
		p, err := provision.New(provision.Config{Verifier: verifytest.New(t), Make: func(ctx context.Context, in plan.Input) plan.Plan {
			out := oneEach(ctx, in)
			cancel()
			stopped = cputime.Used()
			return out
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Provision(ctx, provision.Request{Classes: classes, Cluster: clusterview.Source{
			Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: verifytest.Zones("z1"), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
		}})
		if err != nil || len(r.Plan.Claims) > 0 || len(r.Plan.Unplaced) != n {
			t.Fatalf("%d claims, %d classes unplaced, %v: want nothing to launch and a reason for each of %d", len(r.Plan.Claims), len(r.Plan.Unplaced), err, n)
		}
		return cputime.Used() - stopped
	}
	few, many := max(stop(500), time.Millisecond), stop(8000)
	if many > 80*few {
		t.Errorf("500 classes are taken back in %v of CPU, 8,000 in %v", few, many)
	}
}

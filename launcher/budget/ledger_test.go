package budget_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// fleet is a cluster with a lagging cache: changes appear in the cache only after a notification.
type fleet struct {
	mu           sync.Mutex
	pools        map[string]*karpv1.NodePool
	real, cached []disruption.BudgetNode
	// looks is how often the cluster was looked at.
	looks int
}

func newFleet(nodes int, budgets ...karpv1.Budget) *fleet {
	pool := &karpv1.NodePool{}
	pool.Name, pool.Spec.Disruption.Budgets = "default", budgets
	f := &fleet{pools: map[string]*karpv1.NodePool{pool.Name: pool}}
	for i := range nodes {
		f.real = append(f.real, disruption.BudgetNode{Claim: uid(i), Pool: pool.Name, Counts: true})
	}
	f.cached = slices.Clone(f.real)
	return f
}

func uid(i int) types.UID { return types.UID(fmt.Sprint("uid-", i)) }

func claim(i int) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{}
	c.Name, c.UID = fmt.Sprint("claim-", i), uid(i)
	return c
}

func (f *fleet) observe(context.Context) (budget.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return budget.View{Now: time.Now(), Pools: f.pools, Nodes: slices.Clone(f.cached)}, nil
}

// change changes nodes in the cluster, and returns how many are disrupted in it.
func (f *fleet) change(i int, change func(*disruption.BudgetNode)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.real[i])
}

// catchUp has the cache show some node as it is now.
func (f *fleet) catchUp(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cached[i] = f.real[i]
}

func ledger(t *testing.T, f *fleet) *budget.Ledger {
	t.Helper()
	l, err := budget.New(f.observe)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func refused(t *testing.T, err error) *budget.RefusedError {
	t.Helper()
	var r *budget.RefusedError
	if err != nil && !errors.As(err, &r) {
		t.Fatal(err)
	}
	return r
}

// A place lasts until the deletion shows, and is counted once then; it ends with Release.
func TestPlaceIsKeptUntilItShows(t *testing.T) {
	f := newFleet(10, karpv1.Budget{Nodes: "2"})
	l := ledger(t, f)
	reserve := func(i int) *budget.RefusedError {
		return refused(t, l.Reserve(t.Context(), karpv1.DisruptionReasonDrifted, claim(i)))
	}
	if r := reserve(0); r != nil {
		t.Fatal(r)
	}
	looks := f.looks
	if r := reserve(0); r == nil || !r.Taken || f.looks > looks {
		t.Errorf("the same node twice: %v, with %d looks at the cluster", r, f.looks-looks)
	}
	f.change(0, func(n *disruption.BudgetNode) { n.Disrupted = true })
	f.catchUp(0)
	if r := reserve(1); r != nil {
		t.Errorf("a node that is cordoned and has a place was counted twice: %v", r)
	}
	if r := reserve(2); r == nil || r.NodePool != "default" || r.Closed || r.Error() != "No allowed disruptions for disruption reason Drifted due to blocking budget" {
		t.Errorf("a third of two: %v", r)
	}
	l.Release(uid(1))
	if r := reserve(2); r != nil {
		t.Errorf("after a release: %v", r)
	}
	// Gone for good: the place is free, and the node no longer one of the NodePool's.
	f.change(0, func(n *disruption.BudgetNode) { n.Deleting, n.Counts = true, false })
	f.catchUp(0)
	if r := reserve(3); r != nil || l.Held(uid(0)) {
		t.Errorf("after one has left: %v, still held: %v", r, l.Held(uid(0)))
	}
	if r := reserve(0); r == nil || !r.Taken {
		t.Errorf("a node that is being deleted: %v", r)
	}
}

// All or none, in any NodePools.
func TestPlacesOfOneMove(t *testing.T) {
	f := newFleet(4, karpv1.Budget{Nodes: "2"})
	other := f.pools["default"].DeepCopy()
	other.Name, other.Spec.Disruption.Budgets = "other", []karpv1.Budget{{Nodes: "1", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized}}}
	f.pools["other"] = other
	for _, i := range []int{2, 3} {
		f.real[i].Pool, f.cached[i].Pool = "other", "other"
	}
	l := ledger(t, f)
	ask := func(claims ...int) *budget.RefusedError {
		var list []*karpv1.NodeClaim
		for _, i := range claims {
			list = append(list, claim(i))
		}
		return refused(t, l.Reserve(t.Context(), karpv1.DisruptionReasonUnderutilized, list...))
	}
	if r := ask(0, 2, 3); r == nil || r.NodePool != "other" {
		t.Errorf("two of one: %v", r)
	}
	if l.Held(uid(0)) {
		t.Error("the refusal keeps a place")
	}
	if r := ask(0, 1, 2); r != nil {
		t.Error(r)
	}
	allowed, err := l.Allowed(t.Context(), karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonEmpty)
	left := allowed[karpv1.DisruptionReasonUnderutilized]
	if err != nil || left["default"] != 0 || left["other"] != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A node that is not Ready has the place that it takes already, as far as the others leave one.
func TestSickNodeNeedsNoPlaceBesides(t *testing.T) {
	f := newFleet(5, karpv1.Budget{Nodes: "1"})
	f.real[0].Disrupted, f.cached[0].Disrupted = true, true
	l := ledger(t, f)
	if r := refused(t, l.Reserve(t.Context(), karpv1.DisruptionReasonDrifted, claim(1))); r == nil {
		t.Error("a healthy node beside a sick one, with a budget of one")
	}
	if r := refused(t, l.Reserve(t.Context(), karpv1.DisruptionReasonDrifted, claim(0))); r != nil {
		t.Error(r)
	}
}

// However much a NodePool allows: not more than 200 nodes leave at a time.
func TestCluster(t *testing.T) {
	f := newFleet(300, karpv1.Budget{Nodes: "100%"})
	l := ledger(t, f)
	for i := range 300 {
		r := refused(t, l.Reserve(t.Context(), karpv1.DisruptionReasonEmpty, claim(i)))
		if (r != nil) != (i >= 200) {
			t.Fatalf("node %d: %v", i, r)
		}
	}
}

// Drains that wait for a long time, in one NodePool, stop no disruption in another one. Those that began lately do.
func TestDrainsThatWaitStopNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		since time.Duration
		want  bool
	}{
		{"an hour ago", time.Hour, true},
		{"a minute ago", time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(201, karpv1.Budget{Nodes: "100%"})
			other := f.pools["default"].DeepCopy()
			other.Name = "jobs"
			f.pools[other.Name] = other
			for i := range 200 {
				job := claim(i)
				job.Labels, job.DeletionTimestamp = map[string]string{karpv1.NodePoolLabelKey: other.Name}, &metav1.Time{Time: time.Now().Add(-c.since)}
				f.real[i] = disruption.BudgetNodeOf(job, nil)
				f.catchUp(i)
			}
			r := refused(t, ledger(t, f).Reserve(t.Context(), karpv1.DisruptionReasonEmpty, claim(200)))
			if (r == nil) != c.want {
				t.Errorf("200 drains of another NodePool began %s, refused with %v", c.name, r)
			}
		})
	}
}

// trial is several deciders over one fleet, and how many nodes are really on their way out.
type trial struct {
	fleet  *fleet
	ledger *budget.Ledger

	mu    sync.Mutex
	out   map[int]bool
	sick  map[int]bool
	given int
}

// take takes a node for a reason, if the ledger has a place; what it counts then is the truth, and not what the cache shows.
func (tr *trial) take(t *testing.T, reason karpv1.DisruptionReason, i, most int) (*karpv1.NodeClaim, bool) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.sick[i] {
		return nil, false
	}
	tr.fleet.mu.Lock()
	c := claim(i)
	c.UID = tr.fleet.real[i].Claim
	tr.fleet.mu.Unlock()
	if refused(t, tr.ledger.Reserve(t.Context(), reason, c)) != nil {
		return c, false
	}
	tr.out[i] = true
	tr.given++
	if len(tr.out) > most {
		t.Errorf("%d nodes are on their way out when another goes for %s, of %d", len(tr.out), reason, most)
	}
	return c, true
}

// ail makes a free node fail: it is observed as not Ready, and counts, although no place was requested.
func (tr *trial) ail(i int) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.out[i] {
		return false
	}
	tr.fleet.change(i, func(n *disruption.BudgetNode) { n.Disrupted = true })
	tr.fleet.catchUp(i)
	tr.out[i], tr.sick[i] = true, true
	return true
}

// repair fails nodes and ends them as package repair does, without a place; some get well by themselves.
func (tr *trial) repair(rounds, nodes int) {
	rng := rand.New(rand.NewPCG(99, 7))
	for round := range rounds {
		i := rng.IntN(nodes)
		if !tr.ail(i) {
			continue
		}
		renew := func(n *disruption.BudgetNode) { n.Disrupted = false }
		if rng.IntN(2) == 0 {
			tr.fleet.change(i, func(n *disruption.BudgetNode) { n.Deleting = true })
			tr.fleet.catchUp(rng.IntN(nodes))
			renew = func(n *disruption.BudgetNode) {
				*n = disruption.BudgetNode{Claim: types.UID(fmt.Sprint("repaired-", round)), Pool: n.Pool, Counts: true}
			}
		}
		tr.back(i, func() {
			tr.fleet.change(i, renew)
			delete(tr.sick, i)
		})
	}
}

// back returns node i to the fleet: it was kept, or replaced.
func (tr *trial) back(i int, done func()) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.out, i)
	done()
}

// Several controllers decide concurrently, over a cache that lags by any amount: the budgets are never exceeded. Each takes nodes for its
// reason, cordons them, and deletes them or cancels; the cache receives each change at a random time. Meanwhile nodes fail and are repaired
// without a reservation: they take places from all others.
func TestBudgetsAreNeverExceeded(t *testing.T) {
	const nodes = 60
	f := newFleet(nodes, karpv1.Budget{Nodes: "15%"}, karpv1.Budget{Nodes: "4", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}})
	tr := &trial{fleet: f, ledger: ledger(t, f), out: map[int]bool{}, sick: map[int]bool{}}
	most := map[karpv1.DisruptionReason]int{karpv1.DisruptionReasonEmpty: 9, karpv1.DisruptionReasonUnderutilized: 9, karpv1.DisruptionReasonDrifted: 4}
	var work sync.WaitGroup
	work.Go(func() { tr.repair(400, nodes) })
	for d := range 6 {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(d), 7))
			maybe := func(i int) {
				if rng.IntN(2) == 0 {
					f.catchUp(i)
				}
			}
			reason := disruption.BudgetReasons()[d%3]
			for round := range 400 {
				f.catchUp(rng.IntN(nodes))
				i := rng.IntN(nodes)
				c, ok := tr.take(t, reason, i, most[reason])
				if !ok {
					continue
				}
				f.change(i, func(n *disruption.BudgetNode) { n.Disrupted = true })
				maybe(i)
				if rng.IntN(2) == 0 {
					f.change(i, func(n *disruption.BudgetNode) { n.Disrupted = false })
					maybe(i)
					tr.back(i, func() { tr.ledger.Release(c.UID) })
					continue
				}
				f.change(i, func(n *disruption.BudgetNode) { n.Deleting = true })
				maybe(i)
				tr.back(i, func() {
					f.change(i, func(n *disruption.BudgetNode) {
						*n = disruption.BudgetNode{Claim: types.UID(fmt.Sprint(c.UID, "-", d, "-", round)), Pool: n.Pool, Counts: true}
					})
				})
			}
		})
	}
	work.Wait()
	if tr.given < 100 {
		t.Errorf("only %d places were given: the case shows too little", tr.given)
	}
}

func TestNewNeedsAView(t *testing.T) {
	if _, err := budget.New(nil); err == nil {
		t.Error("no error without any way to look")
	}
}

// No place is given in a NodePool whose disruption is paused, and the refusal names the annotation.
func TestPausedPoolGivesNoPlace(t *testing.T) {
	f := newFleet(5, karpv1.Budget{Nodes: "100%"})
	l := ledger(t, f)
	f.pools["default"].Annotations = map[string]string{catalog.PausedAnnotation: "true"}
	err := refused(t, l.Reserve(t.Context(), karpv1.DisruptionReasonEmpty, claim(0)))
	if err.NodePool != "default" || !err.Closed || !strings.Contains(err.Error(), catalog.PausedAnnotation) {
		t.Errorf("refused with %v", err)
	}
	f.pools["default"].Annotations = nil
	if err := l.Reserve(t.Context(), karpv1.DisruptionReasonEmpty, claim(0)); err != nil {
		t.Error(err)
	}
}

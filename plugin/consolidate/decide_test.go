package consolidate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// toy is a cluster of one resource: a node of size n has room for n units and costs n hundredths of a dollar, a pod named
// UNITS-NUMBER asks for as many units.
type toy struct {
	fleet []consolidate.Node
	asked int
}

func units(pod string) (n int) {
	_, _ = fmt.Sscanf(pod, "%d-", &n)
	return n
}

func offer(size int) consolidate.Offer {
	return consolidate.Offer{NodePool: "pool", InstanceType: fmt.Sprintf("%d", size), Zone: "a", CapacityType: "on-demand", Price: float64(size) / 100}
}

func sizeOf(o consolidate.Offer) (n int) {
	_, _ = fmt.Sscanf(o.InstanceType, "%d", &n)
	return n
}

// randomToy has nodes of 4, 8 and 16 units, filled at random.
func randomToy(rng *rand.Rand, nodes int) *toy {
	t := &toy{}
	for i := range nodes {
		size := []int{4, 8, 16}[rng.IntN(3)]
		n := consolidate.Node{Offer: offer(size), Name: fmt.Sprintf("n%02d", i), Policy: consolidate.WhenEmptyOrUnderutilized}
		if rng.IntN(8) == 0 {
			n.Blocked = "do-not-disrupt"
		}
		used := 0
		for p := 0; rng.IntN(4) > 0; p++ {
			need := 1 + rng.IntN(3)
			if used+need > size {
				break
			}
			used += need
			n.Pods = append(n.Pods, consolidate.Pod{Name: fmt.Sprintf("%d-%s-%d", need, n.Name, p), Weight: 1})
		}
		n.Used = float64(used) / float64(size)
		t.fleet = append(t.fleet, n)
	}
	return t
}

// ask is first-fit decreasing, into what is free and then into new nodes of 8 and 4.
func (t *toy) ask(_ context.Context, gone, avoid []string) (consolidate.Answer, error) {
	t.asked++
	out := consolidate.Answer{Existing: map[string]string{}, Unplaced: map[string]string{}}
	free := map[string]int{}
	var stay, pods []string
	for _, n := range t.fleet {
		if slices.Contains(gone, n.Name) {
			for _, p := range n.Pods {
				pods = append(pods, p.Name)
			}
			continue
		}
		if slices.Contains(avoid, n.Name) {
			continue
		}
		stay = append(stay, n.Name)
		free[n.Name] = sizeOf(n.Offer)
		for _, p := range n.Pods {
			free[n.Name] -= units(p.Name)
		}
	}
	slices.SortFunc(pods, func(a, b string) int { return -strings.Compare(a, b) })
	var bought []int // what is free in each
	for _, p := range pods {
		need := units(p)
		if i := slices.IndexFunc(stay, func(name string) bool { return free[name] >= need }); i >= 0 {
			free[stay[i]] -= need
			out.Existing[p] = stay[i]
			continue
		}
		i := slices.IndexFunc(bought, func(room int) bool { return room >= need })
		if i < 0 {
			i = len(bought)
			bought = append(bought, 8)
			out.Replacements = append(out.Replacements, consolidate.Replacement{Name: fmt.Sprintf("new%d-%d", t.asked, i), Offer: offer(8)})
		}
		bought[i] -= need
		out.Replacements[i].Pods = append(out.Replacements[i].Pods, p)
	}
	for i, room := range bought {
		if room >= 4 {
			out.Replacements[i].Offer = offer(4)
		}
	}
	return out, nil
}

// apply makes the moves.
func (t *toy) apply(moves []consolidate.Move) {
	for _, m := range moves {
		at := map[string][]consolidate.Pod{}
		for _, n := range m.Nodes {
			t.fleet = slices.DeleteFunc(t.fleet, func(o consolidate.Node) bool { return o.Name == n.Name })
			for _, p := range n.Pods {
				at[m.Targets[p.Name]] = append(at[m.Targets[p.Name]], p)
			}
		}
		for _, r := range m.Replacements {
			t.fleet = append(t.fleet, consolidate.Node{Offer: r.Offer, Name: r.Name, Policy: consolidate.WhenEmptyOrUnderutilized})
		}
		for i := range t.fleet {
			n := &t.fleet[i]
			n.Pods = append(n.Pods, at[n.Name]...)
			used := 0
			for _, p := range n.Pods {
				used += units(p.Name)
			}
			n.Used = float64(used) / float64(sizeOf(n.Offer))
		}
	}
}

func (t *toy) bill() (sum float64, pods int) {
	for _, n := range t.fleet {
		sum += n.Price
		pods += len(n.Pods)
	}
	return sum, pods
}

// Whatever the fleet: blocked nodes stay, budgets hold, each move pays back in time, the bill falls by what was promised,
// no pod is lost, and after some rounds there is nothing left to do: it never goes round in circles.
func TestDecideKeepsItsPromises(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		world := randomToy(rng, 2+rng.IntN(20))
		o := consolidate.DefaultOptions()
		o.EvictionCost = 0.001
		o.Allowed = map[string]consolidate.Allowance{"pool": {Empty: 1 + rng.IntN(4), Underutilized: 1 + rng.IntN(4)}}
		rounds := 0
		for ; ; rounds++ {
			asked := world.asked
			before, pods := world.bill()
			d, err := consolidate.Decide(t.Context(), world.fleet, o, world.ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Moves) == 0 {
				break
			}
			promised := checkMoves(t, d, o)
			if world.asked-asked != d.Questions || d.Questions > o.Questions {
				t.Errorf("seed %d: %d questions, %d counted, %d allowed", seed, world.asked-asked, d.Questions, o.Questions)
			}
			world.apply(d.Moves)
			after, still := world.bill()
			if diff := before - after - promised; diff > 1e-9 || diff < -1e-9 || still != pods {
				t.Fatalf("seed %d: the bill fell from %v to %v, %v was promised; %d pods, then %d", seed, before, after, promised, pods, still)
			}
			if rounds > 40 {
				t.Fatalf("seed %d: no end after %d rounds", seed, rounds)
			}
		}
	}
}

func checkMoves(t *testing.T, d consolidate.Decision, o consolidate.Options) (promised float64) {
	t.Helper()
	gone, empty := 0, 0
	for i := range d.Moves {
		m := &d.Moves[i]
		promised += m.Saving
		gone += len(m.Nodes)
		if len(m.Targets) == 0 {
			empty++
		}
		if m.Saving < o.MinSaving && len(m.Targets) > 0 || m.Payback() > o.Payback {
			t.Errorf("a move saves %v and pays back after %v", m.Saving, m.Payback())
		}
		for _, n := range m.Nodes {
			if n.Blocked != "" {
				t.Errorf("node %s goes, which is blocked", n.Name)
			}
			for _, p := range n.Pods {
				if m.Targets[p.Name] == "" {
					t.Errorf("pod %s has nowhere to go", p.Name)
				}
			}
		}
	}
	limit := o.Allowed["pool"]
	if empty > limit.Empty || gone > max(limit.Empty, limit.Underutilized) {
		t.Errorf("%d nodes go, %d of them empty; allowed is %+v", gone, empty, limit)
	}
	return promised
}

// Three nodes are worth giving up, one may go at a time: their pods move to where they stay, not onto the one that goes next.
func TestPodsMoveOnce(t *testing.T) {
	node := func(name string, size, pods int, blocked string) consolidate.Node {
		n := consolidate.Node{Offer: offer(size), Name: name, Policy: consolidate.WhenEmptyOrUnderutilized, Blocked: blocked}
		for i := range pods {
			n.Pods = append(n.Pods, consolidate.Pod{Name: fmt.Sprintf("1-%s-%d", name, i), Weight: 1})
		}
		n.Used = float64(pods) / float64(size)
		return n
	}
	world := &toy{fleet: []consolidate.Node{node("a", 8, 1, ""), node("b", 8, 1, ""), node("c", 8, 1, ""), node("d", 16, 10, "a pod may not be disrupted")}}
	o := consolidate.DefaultOptions()
	o.Allowed = map[string]consolidate.Allowance{"pool": {Empty: 1, Underutilized: 1}}
	evictions := map[string]int{}
	for range 3 {
		d, err := consolidate.Decide(t.Context(), world.fleet, o, world.ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range d.Moves {
			for pod := range m.Targets {
				evictions[pod]++
			}
		}
		world.apply(d.Moves)
	}
	if diff := cmp.Diff(map[string]int{"1-a-0": 1, "1-b-0": 1, "1-c-0": 1}, evictions); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	if bill, pods := world.bill(); bill != 0.16 || pods != 13 {
		t.Errorf("%d pods on nodes for %v USD/h are left, want 13 on one for 0.16", pods, bill)
	}
}

// The same fleet has the same decision.
func TestDecideIsDeterministic(t *testing.T) {
	decide := func() consolidate.Decision {
		d, err := consolidate.Decide(t.Context(), randomToy(rand.New(rand.NewPCG(7, 7)), 30).fleet, consolidate.DefaultOptions(),
			randomToy(rand.New(rand.NewPCG(7, 7)), 30).ask)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if diff := cmp.Diff(decide(), decide()); diff != "" {
		t.Error(diff)
	}
}

// A move that saves next to nothing pays back later than any that counts, one that costs nothing does at once.
func TestPayback(t *testing.T) {
	for _, c := range []struct {
		saving, cost float64
		want         time.Duration
	}{{1, 0, 0}, {0.5, 0.25, 30 * time.Minute}, {0.1, 0.4, 4 * time.Hour}, {1e-17, 0.4, 100 * 365 * 24 * time.Hour}, {0, 0.4, 100 * 365 * 24 * time.Hour}} {
		m := consolidate.Move{Saving: c.saving, Cost: c.cost}
		if got := m.Payback().Round(time.Second); got != c.want {
			t.Errorf("a saving of %v USD/h pays %v USD back after %v, want %v", c.saving, c.cost, got, c.want)
		}
	}
}

// Nodes whose pods take too long to plan stay, and are not asked about again in the decision; the others are.
func TestNodesThatTakeTooLong(t *testing.T) {
	toy := &toy{}
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		toy.fleet = append(toy.fleet, consolidate.Node{
			Offer: offer(16), Name: name, Policy: consolidate.WhenEmptyOrUnderutilized, Used: 1.0 / 16,
			Pods: []consolidate.Pod{{Name: "1-" + name, Weight: 1}},
		})
	}
	asked := 0
	decision, err := consolidate.Decide(t.Context(), toy.fleet, consolidate.DefaultOptions(), func(ctx context.Context, gone, avoid []string) (consolidate.Answer, error) {
		answer, err := toy.ask(ctx, gone, avoid)
		if slices.Contains(gone, "n2") {
			asked++
			answer.CutShort = true
			answer.Unplaced["1-n2"] = "planning ran out of time"
			delete(answer.Existing, "1-n2")
		}
		return answer, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked != 1 {
		t.Errorf("the node was asked about %d times, want once", asked)
	}
	if !slices.ContainsFunc(decision.Kept, func(k consolidate.Kept) bool {
		return k.Node == "n2" && strings.Contains(k.Reason, "takes longer than a question may")
	}) {
		t.Errorf("kept %v, want n2 with the reason", decision.Kept)
	}
	if len(decision.Moves) == 0 {
		t.Error("the other nodes were not given up")
	}
}

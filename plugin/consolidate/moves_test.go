package consolidate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// shrunk has spot nodes of 16 units with so many pods of one unit each. As spot nodes they are not replaced by others.
func shrunk(pods ...int) *toy {
	t := &toy{}
	for i, n := range pods {
		of := offer(16)
		of.InstanceType, of.CapacityType = "16", "spot"
		node := consolidate.Node{Offer: of, Name: fmt.Sprintf("n%02d", i), Policy: consolidate.WhenEmptyOrUnderutilized, Used: float64(n) / 16}
		for p := range n {
			node.Pods = append(node.Pods, consolidate.Pod{Name: fmt.Sprintf("1-%s-%d", node.Name, p), Weight: 1})
		}
		t.fleet = append(t.fleet, node)
	}
	return t
}

// askSpot is ask on spot nodes.
func (t *toy) askSpot(ctx context.Context, gone, avoid []string) (consolidate.Answer, error) {
	out, err := t.ask(ctx, gone, avoid)
	for i := range out.Replacements {
		out.Replacements[i].CapacityType = "spot"
	}
	return out, err
}

// goes are the nodes that a decision removes, and how many pods move for that.
func goes(d consolidate.Decision) (names []string, evictions int) {
	for _, m := range d.Moves {
		for _, n := range m.Nodes {
			names = append(names, n.Name)
		}
		evictions += len(m.Targets)
	}
	slices.Sort(names)
	return names, evictions
}

// A fleet that was scaled in shrinks in one decision to the fewest nodes that hold its pods, those that had the most.
func TestDecideFindsTheEndAtOnce(t *testing.T) {
	world := shrunk(9, 3, 5, 8, 4, 6, 2, 7, 4, 5, 1, 6, 3, 5) // 68 pods: five nodes hold them.
	o := consolidate.DefaultOptions()
	o.EvictionCost = 0.0001
	d, err := consolidate.Decide(t.Context(), world.fleet, o, world.askSpot)
	if err != nil {
		t.Fatal(err)
	}
	names, evictions := goes(d)
	if least := 68 - (9 + 8 + 7 + 6 + 6); len(names) != 9 || evictions > least+2 {
		t.Errorf("%d nodes go (%v) with %d evictions, want 9 with %d or so", len(names), names, evictions, least)
	}
}

// Nodes whose pods have just gone do not go in this decision. It counts on them: pods move to nodes that stay, and a node that stays in the end is left
// alone until it is known which others do. Where pods go on leaving the nodes that stay, others wait for the end of it.
func TestDecideCountsOnNodesThatGoSoon(t *testing.T) {
	world := shrunk(9, 3, 8, 2, 4, 2)
	soon := func(names ...string) {
		for i := range world.fleet {
			n := &world.fleet[i]
			if n.Soon = slices.Contains(names, n.Name); n.Soon {
				n.Blocked = "a pod left"
			}
		}
	}
	soon("n03", "n04", "n05")
	o := consolidate.DefaultOptions()
	o.EvictionCost = 0.0001
	d, err := consolidate.Decide(t.Context(), world.fleet, o, world.askSpot)
	if err != nil {
		t.Fatal(err)
	}
	names, _ := goes(d)
	if !slices.Equal(names, []string{"n01"}) {
		t.Errorf("%v go, want n01 alone", names)
	}
	for _, m := range d.Moves {
		for pod, to := range m.Targets {
			if to != "n00" && to != "n02" {
				t.Errorf("pod %s moves to node %s, which goes next", pod, to)
			}
		}
	}
	world = shrunk(9, 3, 8, 2, 4, 2)
	soon("n00", "n02", "n03", "n04", "n05")
	if d, err = consolidate.Decide(t.Context(), world.fleet, o, world.askSpot); err != nil {
		t.Fatal(err)
	}
	if names, _ := goes(d); len(names) > 0 {
		t.Errorf("%v go, to nodes that pods leave", names)
	}
	world = shrunk(9, 3, 8, 2, 4, 2)
	soon("n01", "n03", "n04", "n05")
	if d, err = consolidate.Decide(t.Context(), world.fleet, o, world.askSpot); err != nil {
		t.Fatal(err)
	}
	if names, _ := goes(d); len(names) > 0 {
		t.Errorf("%v go, of the nodes that stay in the end", names)
	}
	if i := slices.IndexFunc(d.Kept, func(k consolidate.Kept) bool { return k.Node == "n01" && k.Reason == "a pod left" }); i < 0 {
		t.Errorf("the reason of a node that goes soon is lost: %+v", d.Kept)
	}
}

package consolidate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	for name, c := range map[string]struct {
		soon, goes []string
		// kept is a node that stays, with its reason.
		kept, reason string
	}{
		"the nodes that stay are quiet":    {[]string{"n03", "n04", "n05"}, []string{"n01"}, "n03", "a pod left"},
		"pods leave the nodes that stay":   {[]string{"n00", "n02", "n03", "n04", "n05"}, nil, "n01", "pods come to or leave"},
		"pods leave the nodes that may go": {[]string{"n01", "n03", "n04", "n05"}, nil, "n01", "a pod left"},
	} {
		t.Run(name, func(t *testing.T) {
			world := shrunk(9, 3, 8, 2, 4, 2)
			for i := range world.fleet {
				if n := &world.fleet[i]; slices.Contains(c.soon, n.Name) {
					n.Soon, n.Blocked = true, "a pod left"
				}
			}
			o := consolidate.DefaultOptions()
			o.EvictionCost = 0.0001
			d, err := consolidate.Decide(t.Context(), world.fleet, o, world.askSpot)
			if err != nil {
				t.Fatal(err)
			}
			if names, _ := goes(d); !slices.Equal(names, c.goes) {
				t.Errorf("%v go, want %v", names, c.goes)
			}
			if !slices.ContainsFunc(d.Kept, func(k consolidate.Kept) bool { return k.Node == c.kept && strings.Contains(k.Reason, c.reason) }) {
				t.Errorf("%s is not kept because %s: %+v", c.kept, c.reason, d.Kept)
			}
			for _, m := range d.Moves {
				for pod, to := range m.Targets {
					if to != "n00" && to != "n02" {
						t.Errorf("pod %s moves to node %s, which goes next", pod, to)
					}
				}
			}
		})
	}
}

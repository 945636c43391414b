package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

const (
	// maxRows is how many rows of nodes the page has.
	maxRows = 300
	// fewNodes is up to how many nodes a table lists one by one; of more, each group has its first nodes, and a sum of the others.
	fewNodes = 40
	// firstNodes is how many of a group's nodes are listed then.
	firstNodes = 3
)

// alike is nodes of one instance type, zone and capacity type.
type alike struct {
	simulate.NodeUse
	nodes []simulate.NodeUse
}

// groups puts nodes that are alike together, the most expensive group first.
func groups(nodes []simulate.NodeUse) []alike {
	type key struct{ instanceType, zone, capacityType, covered string }
	at := map[key]int{}
	var out []alike
	for _, n := range nodes {
		k := key{n.InstanceType, n.Zone, n.CapacityType, n.CoveredBy}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, alike{NodeUse: simulate.NodeUse{
				NodePool: n.NodePool, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType, CoveredBy: n.CoveredBy,
			}})
		}
		g := &out[i]
		g.nodes = append(g.nodes, n)
		g.NodeUse = plus(g.NodeUse, n)
	}
	slices.SortStableFunc(out, func(a, b alike) int {
		return cmp.Or(cmp.Compare(b.Price, a.Price), strings.Compare(a.InstanceType, b.InstanceType), strings.Compare(a.Zone, b.Zone),
			strings.Compare(a.CapacityType, b.CapacityType), strings.Compare(a.CoveredBy, b.CoveredBy))
	})
	return out
}

// plus adds price, use and pods of a node to a sum.
func plus(sum, n simulate.NodeUse) simulate.NodeUse {
	sum.Price, sum.Cost = sum.Price+n.Price, sum.Cost.Plus(n.Cost)
	sum.CPU, sum.Memory = sum.CPU.Plus(n.CPU), sum.Memory.Plus(n.Memory)
	sum.Pods = append(sum.Pods, n.Pods...)
	return sum
}

// total is the sum of nodes.
func total(nodes []simulate.NodeUse) simulate.NodeUse {
	var out simulate.NodeUse
	for _, n := range nodes {
		out = plus(out, n)
	}
	return out
}

// unpriced counts nodes without a known price.
func unpriced(nodes []simulate.NodeUse) int {
	out := 0
	for i := range nodes {
		if nodes[i].Price == 0 {
			out++
		}
	}
	return out
}

// byPool sorts nodes into their NodePools, by name.
func byPool(nodes []simulate.NodeUse) (names []string, of map[string][]simulate.NodeUse) {
	of = map[string][]simulate.NodeUse{}
	for _, n := range nodes {
		if of[n.NodePool] == nil {
			names = append(names, n.NodePool)
		}
		of[n.NodePool] = append(of[n.NodePool], n)
	}
	slices.Sort(names)
	return names, of
}

// rows counts the rows of nodes that the page may still have.
type rows struct {
	left   int
	owners map[string]string
}

// sign is what a row says of what happens to its nodes.
type sign struct{ text, class string }

// list returns the rows of nodes: one by one where they are few, and groups of nodes that are alike otherwise.
func (r *rows) list(nodes []simulate.NodeUse, s sign) []nodeRow {
	var out []nodeRow
	few := len(nodes) <= fewNodes
	all := groups(nodes)
	for i, g := range all {
		shown := len(g.nodes)
		if !few && shown > firstNodes+1 {
			shown = firstNodes
		}
		if shown+2 > r.left {
			out = append(out, r.rest(all[i:], s))
			r.left--
			return out
		}
		for _, n := range g.nodes[:shown] {
			out = append(out, r.row(n, s))
		}
		r.left -= shown
		if more := g.nodes[shown:]; len(more) > 0 {
			sum := total(more)
			sum.NodePool, sum.InstanceType, sum.Zone, sum.CapacityType, sum.CoveredBy = g.NodePool, g.InstanceType, g.Zone, g.CapacityType, g.CoveredBy
			row := r.row(sum, s)
			row.Sum, row.Name = true, fmt.Sprintf("and %s more like it", number(len(more)))
			row.unknown(len(more), unpriced(more))
			out = append(out, row)
			r.left--
		}
	}
	return out
}

// rest is the sum of groups for which the page has no rows.
func (r *rows) rest(of []alike, s sign) nodeRow {
	var sum simulate.NodeUse
	n, without := 0, 0
	for _, g := range of {
		sum = plus(sum, g.NodeUse)
		n += len(g.nodes)
		without += unpriced(g.nodes)
	}
	sum.InstanceType = count(len(of), "combination") + " of type, zone and capacity"
	row := r.row(sum, s)
	row.Sum, row.Name = true, fmt.Sprintf("and %s more", number(n))
	row.unknown(n, without)
	return row
}

// unknown marks the price of a sum in which some nodes have no known price.
func (n *nodeRow) unknown(nodes, without int) {
	if without > 0 && without < nodes {
		n.Price += fmt.Sprintf(" for %s of them", number(nodes-without))
	}
}

// row is one node.
func (r *rows) row(n simulate.NodeUse, s sign) nodeRow {
	out := nodeRow{
		Sign: s.text, Class: s.class, Name: name(n.Name), Pool: name(n.NodePool), Type: name(n.InstanceType), Zone: name(n.Zone), Capacity: name(capacity(n)),
		Pods: len(n.Pods), Workloads: workloads(n.Pods, r.owners), CPU: cpuUse(n.CPU), Memory: memoryUse(n.Memory),
		Price: usd(n.Price, n.Price > 0), Parts: parts(n.Cost),
	}
	if n.InFlight {
		out.Name += " (in flight)"
	}
	return out
}

// capacity is the capacity type and what pays for it.
func capacity(n simulate.NodeUse) string {
	if n.CoveredBy == "" {
		return n.CapacityType
	}
	return n.CapacityType + " (" + n.CoveredBy + ")"
}

// parts writes the parts of a price, empty where there is no other than the instance.
func parts(c catalog.Cost) string {
	if c.Total() <= c.Instance {
		return ""
	}
	return c.String()
}

// pools compares the NodePools of the nodes before and after.
func pools(before, after []simulate.NodeUse) poolTable {
	_, was := byPool(before)
	_, then := byPool(after)
	names, _ := byPool(slices.Concat(before, after))
	var out poolTable
	if more := len(names) - maxPools; more > 0 {
		names, out.More = names[:maxPools], fmt.Sprintf("and %s more NodePools: -o json lists all nodes", number(more))
	}
	for _, of := range names {
		a, b := total(was[of]), total(then[of])
		row := poolRow{
			Name: name(of), Nodes: len(was[of]), NodesThen: len(then[of]), CPU: cpuUse(a.CPU), Memory: memoryUse(a.Memory),
			CPUThen: cpuUse(b.CPU), MemoryThen: memoryUse(b.Memory),
			Cost: usd(a.Price, a.Price > 0 || len(was[of]) == 0), CostThen: usd(b.Price, b.Price > 0 || len(then[of]) == 0),
		}
		if n := row.NodesThen - row.Nodes; n != 0 {
			row.NodesChange = fmt.Sprintf("%+d", n)
		}
		if d := b.Price - a.Price; d > 0.00005 || d < -0.00005 {
			row.CostChange = fmt.Sprintf("%+.4f", d)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// maxPools is how many NodePools are listed.
const maxPools = 100

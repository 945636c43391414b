package top

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// columns are the widths of the columns of nodes; 0 for one that is not shown.
type columns struct {
	node, pool, kind, zone, capacity, price, bar, pods, state, age int
	region                                                         string
	now                                                            time.Time
}

// newColumns fits the columns to what they hold and to the width of the screen: bars take what the others leave.
func newColumns(items []item, now *view.Overview, width int) columns {
	c := columns{node: 4, pool: 8, kind: 4, zone: 2, capacity: 3, price: 5, pods: 4, state: 5, age: 3, now: now.Now}
	c.region = now.Region()
	widen := func(to *int, s string, most int) { *to = min(max(*to, ansi.StringWidth(s)), most) }
	for _, it := range items {
		n := it.node
		widen(&c.node, quoted(n.NodeClaim), 24)
		widen(&c.pool, quoted(n.NodePool), 20)
		widen(&c.kind, quoted(n.InstanceType), 18)
		widen(&c.zone, quoted(strings.TrimPrefix(n.Zone, c.region)), 12)
		widen(&c.capacity, quoted(n.CapacityType), 14)
		widen(&c.price, n.PriceText(), 10)
		widen(&c.pods, n.PodsText(), 9)
		widen(&c.state, string(n.State), 11)
		widen(&c.age, age(c.now, n.Created), 4)
	}
	// What 80 columns leave out, in this order.
	for _, shrink := range []func(){
		func() { c.pool = 0 }, func() { c.capacity = min(c.capacity, 6) }, func() { c.zone = min(c.zone, 5) }, func() { c.state = min(c.state, 8) },
		func() { c.node = min(c.node, 14) }, func() { c.kind = min(c.kind, 12) }, func() { c.node = min(c.node, 10) },
	} {
		if c.room(width) >= 2*(leastBar+5) {
			break
		}
		shrink()
	}
	c.bar = max(min(c.room(width)/2-5, 20), 0)
	return c
}

// leastBar is how wide a bar is wanted.
const leastBar = 3

// room returns how many cells the two bars may have.
func (c *columns) room(width int) int {
	n, used := 2, 1
	for _, w := range []int{c.node, c.pool, c.kind, c.zone, c.capacity, c.price, c.pods, c.state, c.age} {
		if w > 0 {
			n, used = n+1, used+w
		}
	}
	return width - used - (n - 1)
}

func (c *columns) header() string {
	return c.join("NODE", "NODEPOOL", "TYPE", "AZ", "CAP", "USD/H", pad("CPU", c.bar+5), pad("MEM", c.bar+5), "PODS", "STATE", "AGE")
}

// line is the row of a node.
func (c *columns) line(s style, n *view.NodeRow) string {
	return c.join(tail(quoted(n.NodeClaim), c.node), dash(n.NodePool), dash(n.InstanceType), tail(dash(strings.TrimPrefix(n.Zone, c.region)), c.zone), dash(n.CapacityType),
		n.PriceText(), s.bar(n.CPU, c.bar), s.bar(n.Memory, c.bar), n.PodsText(), string(n.State), age(c.now, n.Created))
}

// join puts the cells of a row together.
func (c *columns) join(cells ...string) string {
	widths := []int{c.node, c.pool, c.kind, c.zone, c.capacity, c.price, c.bar + 5, c.bar + 5, c.pods, c.state, c.age}
	var out []string
	for i, cell := range cells {
		if widths[i] > 0 {
			out = append(out, pad(cut(cell, widths[i]), widths[i]))
		}
	}
	return strings.TrimRight(strings.Join(out, " "), " ")
}

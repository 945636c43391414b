package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// cluster is the screen of all nodes, and of what is wrong.
type cluster struct {
	// now is what was read last.
	now *view.Overview
	// failed is why the last Load ended in an error; nil after one that did not.
	failed error
	cursor cursor
	// nodes and below are what is shown of the nodes and of the lines below them.
	nodes, below part
	by           order
	reverse      bool
	filter       string
	typing       bool
}

// order is what nodes are sorted by, an index into orders.
type order int

// ordering is one order of nodes.
type ordering struct {
	key, name string
	less      func(a, b *view.NodeRow) int
}

// orders are the orders of nodes, that of the beginning first. Numbers begin with the largest.
func orders() []ordering {
	share := func(s *float64) float64 {
		if s == nil {
			return -1
		}
		return *s
	}
	return []ordering{
		{"n", "name", func(a, b *view.NodeRow) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) }},
		{"c", "CPU", func(a, b *view.NodeRow) int { return cmp.Compare(share(b.CPU), share(a.CPU)) }},
		{"m", "memory", func(a, b *view.NodeRow) int { return cmp.Compare(share(b.Memory), share(a.Memory)) }},
		{"p", "price", func(a, b *view.NodeRow) int { return cmp.Compare(b.Price, a.Price) }},
		{"a", "age", func(a, b *view.NodeRow) int { return a.Created.Compare(b.Created) }},
		{"t", "type", func(a, b *view.NodeRow) int { return cmp.Compare(a.InstanceType, b.InstanceType) }},
		{"z", "zone", func(a, b *view.NodeRow) int { return cmp.Compare(a.Zone, b.Zone) }},
		{"o", "NodePool", func(a, b *view.NodeRow) int { return cmp.Compare(a.NodePool, b.NodePool) }},
		{"s", "state", func(a, b *view.NodeRow) int { return cmp.Compare(a.State, b.State) }},
	}
}

// item is a row of the cluster that can be selected: a node, or a line below the nodes.
type item struct {
	key  string
	node *view.NodeRow
	// pod is one of the pods of the line; empty for lines that are about none.
	pod string
	// title and line are what the line says.
	title, line string
}

func keysOf(items []item) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = items[i].key
	}
	return out
}

// items are the rows that pass the filter: nodes in their order, then pending pods, NodePools that are not ready, and launches that fail.
func (c *cluster) items() []item {
	var out []item
	o := c.now
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if c.matches(strings.Join([]string{n.NodeClaim, n.Node, n.NodePool, n.InstanceType, n.Zone, n.CapacityType, string(n.State), n.Why}, " ")) {
			out = append(out, item{key: "node/" + n.NodeClaim, node: n})
		}
	}
	by := orders()[c.by]
	slices.SortStableFunc(out, func(a, b item) int {
		if c.reverse {
			return by.less(b.node, a.node)
		}
		return by.less(a.node, b.node)
	})
	add := func(it item) {
		if c.matches(it.line) {
			out = append(out, it)
		}
	}
	for _, p := range o.Pending {
		add(item{
			key: "pending/" + p.Namespace + "/" + p.Owner + "/" + p.Why, pod: p.Namespace + "/" + p.Pod,
			line: fmt.Sprintf("%d of %s/%s for %s: %s", p.Count, p.Namespace, p.Owner, age(o.Now, p.Since), cmp.Or(p.Why, "not planned yet")),
		})
	}
	if len(o.Paused) > 0 {
		add(item{key: "paused", title: "Disruption", line: o.PauseText()})
	}
	for _, p := range o.NotReady {
		add(item{key: "pool/" + p.NodePool, title: "NodePool " + p.NodePool, line: fmt.Sprintf("NodePool %s is not ready: %s", p.NodePool, p.Message)})
	}
	for _, t := range o.Troubles {
		add(item{key: "trouble/" + t.Reason + "/" + t.Message, title: "Launches", line: t.Text(o.Now)})
	}
	return out
}

// clusterLines are the bill, the nodes, and what is wrong.
func (c *cluster) lines(s style) []string {
	items := c.items()
	at := c.cursor.in(keysOf(items))
	n := 0
	for n < len(items) && items[n].node != nil {
		n++
	}
	free, below := s.height-headLines-1, 0
	if len(items) > n {
		// The lines below have a third of the screen, or what the nodes leave of it.
		below = min(len(items)-n+1, max(free/3, free-n))
	}
	from, to := c.nodes.of(&c.cursor, min(at, n-1), free-below, n)
	head := c.head(s)
	hidden := ""
	if to-from < n {
		hidden = fmt.Sprintf("   nodes %d to %d of %d", from+1, to, n)
	}
	head = append(head, c.sorted(s)+hidden)
	cells := newColumns(items[:n], c.now, s.width)
	head = append(head, s.bold(cut(" "+cells.header(), s.width)))
	var body []string
	c.cursor.shown = map[int]string{}
	for i := from; i < to; i++ {
		c.cursor.shown[len(head)+len(body)] = items[i].key
		body = append(body, s.row(cells.line(s, items[i].node), i == at))
	}
	if below > 0 {
		body = append(body, s.bold("Pending pods and problems"))
		from, to := c.below.of(&c.cursor, max(at-n, 0), below-1, len(items)-n)
		for i := n + from; i < n+to; i++ {
			c.cursor.shown[len(head)+len(body)] = items[i].key
			body = append(body, s.row(s.color(cut(quoted(items[i].line), s.width-1), sgrYellow), i == at))
		}
	}
	return s.page(head, body, "enter open   / filter   c m p a n sort   ? help   q quit")
}

// headLines are those above the nodes: the bill, the sums, the order, the names of the columns.
const headLines = 4

// head is the bill, and the sums over all nodes.
func (c *cluster) head(s style) []string {
	o := c.now
	first := fmt.Sprintf("%s  %s  %s USD/h", o.Now.Format(time.TimeOnly), catalog.CountText(o.Launched, "node"), catalog.USD(o.CostPerHour))
	if o.CostPerHour > 0 {
		first += fmt.Sprintf("  %.0f/month  %.0f%% spot", o.CostPerHour*catalog.HoursPerMonth, 100*o.SpotShare)
	}
	if o.Unpriced > 0 {
		first += fmt.Sprintf("  %d unpriced", o.Unpriced)
	}
	if n := len(o.Nodes) - o.Launched; n > 0 {
		first += fmt.Sprintf("  +%d not launched", n)
	}
	if o.Others > 0 {
		first += "  +" + catalog.CountText(o.Others, "other")
	}
	width := max(min((s.width-70)/2, 20), 5)
	p := o.Pods
	pending := fmt.Sprintf("%d pending", p.Pending)
	if p.Pending > 0 {
		pending = s.color(pending, sgrYellow)
	}
	second := fmt.Sprintf("CPU %s  MEM %s  %s %d promised %d bound %d running",
		strings.TrimRight(s.bar(o.CPU, width), " "), strings.TrimRight(s.bar(o.Memory, width), " "), pending, p.Promised, p.Bound, p.Running)
	return []string{s.bold("slipway") + "  " + first, second}
}

// sorted is the line about order and filter, or about a failure.
func (c *cluster) sorted(s style) string {
	if c.failed != nil {
		return s.color("Not read since then: "+quoted(c.failed.Error()), sgrRed)
	}
	by := orders()[c.by]
	out := "Sorted by " + by.name
	if c.reverse {
		out += ", the other way around"
	}
	switch {
	case c.typing:
		out += "   Filter: " + quoted(c.filter) + "_"
	case c.filter != "":
		out += "   Filter: " + quoted(c.filter) + " (esc clears it)"
	}
	return s.faint(out)
}

// sort orders the nodes by the column of a key; the same key again turns the order around.
func (c *cluster) sort(key string) {
	for by, o := range orders() {
		if o.key == key {
			c.reverse = order(by) == c.by && !c.reverse
			c.by = order(by)
		}
	}
}

// matches reports whether a row has all words of the filter.
func (c *cluster) matches(row string) bool {
	row = strings.ToLower(row)
	for word := range strings.FieldsSeq(strings.ToLower(c.filter)) {
		if !strings.Contains(row, word) {
			return false
		}
	}
	return true
}

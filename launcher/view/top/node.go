package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// node is the screen of one node and its pods.
type node struct {
	// claim is the name of its NodeClaim.
	claim  string
	cursor cursor
	// shown is what is shown of its pods.
	shown part
}

// row returns the node; nil if it is no more.
func (o *node) row(now *Snapshot) *view.NodeRow {
	i := slices.IndexFunc(now.Overview.Nodes, func(n view.NodeRow) bool { return n.NodeClaim == o.claim })
	if i < 0 {
		return nil
	}
	return &now.Overview.Nodes[i]
}

// pods are the pods of the node.
func (o *node) pods(now *Snapshot) []view.PodRow {
	if n := o.row(now); n != nil {
		return view.PodsOf(now.Objects, *n)
	}
	return nil
}

func podKeys(pods []view.PodRow) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Namespace + "/" + p.Name
	}
	return out
}

// lines are the node and its pods.
func (o *node) lines(s style, now *Snapshot) []string {
	const keys = "enter why   esc back   ↑↓ select   q quit"
	n := o.row(now)
	if n == nil {
		return s.page([]string{s.bold("NodeClaim " + quoted(o.claim)), "", "It is deleted."}, nil, keys)
	}
	pods := o.pods(now)
	names := podKeys(pods)
	at := o.cursor.in(names)
	head := nodeHead(s, n, now.Overview.Now)
	wide := 3
	for _, name := range names {
		wide = max(wide, ansi.StringWidth(quoted(name)))
	}
	const others = 2 + 12 + 8 + 10 + 5 // The columns behind the name, and the mark before it.
	wide = max(min(wide, s.width-others), 10)
	from, to := o.shown.of(&o.cursor, at, s.height-len(head)-2, len(pods))
	hidden := ""
	if to-from < len(pods) {
		hidden = fmt.Sprintf("   pods %d to %d of %d", from+1, to, len(pods))
	}
	head = append(head, s.bold(" "+pad("POD", wide)+" "+pad("STATE", 11)+" "+left("CPU", 7)+" "+left("MEMORY", 9)+" "+left("AGE", 4))+hidden)
	var body []string
	o.cursor.shown = map[int]string{}
	for i := from; i < to; i++ {
		o.cursor.shown[len(head)+len(body)] = names[i]
		p := &pods[i]
		line := pad(tail(quoted(names[i]), wide), wide) + " " + pad(p.State, 11) + " " + left(cores(p.MilliCPU), 7) + " " + left(mebibytes(p.Bytes), 9) + " " +
			left(age(now.Overview.Now, p.Created), 4)
		body = append(body, s.row(line, i == at))
	}
	if len(pods) == 0 {
		body = append(body, " No pods.")
	}
	return s.page(head, body, keys)
}

// nodeHead describes a node.
func nodeHead(s style, n *view.NodeRow, now time.Time) []string {
	first := s.bold("NodeClaim "+quoted(n.NodeClaim)) + "  " + n.StateText(now)
	if n.Why != "" {
		first += ": " + quoted(n.Why)
	}
	if !n.Created.IsZero() {
		first += "  created " + age(now, n.Created) + " ago"
	}
	out := []string{first, quoted(fmt.Sprintf("%s, %s in %s, NodePool %s, node %s", dash(n.InstanceType), dash(n.CapacityType), dash(n.Zone), dash(n.NodePool), dash(n.Node)))}
	price := n.PriceText() + " USD per hour"
	if n.Cost != (catalog.Cost{}) {
		price += ": " + n.Cost.String()
	}
	if n.CoveredBy != "" {
		price += ", paid for by " + quoted(n.CoveredBy)
	}
	width := max(min((s.width-40)/2, 20), 5)
	return append(out, price, strings.TrimRight("CPU "+s.bar(n.CPU, width)+"   MEM "+s.bar(n.Memory, width), " "), "")
}

// cores writes thousandths of a CPU.
func cores(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%dm", milli)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

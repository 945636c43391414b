package bill

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// firstHour is for how long EC2 charges nothing for a spot instance that it interrupts (EC2 User Guide, "Billing for interrupted Spot Instances": no charge
// for an instance that EC2 interrupts in its first hour; volumes and addresses are still charged).
const firstHour = time.Hour

// free reports whether EC2 charges nothing for the node's instance.
func (n *Node) free() bool {
	return n.Interruptible && n.TakenAway && !n.Ended.IsZero() && n.Ended.Sub(n.Since) < firstHour
}

// account is what an amount was added to.
type account int64

// The accounts: of a NodePool what is idle or lost, of a NodePool and a workload what pods requested, of a workload its shares of the first two.
const (
	idle account = iota
	lost
	requested
	idleShare
	lostShare
)

// charges are what the instance of a node was charged for, in USD by place.
type charges map[place]float64

// place is where a charge was added.
type place struct {
	hour *Hour
	// pool of the node, and the workload of its pod; none for the accounts of the NodePool.
	pool string
	pod  Key
	in   account
}

// charged returns where to note what the instance of a node is charged for until an end; nil if EC2 charges it for certain.
func (l *Ledger) charged(n *Node, end time.Time) charges {
	if !n.Interruptible || end.Sub(n.Since) > firstHour {
		return nil
	}
	c, ok := l.young[n.ID]
	if !ok {
		c = charges{}
		if l.young == nil {
			l.young = map[string]charges{}
		}
		l.young[n.ID] = c
	}
	return c
}

func (c charges) add(at place, usd float64) {
	if c != nil && usd != 0 {
		c[at] += usd
	}
}

// giveBack takes all of it off again. A workload or NodePool that has been folded meanwhile has it no more: the ones that stand for it have.
func (c charges) giveBack() {
	for at, usd := range c {
		at.take(usd)
		delete(c, at)
	}
}

// take takes an amount off.
func (at place) take(usd float64) {
	row := at.hour.foldedRow(at.pod)
	if row == nil {
		row = &Row{}
	}
	p, off := at.hour.folded(at.pool), Parts{Instance: -usd}
	if p == nil {
		p = &Pool{}
	}
	switch at.in {
	case idle:
		p.Idle = p.Idle.Plus(off)
	case lost:
		p.Interrupted = p.Interrupted.Plus(off)
	case requested:
		p.Requested, row.Parts = p.Requested.Plus(off), row.Parts.Plus(off)
	case idleShare:
		row.Idle -= usd
	case lostShare:
		row.Lost -= usd
	}
}

// folded returns a NodePool of the hour, or the one that stands for it; nil if there is neither.
func (h *Hour) folded(pool string) *Pool {
	if p, ok := h.Pools[pool]; ok {
		return p
	}
	return h.Pools[Other]
}

// foldedRow returns a workload of the hour, or the one that stands for it; nil if there is none.
func (h *Hour) foldedRow(k Key) *Row {
	for _, one := range []Key{k, {Namespace: k.Namespace}, {Namespace: Other}} {
		if r, ok := h.Rows[one]; ok {
			return r
		}
	}
	return nil
}

// forgetCharges forgets those of nodes that are gone, or past their first hour, and the workloads of interrupted nodes that are gone.
func (l *Ledger) forgetCharges() {
	for id := range l.young {
		if n, known := l.last(id); !known || l.Through.Sub(n.Since) > firstHour {
			delete(l.young, id)
		}
	}
	for id := range l.struck {
		if _, known := l.last(id); !known {
			delete(l.struck, id)
		}
	}
}

// settles is how long after its end a day may still be charged: nodes are observed late, and leave late.
const settles = time.Hour

// ForgetDays forgets the days that are over, but for those of which EC2 may take charges back.
func (l *Ledger) ForgetDays() {
	noted := map[*Hour]bool{}
	for _, c := range l.young {
		for at := range c {
			noted[at.hour] = true
		}
	}
	for date, day := range l.Days {
		if date < l.firstDay() && !slices.ContainsFunc(day.Hours[:], func(h *Hour) bool { return noted[h] }) {
			delete(l.Days, date)
		}
	}
}

// mostYoung bounds the nodes whose charges a record has, so that they can be taken off after a restart.
const mostYoung = 500

// youngNode is what the instance of a node in its first hour was charged for.
type youngNode struct {
	id   string
	list []youngCharge
	usd  float64
}

// youngCharge is one charge of it.
type youngCharge struct {
	date Date
	hour int
	pool string
	pod  Key
	in   account
	usd  float64
}

// youngNodes lists the charges of the ledger, those of the nodes that were charged most first.
func (l *Ledger) youngNodes() []youngNode {
	at := map[*Hour]youngCharge{}
	for date, day := range l.Days {
		for i, h := range day.Hours {
			if h != nil {
				at[h] = youngCharge{date: date, hour: i}
			}
		}
	}
	var out []youngNode
	for id, c := range l.young {
		n := youngNode{id: id}
		for place, usd := range c {
			one, kept := at[place.hour]
			if !kept {
				continue
			}
			one.pool, one.pod, one.in, one.usd = place.pool, place.pod, place.in, usd
			n.list = append(n.list, one)
			if place.in != idleShare && place.in != lostShare {
				n.usd += usd
			}
		}
		slices.SortFunc(n.list, func(a, b youngCharge) int {
			return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.hour, b.hour), cmp.Compare(a.in, b.in), strings.Compare(a.pool, b.pool), compare(a.pod, b.pod))
		})
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b youngNode) int { return cmp.Or(cmp.Compare(b.usd, a.usd), strings.Compare(a.id, b.id)) })
	return out
}

// takeOver notes charges that were read from a record. Those of hours that the ledger does not have are left out.
func (l *Ledger) takeOver(nodes []youngNode) {
	for _, n := range nodes {
		c := charges{}
		for _, x := range n.list {
			if day := l.Days[x.date]; day != nil && x.hour >= 0 && x.hour < len(day.Hours) && day.Hours[x.hour] != nil {
				c[place{day.Hours[x.hour], x.pool, x.pod, x.in}] = x.usd
			}
		}
		if l.young == nil {
			l.young = map[string]charges{}
		}
		l.young[n.id] = c
	}
}

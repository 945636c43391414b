package bill

import "time"

// firstHour is for how long EC2 charges nothing for a spot instance that it interrupts (EC2 User Guide, "Billing for interrupted Spot Instances": no charge
// for an instance that EC2 interrupts in its first hour; volumes and addresses are still charged).
const firstHour = time.Hour

// free reports whether EC2 charges nothing for the node's instance.
func (n *Node) free() bool {
	return n.Interruptible && n.TakenAway && !n.Ended.IsZero() && n.Ended.Sub(n.Since) < firstHour
}

// charges are what the instance of a node was charged for, in USD by place.
type charges map[place]float64

// place is where a charge was added.
type place struct {
	hour *Hour
	// pool of the node. Its requested part has it if there is a pod, else its idle or its lost part.
	pool string
	pod  Key
	lost bool
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
		p, off := at.hour.folded(at.pool), Parts{Instance: -usd}
		switch {
		case p == nil:
		case at.pod != Key{}:
			p.Requested = p.Requested.Plus(off)
			if r := at.hour.foldedRow(at.pod); r != nil {
				r.Parts = r.Parts.Plus(off)
			}
		case at.lost:
			p.Interrupted = p.Interrupted.Plus(off)
		default:
			p.Idle = p.Idle.Plus(off)
		}
		delete(c, at)
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

// forgetCharges forgets those of nodes that are gone, or past their first hour.
func (l *Ledger) forgetCharges() {
	for id := range l.young {
		if n, there := l.seen[id]; !there || l.Through.Sub(n.Since) > firstHour {
			delete(l.young, id)
		}
	}
}

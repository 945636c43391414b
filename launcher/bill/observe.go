package bill

import (
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Pod is a pod on a node.
type Pod struct {
	// UID of the pod.
	UID string
	// Key is what it is charged to.
	Key Key
	// Requests of the pod.
	Requests Amounts
	// Since is when it came to the node.
	Since time.Time
}

// Node is a launched node.
type Node struct {
	// ID is the same as long as the node exists.
	ID string
	// NodePool of the node.
	NodePool string
	// Since is when its instance was launched.
	Since time.Time
	// PerHour is what it costs now, without Burst.
	PerHour Parts
	// Burst are the charges for surplus CPU, as requested CPU causes them.
	Burst catalog.Charges
	// Allocatable is what pods may request.
	Allocatable Amounts
	// Interrupted is when it was interrupted; zero if it was not.
	Interrupted time.Time
	// Ended is when its instance began to shut down: EC2 bills its volumes alone from then on. Zero before.
	Ended time.Time
	// Interruptible means that it is a spot node, and TakenAway that EC2 interrupted it and terminated its instance.
	Interruptible, TakenAway bool
	// HourFee is what AWS charges for each hour in which such nodes run, once for all of them; 0 for none.
	HourFee float64
	// Pods on it that have not ended.
	Pods []Pod

	// charged is until when it was charged, where that is later than its last observation; of one that has left in any case.
	charged time.Time
}

// Observation is the cluster at one moment.
type Observation struct {
	// At is the moment.
	At time.Time
	// Nodes that are launched and not gone.
	Nodes []Node
	// Unused is what commitments cost that nothing uses, in USD per hour by ID.
	Unused map[string]float64
	// Commitments are the account's, as this cluster uses them now.
	Commitments []catalog.CommitmentUse
}

const (
	// unobserved is the longest time between two observations that counts as observed.
	unobserved = 2 * time.Minute
	// latest is how much later than its launch a node may be observed first.
	latest = 10 * time.Minute
	// least is the shortest time that EC2 bills (Amazon EC2 pricing, "On-Demand pricing": per second, with a minimum of 60 seconds).
	least = time.Minute
)

// Ledger adds observations up.
type Ledger struct {
	// Start is when the record starts, Through until when it is complete; zero before the first observation.
	Start, Through time.Time
	// Days have the hours, by day.
	Days map[Date]*Day
	// Commitments are those of the last observation.
	Commitments []catalog.CommitmentUse

	// seen are the nodes of the last observation; nil before the first one. left are those of the one before that it lacked: they may be observed once more,
	// since the observer reads nodes that are there and nodes that are gone one after the other.
	seen, left map[string]Node
	// young is what instances of spot nodes in their first hour were charged for, by node.
	young map[string]charges
	// struck are the workloads that interrupted nodes had, by node.
	struck map[string][]portionOf
}

// Observe adds what the nodes have cost since the last observation. The first one of a record charges nothing. Nodes that are in the
// observation are charged for the whole time since the last one, however long that is: they ran.
func (l *Ledger) Observe(o Observation) {
	from := l.Through
	if from.IsZero() {
		l.Start, from = o.At, o.At
	}
	if o.At.Before(from) {
		return // The clock was set back.
	}
	if o.At.Sub(from) <= unobserved {
		l.split(from, o.At, func(h *Hour, hours float64) { h.Observed += hours * 3600 })
	}
	now := make(map[string]Node, len(o.Nodes))
	for i := range o.Nodes {
		n := &o.Nodes[i]
		before, _ := l.last(n.ID)
		n.Pods, n.charged = InOrder(n.Pods), before.charged
		now[n.ID] = *n
		l.charge(n, l.begin(n, from), from, o.At)
		if n.free() {
			l.young[n.ID].giveBack()
		}
		l.fee(n, l.begin(n, from), o.At)
	}
	left := map[string]Node{}
	for id, n := range l.seen {
		if _, there := now[id]; !there {
			n.charged = l.top(n, from)
			if o.At.Sub(from) <= latest { // It is charged from later on otherwise.
				left[id] = n
			}
		}
	}
	for id, usd := range o.Unused {
		l.split(from, o.At, func(h *Hour, hours float64) { h.Unused[id] += usd * hours })
	}
	l.Through, l.seen, l.left, l.Commitments = o.At, now, left, o.Commitments
	l.forgetCharges()
	for _, d := range l.Days {
		if len(d.keys()) > 2*MostKeys {
			d.Fold(MostKeys)
		}
	}
}

// fee notes the fee of the hours in which the node ran.
func (l *Ledger) fee(n *Node, begin, end time.Time) {
	if n.HourFee == 0 {
		return
	}
	if !n.Ended.IsZero() && n.Ended.Before(end) {
		end = n.Ended
	}
	l.split(begin, end, func(h *Hour, _ float64) { h.Fee = max(h.Fee, n.HourFee) })
}

// last returns the last observation of a node, the present one aside.
func (l *Ledger) last(id string) (n Node, known bool) {
	if n, known = l.seen[id]; !known {
		n, known = l.left[id]
	}
	return n, known
}

// begin returns from when on a node is charged that is observed now.
func (l *Ledger) begin(n *Node, from time.Time) time.Time {
	if _, seen := l.seen[n.ID]; seen {
		return from
	}
	if before, left := l.left[n.ID]; left {
		return before.charged
	}
	if l.seen == nil { // It may have been charged before a restart.
		return later(n.Since, from)
	}
	return later(n.Since, later(l.Start, from.Add(-latest)))
}

// top charges what a node that is gone lacks to the shortest time that EC2 bills. It returns until when the node is charged, where gone is when it was
// observed last.
func (l *Ledger) top(n Node, gone time.Time) time.Time {
	charged, until := later(gone, n.charged), n.Since.Add(least)
	if !n.Ended.IsZero() && n.Ended.Before(gone) {
		gone = n.Ended
	}
	gone = later(gone, n.charged)
	if !gone.Before(until) || n.Since.Before(l.Start) {
		return charged
	}
	if n.free() {
		n.PerHour.Instance = 0
	}
	noted := l.charged(&n, until)
	l.split(gone, until, func(h *Hour, hours float64) {
		p := h.pool(n.NodePool)
		p.Idle = p.Idle.Plus(n.PerHour.Times(hours))
		p.NodeHours += hours
		noted.add(place{h, n.NodePool, Key{}, idle}, n.PerHour.Instance*hours)
	})
	return later(charged, until)
}

// charge adds what a node cost from begin to end to its pool and to its pods. before is the time of the last observation.
func (l *Ledger) charge(n *Node, begin, before, end time.Time) {
	if !n.Ended.IsZero() && n.Ended.Before(end) {
		ended := later(n.Ended, begin)
		l.split(ended, end, func(h *Hour, hours float64) {
			p, volumes := h.pool(n.NodePool), Parts{Volumes: n.PerHour.Volumes * hours}
			if n.Interrupted.IsZero() {
				p.Idle = p.Idle.Plus(volumes)
				return
			}
			p.Interrupted = p.Interrupted.Plus(volumes)
			for _, w := range l.workloads(n) {
				h.row(w.key).Lost += volumes.Volumes * w.share
			}
		})
		end = ended
	}
	if n.Interrupted.IsZero() || n.Interrupted.After(end) {
		l.share(n, begin, end)
		return
	}
	at := later(n.Interrupted, begin)
	l.share(n, begin, at)
	if l.strikes(n, before) {
		l.split(end, end.Add(time.Nanosecond), func(h *Hour, _ float64) {
			for i := range n.Pods {
				h.row(n.Pods[i].Key).Interrupted++
			}
		})
	}
	charged, total := l.charged(n, end), n.PerHour.Total()
	l.split(at, end, func(h *Hour, hours float64) {
		p := h.pool(n.NodePool)
		p.Interrupted = p.Interrupted.Plus(n.PerHour.Times(hours))
		charged.add(place{h, n.NodePool, Key{}, lost}, n.PerHour.Instance*hours)
		p.NodeHours, p.InterruptedHours = p.NodeHours+hours, p.InterruptedHours+hours
		for _, w := range l.workloads(n) {
			h.row(w.key).Lost += total * hours * w.share
			charged.add(place{h, n.NodePool, w.key, lostShare}, n.PerHour.Instance*hours*w.share)
		}
	})
}

// strikes reports whether the last observation, at the time before, lacked the node's interruption. The time of that one has whole seconds alone.
func (l *Ledger) strikes(n *Node, before time.Time) bool {
	if last, known := l.last(n.ID); known {
		return last.Interrupted.IsZero() || last.Interrupted.After(before)
	}
	return n.Interrupted.After(before)
}

// portionOf is a workload's share of a node, 0 to 1.
type portionOf struct {
	key   Key
	share float64
}

// workloads returns what an interrupted node ran, without DaemonSets, each with its share of what was requested: when it was interrupted, or, where that
// is not known any more, when it was observed first.
func (l *Ledger) workloads(n *Node) []portionOf {
	if known, ok := l.struck[n.ID]; ok {
		return known
	}
	had := *n
	if before, _ := l.last(n.ID); len(before.Pods) > 0 {
		had = before
	}
	shares, _ := had.shares()
	sum := had.workShare(shares)
	var out []portionOf
	for i := range had.Pods {
		if had.Pods[i].Key.works() && sum > 0 {
			out = append(out, portionOf{had.Pods[i].Key, shares[i] / sum})
		}
	}
	if l.struck == nil {
		l.struck = map[string][]portionOf{}
	}
	l.struck[n.ID] = out
	return out
}

// works reports whether nodes run for the workload: they have the pods of DaemonSets and static pods because they are there.
func (k Key) works() bool { return k.Kind != "DaemonSet" && k.Kind != "Node" }

// workShare adds up the shares of the pods that nodes run for.
func (n *Node) workShare(shares []float64) float64 {
	sum := 0.0
	for i := range n.Pods {
		if n.Pods[i].Key.works() {
			sum += shares[i]
		}
	}
	return sum
}

// share charges the pods of a node for their shares, and its pool for what is idle.
func (l *Ledger) share(n *Node, begin, end time.Time) {
	shares, bursts := n.shares()
	charged := l.charged(n, end)
	work, unused := n.workShare(shares), 1.0
	for _, s := range shares {
		unused -= s
	}
	l.split(begin, end, func(h *Hour, hours float64) {
		p := h.pool(n.NodePool)
		p.NodeHours += hours
		p.Idle = p.Idle.Plus(n.PerHour.Times(hours))
		charged.add(place{h, n.NodePool, Key{}, idle}, n.PerHour.Instance*hours)
	})
	for i := range n.Pods {
		pod := &n.Pods[i]
		l.split(later(pod.Since, begin), end, func(h *Hour, hours float64) {
			used := n.PerHour.Times(shares[i] * hours)
			p, row := h.pool(n.NodePool), h.row(pod.Key)
			p.Idle = p.Idle.Plus(used.Times(-1))
			charged.add(place{h, n.NodePool, Key{}, idle}, -used.Instance)
			charged.add(place{h, n.NodePool, pod.Key, requested}, used.Instance)
			used.Burst += bursts[i] * hours
			p.Requested, row.Parts = p.Requested.Plus(used), row.Parts.Plus(used)
			row.NodeHours += shares[i] * hours
			p.RequestedHours += shares[i] * hours
			if pod.Key.works() && work > 0 {
				beside := n.PerHour.Times(max(unused, 0) * shares[i] / work * hours)
				row.Idle += beside.Total()
				charged.add(place{h, n.NodePool, pod.Key, idleShare}, beside.Instance)
			}
		})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// firstDay is the first day that may still be charged. The days before may be forgotten, and a charge would begin them once more, empty.
func (l *Ledger) firstDay() Date { return DateOf(l.Through.Add(-settles)) }

// split calls add for each hour of a time, with how much of the hour it has. A time of more than the days that are kept is cut, and one of days that
// are charged no more.
func (l *Ledger) split(from, to time.Time, add func(h *Hour, hours float64)) {
	from = later(from, to.Add(-MostDays*24*time.Hour))
	if !l.Through.IsZero() {
		from = later(from, l.firstDay().Time())
	}
	for from.Before(to) {
		next := from.Truncate(time.Hour).Add(time.Hour)
		if next.After(to) {
			next = to
		}
		add(l.hour(from), next.Sub(from).Hours())
		from = next
	}
}

func (l *Ledger) hour(at time.Time) *Hour {
	date := DateOf(at)
	if l.Days == nil {
		l.Days = map[Date]*Day{}
	}
	d, ok := l.Days[date]
	if !ok {
		d = &Day{Date: date}
		l.Days[date] = d
	}
	return d.hour(at.UTC().Hour())
}

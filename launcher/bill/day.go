package bill

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// MostDays is how many days are kept.
	MostDays = 31
	// MostKeys is how many workloads of a day are kept, with those that stand for the others of a namespace.
	MostKeys = 1000
	// MostLabels is how long the labels of a key are at most.
	MostLabels = 256
	// mostNamespaces bounds the namespaces of a day, mostPools its NodePools, mostUnused its commitments.
	mostNamespaces = 500
	mostPools      = 200
	mostUnused     = 100
)

// Other is the name of the namespaces, NodePools and commitments of a day beyond those that are kept. No name of Kubernetes is so.
const Other = "(other)"

// Date is a day of UTC, in days since 1970-01-01.
type Date int

// DateOf returns the day of a time.
func DateOf(at time.Time) Date { return Date(at.Unix() / 86400) }

// Time returns the day's beginning.
func (d Date) Time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String returns the date, such as 2026-11-23.
func (d Date) String() string { return d.Time().Format(time.DateOnly) }

// Day is the record of a day.
type Day struct {
	// Date of the day.
	Date Date
	// Hours are those of UTC; nil for an hour without anything.
	Hours [24]*Hour
}

// Hour is what was paid in an hour.
type Hour struct {
	// Observed is how many seconds of it were observed.
	Observed float64
	// Pools are the NodePools by name. Their amounts are exact, whatever is folded.
	Pools map[string]*Pool
	// Rows are the workloads. Their sum is what the pools have requested.
	Rows map[Key]*Row
	// Unused is what was paid for commitments that nothing used, by ID.
	Unused map[string]float64
	// Fee is what AWS charges once for the hour because nodes of dedicated tenancy ran in it.
	Fee float64
}

// Pool is what the nodes of a NodePool cost.
type Pool struct {
	// Requested is for what pods requested, Idle for the rest, Interrupted for nodes from their interruption on.
	Requested, Idle, Interrupted Parts
	// NodeHours is for how long nodes ran, RequestedHours and InterruptedHours how much of it was requested, and after an interruption.
	NodeHours, RequestedHours, InterruptedHours float64
}

// Total returns what the nodes cost.
func (p *Pool) Total() Parts { return p.Requested.Plus(p.Idle).Plus(p.Interrupted) }

// Row is what a workload is charged.
type Row struct {
	// Parts are the charge.
	Parts Parts
	// NodeHours is how many hours of whole nodes it requested.
	NodeHours float64
	// Interrupted is how many of its pods were on nodes that were interrupted.
	Interrupted int
	// Idle is its share of what its nodes cost beyond what pods requested, Lost of what they cost from their interruption on, in USD. They are parts of what
	// the pools have, and not of the charge.
	Idle, Lost float64
}

func (d *Day) hour(n int) *Hour {
	if d.Hours[n] == nil {
		d.Hours[n] = &Hour{Pools: map[string]*Pool{}, Rows: map[Key]*Row{}, Unused: map[string]float64{}}
	}
	return d.Hours[n]
}

func (h *Hour) pool(name string) *Pool {
	p, ok := h.Pools[name]
	if !ok {
		p = &Pool{}
		h.Pools[name] = p
	}
	return p
}

func (h *Hour) row(k Key) *Row {
	r, ok := h.Rows[k]
	if !ok {
		r = &Row{}
		h.Rows[k] = r
	}
	return r
}

// keys returns what each workload is charged in all of the day.
func (d *Day) keys() map[Key]float64 {
	out := map[Key]float64{}
	for _, h := range d.hours() {
		for k, r := range h.Rows {
			out[k] += r.Parts.Total()
		}
	}
	return out
}

// Fold reduces the day to most workloads. First the namespaces beyond mostNamespaces that are charged least become one. Then every namespace
// keeps as many workloads as the largest equal number for all that have more allows, those that are charged most. The rest of a namespace
// becomes its other workloads.
func (d *Day) Fold(most int) {
	d.foldNames()
	keys := d.keys()
	if len(keys) <= most {
		return
	}
	byNamespace := map[string][]Key{}
	for k := range keys {
		byNamespace[k.Namespace] = append(byNamespace[k.Namespace], k)
	}
	to := map[Key]Key{}
	each := quota(byNamespace, most)
	for namespace, list := range byNamespace {
		if len(list) <= each {
			continue
		}
		slices.SortFunc(list, func(a, b Key) int { return cmp.Or(cmp.Compare(keys[b], keys[a]), compare(a, b)) })
		rest := Key{Namespace: namespace}
		for _, k := range list[each-1:] { // One place is that of the rest.
			to[k] = rest
		}
	}
	d.rename(func(k Key) Key {
		if other, ok := to[k]; ok {
			return other
		}
		return k
	})
}

// clone returns a copy of the day that can be folded.
func (d *Day) clone() *Day {
	out := &Day{Date: d.Date}
	for n, h := range d.Hours {
		if h == nil {
			continue
		}
		// Folding replaces the rows.
		copied := &Hour{Observed: h.Observed, Pools: map[string]*Pool{}, Rows: h.Rows, Unused: maps.Clone(h.Unused), Fee: h.Fee}
		for name, p := range h.Pools {
			pool := *p
			copied.Pools[name] = &pool
		}
		out.Hours[n] = copied
	}
	return out
}

// quota returns how many keys each namespace may have so that there are most at most; 1 at least.
func quota(byNamespace map[string][]Key, most int) int {
	sizes := make([]int, 0, len(byNamespace))
	for _, list := range byNamespace {
		sizes = append(sizes, len(list))
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		rest := len(sizes) - i
		if size*rest > most {
			return max(most/rest, 1)
		}
		most -= size
	}
	return most
}

// foldNames reduces namespaces, NodePools and commitments to what is kept.
func (d *Day) foldNames() {
	namespaces, pools, plans := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for k, usd := range d.keys() {
		namespaces[k.Namespace] += usd
	}
	for _, h := range d.hours() {
		for name, p := range h.Pools {
			pools[name] += p.Total().Total()
		}
		for id, usd := range h.Unused {
			plans[id] += usd
		}
	}
	if few := costliest(namespaces, mostNamespaces); few != nil {
		d.rename(func(k Key) Key {
			if few[k.Namespace] {
				return k
			}
			return Key{Namespace: Other}
		})
	}
	fewPools, fewPlans := costliest(pools, mostPools), costliest(plans, mostUnused)
	for _, h := range d.hours() {
		h.fold(fewPools, fewPlans)
	}
}

// fold adds up the NodePools and commitments that are not kept; nil keeps all.
func (h *Hour) fold(pools, plans map[string]bool) {
	for name, p := range h.Pools {
		if pools != nil && !pools[name] && name != Other {
			h.pool(Other).add(p)
			delete(h.Pools, name)
		}
	}
	for id, usd := range h.Unused {
		if plans != nil && !plans[id] && id != Other {
			h.Unused[Other] += usd
			delete(h.Unused, id)
		}
	}
}

// hours returns the hours that have anything.
func (d *Day) hours() []*Hour {
	return slices.DeleteFunc(slices.Clone(d.Hours[:]), func(h *Hour) bool { return h == nil })
}

func (p *Pool) add(o *Pool) {
	p.Requested, p.Idle, p.Interrupted = p.Requested.Plus(o.Requested), p.Idle.Plus(o.Idle), p.Interrupted.Plus(o.Interrupted)
	p.NodeHours, p.RequestedHours, p.InterruptedHours = p.NodeHours+o.NodeHours, p.RequestedHours+o.RequestedHours, p.InterruptedHours+o.InterruptedHours
}

// costliest returns the names with the highest amounts, one less than most; nil if there are no more than most.
func costliest(amounts map[string]float64, most int) map[string]bool {
	if len(amounts) <= most {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(amounts), func(a, b string) int { return cmp.Or(cmp.Compare(amounts[b], amounts[a]), strings.Compare(a, b)) })
	out := map[string]bool{}
	for _, name := range names[:most-1] {
		out[name] = true
	}
	return out
}

// rename moves rows to other keys.
func (d *Day) rename(to func(Key) Key) {
	for _, h := range d.hours() {
		rows := map[Key]*Row{}
		for k, r := range h.Rows {
			other := to(k)
			sum, ok := rows[other]
			if !ok {
				sum = &Row{}
				rows[other] = sum
			}
			sum.Parts, sum.NodeHours, sum.Interrupted = sum.Parts.Plus(r.Parts), sum.NodeHours+r.NodeHours, sum.Interrupted+r.Interrupted
			sum.Idle, sum.Lost = sum.Idle+r.Idle, sum.Lost+r.Lost
		}
		h.Rows = rows
	}
}

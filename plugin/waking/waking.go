// Package waking decides whether stopped instances of standby buffers are started for pods, or nodes are launched for them: by when the pods run, against what
// the nodes cost. It learns how long nodes need from what it sees of them. The package is pure.
package waking

import (
	"slices"
	"time"
)

const (
	// unknownBoot and unknownStart are what a node needs that is launched, or started, where none was seen.
	unknownBoot, unknownStart = 45 * time.Second, 25 * time.Second
	// mostTimes is how many times are kept of each kind, mostKinds of how many kinds, and mostBegun of how many nodes it is known when they began.
	mostTimes, mostKinds, mostBegun = 20, 1000, 10_000
	// paidFor is for how long a node that costs more is counted: consolidation finds something cheaper then.
	paidFor = 15 * time.Minute
)

// Kind is what nodes have in common that need about the same time.
type Kind struct {
	// NodePool has the AMI and what runs on each of its nodes.
	NodePool string
	// InstanceType is the expected one.
	InstanceType string
	// Woken means that the instance was stopped before.
	Woken bool
}

// Times are how long nodes needed until they took pods, the latest ones of each kind. A restart forgets them.
type Times struct {
	begun map[string]begun
	took  map[Kind][]time.Duration
}

type begun struct {
	kind Kind
	at   time.Time
}

// NewTimes returns Times that know of no node.
func NewTimes() *Times {
	return &Times{begun: map[string]begun{}, took: map[Kind][]time.Duration{}}
}

// Begin notes that a node is launched, or started.
func (t *Times) Begin(claim string, of Kind, at time.Time) {
	if len(t.begun) < mostBegun {
		t.begun[claim] = begun{of, at}
	}
}

// End notes that a node takes pods, or that it never will.
func (t *Times) End(claim string, at time.Time, ready bool) {
	b, ok := t.begun[claim]
	delete(t.begun, claim)
	if _, known := t.took[b.kind]; !ok || !ready || !known && len(t.took) >= mostKinds {
		return
	}
	list := append(t.took[b.kind], at.Sub(b.at))
	t.took[b.kind] = list[max(0, len(list)-mostTimes):]
}

// Of returns how long a node of the kind needs: half of those that were seen needed no longer. Where none was, it is that of all that were launched, or started.
func (t *Times) Of(kind Kind) time.Duration {
	list := slices.Clone(t.took[kind])
	if len(list) == 0 {
		for other, took := range t.took {
			if other.Woken == kind.Woken {
				list = append(list, took...)
			}
		}
	}
	switch {
	case len(list) > 0:
		slices.Sort(list)
		return list[len(list)/2]
	case kind.Woken:
		return unknownStart
	}
	return unknownBoot
}

// Choice is what is different if instances are started, from what would be launched instead.
type Choice struct {
	// More is what the nodes cost more, in USD per hour.
	More float64
	// Sooner is by how much the pods run sooner, the sum over all.
	Sooner time.Duration
}

// Pays reports whether the instances are started, where an hour in which one pod waits costs so many USD. Those that cost no more are, whenever they are there.
func (c Choice) Pays(waiting float64) bool {
	return c.More <= 0 || waiting*c.Sooner.Hours() >= c.More*paidFor.Hours()
}

package plan

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// compileNodeRules collects the node rules: those of spread and anti-affinity, host ports and the filters' verdicts.
func (co *colocation) compileNodeRules() {
	co.nodeRules = co.relations.NodeRules(co.canHave)
	for ci := range co.classes {
		c := &co.classes[ci]
		if c.perNode > 0 {
			self := bitset.New(len(co.classes))
			self.Add(ci)
			co.nodeRules = append(co.nodeRules, relations.NodeRule{Subject: ci, Members: self, Limit: c.perNode})
		}
	}
	co.keepPortsApart()
	co.keepApart()
}

// keepPortsApart turns host ports into node rules.
func (co *colocation) keepPortsApart() {
	var index *portIndex
	for ci := range co.classes {
		c := &co.classes[ci]
		if len(c.ports) == 0 || co.in.budget.Cancelled() {
			continue
		}
		if index == nil {
			index = newPortIndex(co.classes)
		}
		co.nodeRules = co.nodeRules.KeepApart(ci, index.clashing(c.ports))
	}
}

// keepApart turns the filters' verdicts on classes that share a node into node rules.
func (co *colocation) keepApart() {
	index := make(map[string][]int, len(co.classes))
	apart := map[string]map[string]bool{}
	note := func(a, b string) {
		if apart[a] == nil {
			apart[a] = map[string]bool{}
		}
		apart[a][b] = true
	}
	for _, r := range co.in.Rejected {
		for _, other := range r.With {
			note(r.ClassKey, other)
			note(other, r.ClassKey)
		}
	}
	if len(apart) == 0 {
		return
	}
	for ci := range co.classes {
		index[co.classes[ci].key] = append(index[co.classes[ci].key], ci)
	}
	for ci := range co.classes {
		members := bitset.New(len(co.classes))
		for other := range apart[co.classes[ci].key] {
			for _, oi := range index[other] {
				members.Add(oi)
			}
		}
		co.nodeRules = co.nodeRules.KeepApart(ci, members)
	}
}

// canHave reports whether new nodes or those with room may have the label.
func (co *colocation) canHave(key string) bool {
	return co.market.newLabels[key] || slices.ContainsFunc(co.rooms, func(r room) bool { _, ok := r.labels[key]; return ok })
}

// anyLabel is the lookup of a new node that may have any label.
func anyLabel(string) (string, bool) { return "", true }

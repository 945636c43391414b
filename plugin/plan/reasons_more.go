package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// verdicts are the filters' words about the class.
func (ex *explainer) verdicts(c *class) string {
	var out []string
	for _, r := range ex.in.Rejected {
		if r.ClassKey == c.key && r.Reason != "" && !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	if len(out) == 0 {
		return "the scheduler's filters rejected every node of the pool"
	}
	return "the scheduler's filters rejected every node of the pool: " + strings.Join(out, "; ")
}

// sold says what EC2 answered about the offerings that would do, and when one of them is tried again.
func (mk *market) sold(set bitset.Set) string {
	var refused []ec2error.Failure
	var again time.Time
	capacity := true
	for oi := range mk.offers {
		if !set.Has(oi) {
			continue
		}
		o := &mk.offers[oi]
		refused = append(refused, ec2error.Failure{
			Refusal: o.Refusal, InstanceType: mk.types[o.shape].Name, CapacityType: o.CapacityType, Zone: o.Zone,
		})
		capacity = capacity && (o.Refusal.Code == "" || o.Refusal.Code.IsCapacity())
		if t := o.UnavailableUntil; !t.IsZero() && (again.IsZero() || t.Before(again)) {
			again = t
		}
	}
	text := fmt.Sprintf("EC2 refuses the %s: %s", thatFit(len(refused)), ec2error.Summarize(refused))
	if capacity { // The usual case, in short.
		text = fmt.Sprintf("EC2 has no capacity in the %s: %s", thatFit(len(refused)), firstNames(refused))
	}
	if !again.IsZero() {
		text += "; tried again at " + ec2error.Clock(again)
	}
	return text
}

// firstNames returns the first three offerings by name.
func firstNames(list []ec2error.Failure) string {
	const most = 2
	var names []string
	for _, f := range list[:min(len(list), most)] {
		names = append(names, f.Name())
	}
	if len(list) > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// overLimit names the limit that the node which comes nearest to keeping them would break.
func (mk *market) overLimit(p *pool, set bitset.Set) string {
	best, over, extra := -1, 0, 0.0
	for oi := range mk.offers {
		if !set.Has(oi) {
			continue
		}
		i, x := mk.excess(p, oi)
		if best < 0 || x < extra || x == extra && mk.offers[oi].Price < mk.offers[best].Price {
			best, over, extra = oi, i, x
		}
	}
	s, l := &mk.types[mk.offers[best].shape], p.limits[over]
	return fmt.Sprintf("limit %s of %s reached: %s in use, the smallest node that fits, %s, adds %s",
		l.name, figure(l.name, l.max), figure(l.name, l.used), s.Name, figure(l.name, usageOf(mk, best)[over]))
}

// excess is the limit that a node of the offer exceeds most, and by how much of what it allows.
func (mk *market) excess(p *pool, oi int) (worst int, share float64) {
	share = -1
	for i, used := range usageOf(mk, oi) {
		l := &p.limits[i]
		if x := float64(l.used+used-l.max) / float64(max(l.max, 1)); x > share {
			worst, share = i, x
		}
	}
	return worst, share
}

// relation returns the reason of pods that would fit, but not beside or away from others as they require.
func (ex *explainer) relation(ci int) Reason {
	rules := ex.relations.Rules()
	for i := range rules {
		r := &rules[i]
		if r.Owner() != ci {
			continue
		}
		switch {
		case r.Kind() == relations.Spread && !r.OverHosts():
			return Reason{Code: "SpreadUnsatisfiable", Message: fmt.Sprintf("topology spread over %s with maxSkew %d: %s; %s", r.Key(), r.MaxSkew(), countsText(r), furtherDomain(r))}
		case r.Kind() == relations.Affinity && r.OverHosts() && r.Total() > 0:
			return Reason{Code: "AffinityUnsatisfiable", Message: fmt.Sprintf("required pod affinity by %s to %s: the nodes that have or get such pods are full", r.Key(), r.Selector()), cause: noNeighbor}
		case r.Kind() == relations.Affinity:
			return Reason{Code: "AffinityUnsatisfiable", Message: fmt.Sprintf("required pod affinity by %s to %s: no node that can be launched joins such a pod (%s)", r.Key(), r.Selector(), countsText(r)), cause: noNeighbor}
		case r.Kind() == relations.AntiAffinity && !r.OverHosts():
			return Reason{Code: "AffinityUnsatisfiable", Message: fmt.Sprintf("required pod anti-affinity by %s to %s: every domain that can be launched into has such a pod (%s)", r.Key(), r.Selector(), countsText(r))}
		}
	}
	return ex.relationOfOthers(ci)
}

// furtherDomain says why no domain takes one more pod of a spread.
func furtherDomain(r *relations.Rule) string {
	if n, least := len(r.Domains()), r.MinDomains(); n < least {
		return fmt.Sprintf("minDomains is %d: of %s none may have more than maxSkew pods", least, catalog.CountText(n, "domain"))
	}
	return "no further domain can take the pod"
}

// relationOfOthers returns the reason of pods that rules of others keep off.
func (ex *explainer) relationOfOthers(ci int) Reason {
	rules := ex.relations.Rules()
	for i := range rules {
		r := &rules[i]
		if !r.Counts(ci) || r.OverHosts() {
			continue
		}
		switch {
		case r.Kind() == relations.AntiAffinity:
			return Reason{Code: "AffinityUnsatisfiable", Message: fmt.Sprintf("pods of the same batch have required anti-affinity by %s to it in every domain", r.Key())}
		case r.Kind() == relations.Spread && !r.Soft() && r.HasOwners() && ex.relations.Outranks(r.Owner(), ci):
			return Reason{Code: "SpreadUnsatisfiable", Message: fmt.Sprintf("pods of higher priority of the same batch count it in their topology spread over %s with maxSkew %d: %s", r.Key(), r.MaxSkew(), countsText(r))}
		}
	}
	return Reason{Code: "LimitExceeded", Message: "the pods that were planned before use what the limits of the pool leave"}
}

// countsText prints the counts of the rule by domain.
func countsText(r *relations.Rule) string {
	var out []string
	for _, d := range r.Domains() {
		out = append(out, fmt.Sprintf("%s has %d", d.Value, d.Pods))
	}
	if len(out) == 0 {
		return "there is none"
	}
	if len(out) > 8 {
		out = append(out[:8], fmt.Sprintf("and %d more", len(out)-8))
	}
	return strings.Join(out, ", ")
}

// noTypes says why the pool can launch nothing at all.
func (ex *explainer) noTypes(p *pool) string {
	list := ex.in.Catalog.InstanceTypes[p.TypesKey()]
	if len(list) == 0 {
		return fmt.Sprintf("its EC2NodeClass %s has no instance type", p.NodeClass)
	}
	for _, k := range sortedKeys(p.labels) {
		if set, ok := p.reqs[k]; ok && !set.Has(p.labels[k]) {
			return fmt.Sprintf("the pool's own label %s=%s contradicts its requirement %s %s", k, p.labels[k], k, setText(set))
		}
	}
	for _, k := range sortedKeys(p.reqs) {
		if _, open := p.open[k]; open || k == labelNodePool || k == catalog.LabelNodeClass {
			continue
		}
		values := valuesOf(p, list, k)
		if !slices.ContainsFunc(values, p.reqs[k].Has) && (len(values) > 0 || !p.reqs[k].Absent) {
			return fmt.Sprintf("the pool requires %s %s; EC2NodeClass %s offers %s", k, setText(p.reqs[k]), p.NodeClass, catalog.Offered(p.reqs[k], values))
		}
	}
	return "the requirements of the pool leave no instance type"
}

// valuesOf are the values of the key over the types as the pool would label them, sorted.
func valuesOf(p *pool, list []catalog.InstanceType, key string) []string {
	var values []string
	for i := range list {
		s := shape{InstanceType: &list[i]}
		for _, of := range list[i].Offerings {
			o := offer{Offering: of, region: regionOf(of.Zone)}
			if v, ok := labelOf(p, &s, &o, key); ok && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	slices.Sort(values)
	return values
}

// thatFit returns a number of offerings that fit, as words.
func thatFit(n int) string {
	if n == 1 {
		return "one offering that fits"
	}
	return catalog.CountText(n, "offering") + " that fit"
}

// ownConflict is conflict for a pool that is not ready: its labels and requirements exclude the class once it is ready, too. It is empty if they do
// not. Which types and zones it has is not known before.
func ownConflict(mk *market, c *class, p *pool) string {
	var all []string
	for _, term := range c.terms {
		keys := sortedKeys(term)
		i := slices.IndexFunc(keys, func(k string) bool { return p.excludes(k, term[k]) })
		if i < 0 {
			return ""
		}
		all = append(all, conflictText(c, keys[i], term[keys[i]], mk.allows(p, keys[i], term[keys[i]])))
	}
	return alternatives(all)
}

// excludes reports whether the labels and requirements of the NodePool itself leave no value of a label that is asked for.
func (p *pool) excludes(key string, asked catalog.Set) bool {
	if v, ok := p.labels[key]; ok {
		return !asked.Has(v)
	}
	if set, limited := p.reqs[key]; limited {
		return asked.Intersect(set).Empty()
	}
	return asked.Empty() || !wellKnown(key) && key != catalog.LabelPlacementGroupPartition && !asked.Absent
}

// conflictText says what a class asks for, and why a pool has no value for it.
func conflictText(c *class, key string, asked catalog.Set, why string) string {
	if asked.Empty() {
		return "its node selector, node affinity and volumes together leave no value of " + key
	}
	return fmt.Sprintf("requires %s %s%s; %s", key, setText(asked), c.of(key), why)
}

// alternatives returns the conflicts of the alternatives of a class as one text, the first three of more, each once.
func alternatives(all []string) string {
	var out []string
	for _, text := range all {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if n := len(out) - 3; n > 0 {
		out = append(out[:3], "and "+catalog.CountText(n, "more alternative"))
	}
	return strings.Join(out, "; or ")
}

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// pool is a NodePool, prepared for matching.
type pool struct {
	catalog.NodePool
	// reqs are the template's requirements under normal keys; broken says why they cannot be read.
	reqs   catalog.Requirements
	broken error
	labels map[string]string
	// open are the keys whose value the pods of a node choose.
	open   map[string]catalog.Set
	limits []limit
	// types and offers are ranges of the market's lists.
	types, offers [2]int
}

// limit is one entry of a NodePool's limits.
type limit struct {
	name corev1.ResourceName
	// before is what was used before this plan.
	max, used, before int64
}

// shape is an instance type of a pool.
type shape struct {
	*catalog.InstanceType
	pool   int
	offers [2]int
	// usage is what one node counts against each of the pool's limits; nothing against those on which its offers differ.
	usage []int64
	// devices are the resources other than a node's own that it has: accelerators and the like.
	devices []corev1.ResourceName
}

// offer is an offering of a shape. What its nodes have free for pods has the daemon pods already taken off.
type offer struct {
	catalog.Offering
	shape, pool int
	region      string
	free        vec
	// usage is what one node counts against each of the pool's limits, where that differs between the offers of a shape; nil for the shape's.
	usage []int64
	// cpu is what pods and daemon pods may request together, in thousandths.
	cpu int64
	// charges are those of the instance type.
	charges *catalog.Charges
	// supply is what nodes of the offer are taken from that holds no more than so much: a capacity reservation, or the commitments that pay
	// for them; empty for none. draw is how much one node takes.
	supply string
	draw   int64
	// covered is the name of the commitments that pay for nodes of the offer; empty for none. Such an offer stands for the same offering of EC2
	// as the one before it that has none.
	covered string
}

// market is what can be bought: the NodePools, their instance types and their offers, each known by its index.
type market struct {
	// probation is the offers whose launches failed lately.
	probation probation
	pools     []pool
	offers    []offer
	types     []shape
	// moreValues is how many values of a label, beside one, stand for an endless choice, by key.
	moreValues map[string]int
	// regions by zone.
	regions map[string]string
	// sizes finds the offers that are large enough; known once the daemon pods are taken off.
	sizes *sizes
	// matched are the offers that requirements match, by pool and requirements. They must not be changed.
	matches map[string]bitset.Set
	// available holds the offers that can be bought now.
	available bitset.Set
	// newLabels are the label keys that a new node of any pool may have.
	newLabels map[string]bool
}

func newPool(np catalog.NodePool) pool {
	p := pool{NodePool: np, labels: map[string]string{}, open: map[string]catalog.Set{}}
	maps.Copy(p.labels, np.Labels)
	for _, k := range []struct{ key, value string }{{labelNodePool, np.Name}, {catalog.LabelNodeClass, np.NodeClass}} {
		if _, ok := p.labels[k.key]; !ok {
			p.labels[k.key] = k.value
		}
	}
	p.reqs, p.broken = catalog.NewRequirements(np.Requirements)
	if key, bad := p.reqs.Conflict(); bad {
		p.broken = fmt.Errorf("they contradict each other: no value of %s is allowed", key)
	}
	for k, s := range p.reqs {
		if _, fixed := p.labels[k]; !fixed && !wellKnown(k) {
			p.open[k] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(np.Limits)) {
		q, used := np.Limits[name], np.Usage[name]
		p.limits = append(p.limits, limit{name: name, max: amount(name, q), used: amount(name, used), before: amount(name, used)})
	}
	return p
}

// newLabels returns the label keys that a new node of any of the pools may have.
func newLabels(pools []pool, types []shape) map[string]bool {
	out := sharedLabels()
	for i := range pools {
		addPoolLabels(out, &pools[i])
	}
	for i := range types {
		addTypeLabels(out, types[i].InstanceType)
	}
	return out
}

// NewLabels returns the label keys that a new node of the NodePool may have as one of the instance types, as catalog.NormalKey.
func NewLabels(np catalog.NodePool, types []catalog.InstanceType) map[string]bool {
	out, p := sharedLabels(), newPool(np)
	addPoolLabels(out, &p)
	for i := range types {
		addTypeLabels(out, &types[i])
	}
	return out
}

// sharedLabels returns the label keys of all new nodes.
func sharedLabels() map[string]bool {
	return map[string]bool{
		corev1.LabelHostname: true, corev1.LabelTopologyZone: true, labelCapacityType: true, catalog.LabelZoneID: true, labelRegistered: true, labelInitialized: true,
		corev1.LabelTopologyRegion: true, corev1.LabelInstanceTypeStable: true,
	}
}

func addPoolLabels(out map[string]bool, p *pool) {
	for k := range p.labels {
		out[k] = true
	}
	for k := range p.open {
		out[k] = true
	}
}

func addTypeLabels(out map[string]bool, t *catalog.InstanceType) {
	for k := range t.Labels {
		out[k] = true
	}
	if slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return o.ReservationID != "" }) {
		for _, k := range catalog.ReservationLabelKeys() {
			out[k] = true
		}
	}
}

// labelOf is the value of a node's label under a normal key, if the offer decides it.
func labelOf(p *pool, s *shape, o *offer, key string) (string, bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.Zone, true
	case labelCapacityType:
		return o.CapacityType, true
	case catalog.LabelZoneID:
		return o.ZoneID, o.ZoneID != ""
	case catalog.LabelReservationID, catalog.LabelReservationType, catalog.LabelReservationInterruptible:
		return o.ReservationLabel(key)
	case labelRegistered, labelInitialized:
		return "true", true // Every node gets them once it is there; the claim does not carry them.
	}
	if v, ok := p.labels[key]; ok {
		return v, true
	}
	if v, ok := s.Labels[key]; ok {
		return v, true
	}
	switch key {
	case corev1.LabelTopologyRegion:
		return o.region, true
	case corev1.LabelInstanceTypeStable:
		return s.Name, true
	}
	return "", false
}

// label is labelOf for an offer.
func (mk *market) label(oi int, key string) (string, bool) {
	o := &mk.offers[oi]
	return labelOf(&mk.pools[o.pool], &mk.types[o.shape], o, key)
}

// weights are those of the pools, highest first.
func (mk *market) weights() []int32 {
	var out []int32
	for _, p := range mk.pools {
		if !slices.Contains(out, p.Weight) {
			out = append(out, p.Weight)
		}
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(b, a) })
	return out
}

// usageOf is what a node of the offer counts against each limit of its pool.
func usageOf(mk *market, oi int) []int64 {
	if own := mk.offers[oi].usage; own != nil {
		return own
	}
	return mk.types[mk.offers[oi].shape].usage
}

// withinLimits says that the limits have room for a node of the offer.
func (mk *market) withinLimits(oi int) bool {
	o := &mk.offers[oi]
	for i, used := range usageOf(mk, oi) {
		if l := mk.pools[o.pool].limits[i]; l.used+used > l.max {
			return false
		}
	}
	return true
}

func (mk *market) each(set bitset.Set, keep func(int) bool) bitset.Set {
	out := bitset.New(len(mk.offers))
	set.Each(func(oi int) {
		if keep(oi) {
			out.Add(oi)
		}
	})
	return out
}

func (mk *market) dropPool(set bitset.Set, pi int) {
	for oi := mk.pools[pi].offers[0]; oi < mk.pools[pi].offers[1]; oi++ {
		set.Remove(oi)
	}
}

// region is regionOf, remembered.
func (mk *market) region(zone string) string {
	r, ok := mk.regions[zone]
	if !ok {
		if mk.regions == nil {
			mk.regions = map[string]string{}
		}
		r = regionOf(zone)
		mk.regions[zone] = r
	}
	return r
}

// values are what a node of the offer may have under the key: one, unless the pool leaves the choice to the pods. Where
// that choice is endless, one value stands for all, or so many more as pods that must be apart need.
func (mk *market) values(demands []catalog.Requirements, oi int, key string) []string {
	if v, ok := mk.label(oi, key); ok {
		return []string{v}
	}
	set := mk.openTo(demands, oi, key)
	if !set.Complement {
		return set.List()
	}
	set.Absent = false
	return set.Numbers(1 + mk.moreValues[key])
}

// openTo returns the values of a label that the offer's pool leaves to pods with the demands; none for other labels.
func (mk *market) openTo(demands []catalog.Requirements, oi int, key string) catalog.Set {
	p := mk.offers[oi].pool
	if asked, demanded := demands[p][key]; demanded {
		return asked
	}
	return mk.pools[p].open[key]
}

// addValues adds values to a set of them. Most offers share a label's few values: looking is cheaper than writing.
func (mk *market) addValues(set map[string]bool, demands []catalog.Requirements, oi int, key string) {
	if v, ok := mk.label(oi, key); ok {
		if !set[v] {
			set[v] = true
		}
		return
	}
	for _, v := range mk.values(demands, oi, key) {
		set[v] = true
	}
}

// mayLack says that a node of the offer may be without the label.
func (mk *market) mayLack(demands []catalog.Requirements, oi int, key string) bool {
	if _, ok := mk.label(oi, key); ok {
		return false
	}
	p := mk.offers[oi].pool
	set, ok := mk.pools[p].open[key]
	if asked, demanded := demands[p][key]; demanded {
		set = asked
	}
	return !ok || set.Absent
}

// inDomain says that a node of the offer can have the values, and none of the keys that have no value.
func (mk *market) inDomain(demands []catalog.Requirements, oi int, keys []string, values map[string]string) bool {
	for _, k := range keys {
		v, has := values[k]
		if own, fixed := mk.label(oi, k); fixed {
			if !has || own != v {
				return false
			}
			continue
		}
		if has && !mk.openTo(demands, oi, k).Has(v) || !has && !mk.mayLack(demands, oi, k) {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// wellKnown says that only the instance type, the offering or the NodePool itself set the label, never a pod.
func wellKnown(key string) bool {
	switch key {
	case corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable, corev1.LabelArchStable,
		corev1.LabelOSStable, corev1.LabelWindowsBuild, corev1.LabelHostname, catalog.LabelZoneID, nodematch.FieldName:
		return true
	case catalog.LabelPlacementGroupPartition:
		return false // The pods of a node choose among the partitions of the class's placement group.
	}
	return strings.HasPrefix(key, "karpenter.k8s.aws/") || strings.HasPrefix(key, "karpenter.sh/")
}

// priced says that the offering has a price to reckon with.
func priced(o *catalog.Offering) bool { return o.Price > 0 && !math.IsInf(o.Price, 1) }

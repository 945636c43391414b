package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// note keeps a reason that was found on the way, for a class in a pool.
func (ex *explainer) note(ci, pi int, r Reason) {
	if ex.notes == nil {
		ex.notes = map[[2]int]Reason{}
	}
	r.NodePool = ex.market.pools[pi].Name
	ex.notes[[2]int{ci, pi}] = r
}

// unplaced lists the pods that next does not name, with one reason per pool.
func (ex *explainer) unplaced(next []int) []Unplaced {
	var out []Unplaced
	for ci := range ex.classes {
		c := &ex.classes[ci]
		if next[ci] == len(c.refs) {
			continue
		}
		out = append(out, Unplaced{Class: ci, Pods: slices.Clone(c.refs[next[ci]:]), Reasons: ex.reasons(ci)})
	}
	return out
}

// reasons are why pods of the class found no node: one that holds for all pools, or one per pool.
func (ex *explainer) reasons(ci int) []Reason {
	if r := ex.classes[ci].broken; r != nil {
		return []Reason{*r}
	}
	if r, ok := ex.lessons.held[ci]; ok {
		return []Reason{r}
	}
	if len(ex.market.pools) == 0 {
		return []Reason{{Code: NotReady, Message: "there is no NodePool"}}
	}
	var out []Reason
	for pi := range ex.market.pools {
		out = append(out, ex.reason(ci, pi))
	}
	return out
}

// reason is the first thing that keeps the class out of the pool.
func (ex *explainer) reason(ci, pi int) Reason {
	c, p := &ex.classes[ci], &ex.market.pools[pi]
	say := func(code, format string, args ...any) Reason {
		return Reason{NodePool: p.Name, Code: code, Message: fmt.Sprintf(format, args...)}
	}
	if r, ok := ex.notes[[2]int{ci, pi}]; ok {
		return r
	}
	if r, ok := ex.lessons.notes[[2]int{ci, pi}]; ok {
		return r
	}
	for oi := p.offers[0]; oi < p.offers[1]; oi++ {
		if c.fits.Has(oi) && ex.market.probation.buyable(oi) {
			// A node that runs one pod could be launched: it is other pods that it lacks, or may not be with.
			r := ex.relation(ci)
			r.NodePool = p.Name
			return r
		}
	}
	// What the pod itself decides against the pool comes before the pool's own state, which then does not concern it.
	if set, ok := excluded(c.terms, p.Name); ok {
		return say(NotSelected, "requires %s %s%s%s", labelNodePool, setText(set), c.of(labelNodePool), unnamed(set, ex.market.pools))
	}
	if taint, ok := nodematch.Tolerates(c.pod.Spec.Tolerations, p.Taints); !ok {
		return say("TaintNotTolerated", "does not tolerate the pool's taint %s", taint.ToString())
	}
	if p.broken != nil {
		return say(NotReady, "the pool's requirements cannot be read: %v", p.broken)
	}
	if c.termsErr != nil {
		return say("RequirementsConflict", "%v", c.termsErr)
	}
	if !p.Ready {
		if text := ownConflict(ex.market, c, p); text != "" {
			return say("RequirementsConflict", "%s", text)
		}
		return say(NotReady, "the pool is not ready: %s", p.NotReadyMessage)
	}
	if p.types[0] == p.types[1] {
		return say("NoInstanceTypeFits", "%s", ex.noTypes(p))
	}
	labelled := bitset.New(len(ex.market.offers))
	for _, term := range c.terms {
		labelled.Union(ex.market.matching(p, term))
	}
	if labelled.Empty() {
		return say("RequirementsConflict", "%s", ex.market.conflict(c, p))
	}
	return ex.reasonBySize(ci, p, labelled)
}

// reasonBySize goes on from the offers whose labels match.
func (ex *explainer) reasonBySize(ci int, p *pool, labelled bitset.Set) Reason {
	c := &ex.classes[ci]
	r := Reason{NodePool: p.Name}
	if c.lacks != "" {
		q := PodRequests(c.pod)[c.lacks]
		r.Code, r.Message = "NoInstanceTypeFits", fmt.Sprintf("asks for %s %s; no type of the pool has any%s", figure(c.lacks, amount(c.lacks, q)), resourceText(c.lacks), noneBecause(c.lacks))
		return r
	}
	fits := ex.market.each(labelled, func(oi int) bool { return ex.market.offers[oi].free.times(c.need) > 0 })
	if fits.Empty() {
		r.Code = "NoInstanceTypeFits"
		r.Message, r.Nearest = ex.tooLarge(c, labelled)
		return r
	}
	holders := ex.fitter.portHolders(c)
	free := ex.market.each(fits, func(oi int) bool { return !ex.fitter.onAny(holders, oi) })
	if free.Empty() {
		r.Code, r.Message = "NoInstanceTypeFits", "asks for a host port that a daemon pod takes on every node of the pool"
		return r
	}
	free = ex.market.each(free, func(oi int) bool { return !ex.fitter.daemonApart(c, oi) })
	if free.Empty() {
		daemon := ex.fitter.daemons[c.hostile[0].daemon].pod
		r.Code, r.Message = "AffinityUnsatisfiable", "required anti-affinity keeps it apart from the pods of DaemonSet "+daemon.Namespace+"/"+daemon.Name+", which run on every node of the pool"
		return r
	}
	near := ex.market.each(free, func(oi int) bool { return !ex.fitter.isBlocked(c, oi) })
	near.Intersect(ex.fitter.apart(c, p))
	if near.Empty() {
		r.Code, r.Message = "AffinityUnsatisfiable", "running pods have required anti-affinity against it wherever the pool can launch"
		return r
	}
	kept := ex.market.each(near, func(oi int) bool { return !ex.fitter.rejects(c, oi) })
	if kept.Empty() {
		r.Code, r.Message = "FilterRejected", ex.verdicts(c)
		return r
	}
	open := ex.market.each(kept, ex.market.available.Has)
	if open.Empty() {
		r.Code, r.Message = "NoOfferingAvailable", ex.market.sold(kept)
		return r
	}
	if ex.market.each(open, ex.market.withinLimits).Empty() {
		r.Code, r.Message = "LimitExceeded", ex.market.overLimit(p, open)
		return r
	}
	r = ex.relation(ci)
	r.NodePool = p.Name
	return r
}

// conflict names for each alternative of the class what it requires and the pool has not: the first key of it for which
// no offer of the pool has a value.
func (mk *market) conflict(c *class, p *pool) string {
	var all []string
	for _, term := range c.terms {
		for _, k := range sortedKeys(term) {
			one := bitset.New(len(mk.offers))
			one.Union(mk.matching(p, catalog.Requirements{k: term[k]}))
			if !one.Empty() {
				continue
			}
			all = append(all, conflictText(c, k, term[k], mk.allows(p, k, term[k])))
			break
		}
	}
	if len(all) == 0 {
		return "requires " + termsText(c.terms) + "; no offering of the pool has all of that at once"
	}
	return alternatives(all)
}

// NotReady is the code of a NodePool that may not launch anything, for now or until it is edited.
const NotReady = "NotReady"

// NotSelected is the code of a NodePool that is not among those that the pod selects by name. All such NodePools have the same message.
const NotSelected = "NodePoolNotSelected"

// unnamed says that there is no NodePool of the names that a pod selects; it is empty if there is one.
func unnamed(asked catalog.Set, pools []pool) string {
	var names []string
	for i := range pools {
		if asked.Has(pools[i].Name) {
			return ""
		}
		names = append(names, pools[i].Name)
	}
	slices.Sort(names)
	return "; there are " + catalog.Offered(asked, names)
}

// excluded returns which NodePools the pod selects, if it is not this one.
func excluded(terms []catalog.Requirements, pool string) (of catalog.Set, ok bool) {
	for _, t := range terms {
		set, named := t[labelNodePool]
		if !named || set.Has(pool) {
			return catalog.Set{}, false
		}
		of = set
	}
	return of, len(terms) > 0
}

// allows says why the pool has no value for the key that the class asks for.
func (mk *market) allows(p *pool, key string, asked catalog.Set) string {
	if key == corev1.LabelHostname || key == nodematch.FieldName {
		return "the names of nodes to launch are not known before"
	}
	set, limited := p.reqs[key]
	if v, ok := p.labels[key]; ok {
		return fmt.Sprintf("nodes of the pool have %s=%s", key, v)
	}
	if limited && asked.Intersect(set).Empty() {
		return fmt.Sprintf("the pool's requirement %s %s does not allow it", key, setText(set))
	}
	if _, ok := p.open[key]; ok {
		return "the pool allows " + setText(set)
	}
	values := mk.offered(p, key)
	switch {
	case len(values) == 0:
		return fmt.Sprintf("no node of the pool has the label %s", key)
	case key == corev1.LabelTopologyZone || key == catalog.LabelZoneID:
		return fmt.Sprintf("EC2NodeClass %s has subnets and types of the pool in %s only", p.NodeClass, catalog.ListText(values))
	case limited:
		return fmt.Sprintf("the pool allows %s and its types have %s", setText(set), catalog.Offered(asked, values))
	}
	return "types of the pool have " + catalog.Offered(asked, values)
}

// offered are the values of the key over the offers of the pool, sorted.
func (mk *market) offered(p *pool, key string) []string {
	var values []string
	for oi := p.offers[0]; oi < p.offers[1]; oi++ {
		if v, ok := mk.label(oi, key); ok && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, byNumber)
	return values
}

// byNumber orders numbers before other texts, by their value.
func byNumber(a, b string) int {
	x, errA := strconv.Atoi(a)
	y, errB := strconv.Atoi(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(x, y)
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// tooLarge names the resource that decides, and the node that comes nearest, with what it has of each resource that is short.
func (ex *explainer) tooLarge(c *class, set bitset.Set) (text string, nearest Nearest) {
	best, bestShare := -1, 0.0
	for oi := range ex.market.offers {
		if !set.Has(oi) {
			continue
		}
		if s := share(c.need, ex.market.offers[oi].free); best < 0 || s < bestShare {
			best, bestShare = oi, s
		}
	}
	o := &ex.market.offers[best]
	var asks, has []string
	for d, n := range c.need {
		if n > 0 && ex.market.each(set, func(oi int) bool { return ex.market.offers[oi].free[d] > 0 }).Empty() {
			return fmt.Sprintf("asks for %s %s; no type of the pool has any%s", figure(ex.dims[d], n), resourceText(ex.dims[d]), noneBecause(ex.dims[d])), Nearest{}
		}
		if n > max(o.free[d], 0) {
			switch ex.dims[d] {
			case corev1.ResourceCPU:
				nearest.MilliCPU = o.free[d]
			case corev1.ResourceMemory:
				nearest.Bytes = o.free[d]
			default: // Of others an instance type has more, or none.
			}
			asks = append(asks, figure(ex.dims[d], n)+" "+resourceText(ex.dims[d]))
			has = append(has, figure(ex.dims[d], max(o.free[d], 0)))
		}
	}
	return fmt.Sprintf("asks for %s; nearest type of the pool, %s, has %s allocatable beside daemon pods",
		strings.Join(asks, " and "), ex.market.types[o.shape].Name, strings.Join(has, " and ")), nearest
}

// noneBecause explains why no instance type has a resource that users may expect; empty for others.
func noneBecause(name corev1.ResourceName) string {
	if hugePages(name) {
		return ": EC2 offers instances without huge pages, which nodes have once they are reserved there"
	}
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods {
		return " left: daemon pods and spec.kubelet of its EC2NodeClass take what each type has"
	}
	return ""
}

// resourceText is the resource as a human would call it.
func resourceText(name corev1.ResourceName) string {
	if driver, ok := strings.CutPrefix(string(name), attachPrefix); ok {
		return "volumes of " + driver
	}
	return string(name)
}

// explainer says why pods have no node.
type explainer struct {
	in        *Input
	market    *market
	relations *relations.Relations
	fitter    *fitter
	classes   []class
	dims      dims
	lessons   *lessons
	// notes are reasons found on the way, by class and pool.
	notes map[[2]int]Reason
}

// lessons are what a try found out for those after it.
type lessons struct {
	// held are the reasons of classes that could be placed but must not be, such as the rest of a gang.
	held map[int]Reason
	// without is what a class cannot use, by class, and notes the reasons, by class and pool.
	without map[int][]refused
	notes   map[[2]int]Reason
}

// refused are offers that a class cannot use with what it demands of their pool's open keys: another alternative that demands something else
// may.
type refused struct {
	demand catalog.Requirements
	offers bitset.Set
}

func newLessons() *lessons {
	return &lessons{held: map[int]Reason{}, without: map[int][]refused{}, notes: map[[2]int]Reason{}}
}

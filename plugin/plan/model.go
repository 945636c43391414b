package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
)

// model is the input compiled to small integers: pools, offers and classes are known by their index.
type model struct {
	in        Input
	dims      dims
	pools     []pool
	offers    []offer
	types     []shape
	classes   []class
	daemons   []class
	rooms     []room
	rules     []rule
	nodeRules []nodeRule
	concerns  []concern
	// hosts are the spreads over hosts that are closed, by index.
	hosts []int
	peers peers
	memo  domainMemo
	// moreValues is how many values of a label, beside one, stand for an endless choice, by key.
	moreValues map[string]int
	// regions by zone.
	regions map[string]string
	// bins are the offers as packing sees them; nil until it asks.
	bins []binpack.Bin
	// available holds the offers that can be bought now.
	available bits
	// probation is the offers whose launches failed lately.
	probation probation
	// reserved is how many instances each capacity reservation still holds, by its id; nil for none.
	reserved map[string]int64
	// crowds are the pods on spot instances of one type in one zone where there is a limit to them; nil for none.
	crowds *spotLimit
	// forms are what claims have in common.
	forms map[string]*form
	// notes are reasons found on the way, by class and pool.
	notes map[[2]int]Reason
	// lessons are of earlier tries; again says that there are new ones, so that the plan has to be made anew.
	lessons *lessons
	again   bool
	// lost are the classes that will find no node, waiting those that require others; known once bundles are made.
	lost, waiting bits
	// podsPerNode is how many pods the roomiest node has room for.
	podsPerNode int
	// newLabels are the label keys that a new node of any pool may have.
	newLabels map[string]bool
	// gangs of the input, in the order of their first class.
	gangs []gang
	// problems are mistakes in the input.
	problems []Problem
}

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
	// types and offers are ranges of the model's lists.
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
	// usage is what one node counts against each of the pool's limits.
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
}

// class is an Input.Class, or a DaemonSet seen as one.
type class struct {
	key      string
	pod      *corev1.Pod
	refs     []catalog.PodRef
	need     vec
	terms    []catalog.Requirements
	termsErr error
	// own are the terms without what volumes and preferences add: they say which nodes a topology spread counts.
	own   []catalog.Requirements
	ports []port
	// shared are those of its volumes that other pods may use as well.
	shared []sharedVolume
	// fits are the offers one of whose nodes could run a pod of the class, were they available.
	fits bits
	// demands are what the class wants of the open keys, by pool; nil for nothing.
	demands []catalog.Requirements
	// rejected are the filters' verdicts on offers; barred are those on rooms, by the node's name.
	rejected []Rejection
	barred   map[string]string
	// perNode is how many one node may hold by a filter's verdict; 0 for any.
	perNode int
	// blocked are label values on which pods that exist do not tolerate the class.
	blocked map[string]map[string]bool
	// lacks is the first resource, by name, that the class asks for and that is no dimension: no instance type and no node has any. Empty
	// for none.
	lacks corev1.ResourceName
	// broken is why no node at all will do; nil where some might.
	broken *Reason
	// want are the preferences that the class is held to.
	want want
	// hostile are the daemons whose pods do not bear the class on their node, or the class them.
	hostile []hostility
}

// room is a node that exists or is in flight and has free resources.
type room struct {
	node     *Node
	inFlight bool
	labels   map[string]string
	free     vec
	ports    []port
	// attached are the volume claims of the pods there.
	attached map[string]bool
	// doubtful says that the node may never come.
	doubtful bool
}

// compile returns the input as a model. Where the context ends meanwhile, no class fits anything in it.
func compile(in Input, w wants, l *lessons) *model {
	m := &model{in: in, lessons: l}
	m.compileDims()
	m.compilePools()
	m.prepare()
	m.probation = newProbation(m)
	m.newLabels = newLabels(m.pools, m.types)
	m.compileReserved()
	for i, ds := range in.DaemonSets {
		pod := &corev1.Pod{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}
		pod.Namespace, pod.Name = ds.Namespace, ds.Name
		d := m.newClass(Class{Key: "daemonset " + itoa(int64(i)), Pod: pod}, want{})
		if invalidRequest(&pod.Spec, PodRequests(pod)) != "" {
			clear(d.need)
		}
		m.daemons = append(m.daemons, d)
	}
	m.takeDaemons()
	for i := range m.offers {
		m.podsPerNode = max(m.podsPerNode, int(m.offers[i].free[dimPods]))
	}
	for i, c := range in.Classes {
		m.classes = append(m.classes, m.newClass(c, w.of(i)))
		m.classes[i].fits, m.classes[i].demands = newBits(len(m.offers)), make([]catalog.Requirements, len(m.pools))
	}
	m.concerns = make([]concern, len(m.classes))
	// What the rest of this takes, roughly, in the units of packing.
	in.budget.Spend(len(m.classes) * (len(m.offers) + len(in.Nodes)) / 8)
	m.compileGangs()
	m.compileRooms()
	m.compileRules()
	known := map[string]fitted{}
	for i := range m.classes {
		if in.budget.Cancelled() {
			return m
		}
		c := &m.classes[i]
		m.applyRejections(c)
		c.hostile = m.hostile(c)
		c.fits, c.demands = m.fit(c, known)
		for w, unfit := range m.lessons.without[i] {
			c.fits[w] &^= unfit
		}
		if c.want.pod != nil {
			c.fits = m.probation.without(c.fits) // A preference is no need to wait for it.
		}
	}
	m.attend()
	m.softDomains()
	m.openDomains()
	m.compileNodeRules()
	m.findConcerns()
	return m
}

func (m *model) compileDims() {
	var lists []corev1.ResourceList
	for _, c := range m.in.Classes {
		lists = append(lists, PodRequests(c.Pod))
	}
	for _, ds := range m.in.DaemonSets {
		lists = append(lists, PodRequests(&corev1.Pod{Spec: ds.Spec.Template.Spec}))
	}
	var drivers []corev1.ResourceName
	for _, c := range m.in.Classes {
		for _, v := range c.Volumes {
			if v.Driver != "" {
				drivers = append(drivers, attachments(v.Driver))
			}
		}
	}
	m.dims = newDims(lists, m.in.resources(), drivers)
}

// compilePools sorts the pools by weight, highest first, then by name.
func (m *model) compilePools() {
	for _, name := range slices.Sorted(maps.Keys(m.in.Catalog.NodePools)) {
		m.pools = append(m.pools, newPool(m.in.Catalog.NodePools[name]))
	}
	slices.SortStableFunc(m.pools, func(a, b pool) int { return cmp.Compare(b.Weight, a.Weight) })
}

func newPool(np catalog.NodePool) pool {
	p := pool{NodePool: np, labels: map[string]string{}, open: map[string]catalog.Set{}}
	maps.Copy(p.labels, np.Labels)
	for _, k := range []struct{ key, value string }{{labelNodePool, np.Name}, {labelNodeClass, np.NodeClass}} {
		if _, ok := p.labels[k.key]; !ok {
			p.labels[k.key] = k.value
		}
	}
	normal := slices.Clone(np.Requirements)
	for i := range normal {
		normal[i].Key = NormalKey(normal[i].Key)
	}
	p.reqs, p.broken = catalog.NewRequirements(normal)
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

// labelOf is the value of a node's label under a normal key, if the offer decides it.
func labelOf(p *pool, s *shape, o *offer, key string) (string, bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.Zone, true
	case labelCapacityType:
		return o.CapacityType, true
	case labelZoneID:
		return o.ZoneID, o.ZoneID != ""
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

// newClass reads the needs of the class, held to what is wanted of its preferences.
func (m *model) newClass(c Class, w want) class {
	pod := c.Pod
	if w.pod != nil {
		pod = w.pod
	}
	if len(pod.Spec.TopologySpreadConstraints) == 0 && len(c.DefaultSpread) > 0 {
		pod = &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		pod.Spec.TopologySpreadConstraints = c.DefaultSpread
	}
	requests := PodRequests(c.Pod)
	out := class{key: c.Key, pod: pod, refs: c.Pods, need: m.dims.pod(requests), lacks: m.dims.lacking(requests), ports: hostPorts(&pod.Spec), barred: map[string]string{}, want: w}
	out.terms, out.termsErr = PodRequirements(pod)
	out.own = out.terms
	if w.pod != nil {
		out.own, _ = PodRequirements(c.Pod) // An error of it is one of the stricter pod, too.
	}
	if out.broken = unsupported(c.Pod, requests); out.broken == nil {
		m.addVolumes(&out, c.Volumes)
		out.shared = m.sharedVolumes(&out, c.Volumes)
	}
	return out
}

// takeDaemons takes the daemon pods that run on a node off its free resources.
func (m *model) takeDaemons() {
	for i := range m.daemons {
		d := &m.daemons[i]
		d.fits = newBits(len(m.offers))
		for pi := range m.pools {
			p := &m.pools[pi]
			if _, ok := Tolerates(d.pod.Spec.Tolerations, p.Taints); !ok || p.broken != nil {
				continue
			}
			for _, term := range d.terms {
				m.match(p, term, d.fits)
			}
		}
	}
	if len(m.daemons) == 0 {
		return
	}
	m.offers = slices.Clone(m.offers) // Others may have them, too.
	// Offers of a type share what they have.
	var from, last vec
	were, are := make([]bool, len(m.daemons)), make([]bool, len(m.daemons))
	for i := range m.offers {
		o := &m.offers[i]
		for j := range m.daemons {
			are[j] = m.daemons[j].fits.has(i)
		}
		if last == nil || &o.free[0] != &from[0] || !slices.Equal(are, were) {
			from, last = o.free, o.free.clone()
			for j := range m.daemons {
				if are[j] {
					last.add(m.daemons[j].need, -1)
				}
			}
			copy(were, are)
		}
		o.free = last
	}
}

// match adds to out the pool's offers whose labels meet the requirements; open keys are met if any value is left.
func (m *model) match(p *pool, reqs catalog.Requirements, out bits) {
	var byType, byOffer []string
	for _, k := range slices.Sorted(maps.Keys(reqs)) {
		set, ok := p.open[k]
		switch {
		case ok:
			if set.Intersect(reqs[k]).Empty() {
				return
			}
		case k == corev1.LabelTopologyZone || k == labelCapacityType || k == labelZoneID || k == corev1.LabelTopologyRegion:
			byOffer = append(byOffer, k)
		default:
			byType = append(byType, k)
		}
	}
	for ti := p.types[0]; ti < p.types[1]; ti++ {
		s := &m.types[ti]
		if !meets(reqs, byType, p, s, &m.offers[s.offers[0]]) {
			continue
		}
		for oi := s.offers[0]; oi < s.offers[1]; oi++ {
			if meets(reqs, byOffer, p, s, &m.offers[oi]) {
				out.set(oi)
			}
		}
	}
}

func meets(reqs catalog.Requirements, keys []string, p *pool, s *shape, o *offer) bool {
	for _, k := range keys {
		set := reqs[k]
		v, ok := labelOf(p, s, o, k)
		if !ok && !set.Absent || ok && !set.Has(v) {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

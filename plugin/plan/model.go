package plan

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// model is the input compiled to small integers: pools, offers and classes are known by their index.
type model struct {
	in      Input
	dims    dims
	classes []class
	rooms   []room
	// bins are what packing chooses from; empty until it asks.
	bins bins
	// lessons are of earlier tries; again says that there are new ones, so that the plan has to be made again.
	lessons    *lessons
	again      bool
	market     market
	relations  *relations.Relations
	fitter     fitter
	placer     placer
	colocation colocation
	supplies   supplies
	claimForms claimForms
	spotSpread spotSpread
	explainer  explainer
	listPrices listPrices
	gangRules  gangRules
}

// compile returns the input as a model. Where the context ends meanwhile, no class fits anything in it.
func compile(in Input, w wants, l *lessons) *model {
	m := &model{in: in, lessons: l}
	m.fitter = fitter{market: &m.market}
	m.compileDims()
	builder := marketBuilder{in: &m.in, market: &m.market, dims: m.dims}
	builder.compilePools()
	builder.prepare()
	m.market.probation = newProbation(&m.market, in.Now, in.MinValuesBestEffort)
	m.market.newLabels = newLabels(m.market.pools, m.market.types)
	m.supplies = supplies{market: &m.market}
	m.claimForms = claimForms{in: &m.in, market: &m.market, supplies: &m.supplies}
	m.supplies.compile(&m.in)
	for i, ds := range in.DaemonSets {
		pod := &corev1.Pod{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}
		pod.Namespace, pod.Name = ds.Namespace, ds.Name
		if InvalidRequest(pod) == "" {
			m.fitter.daemonSets = append(m.fitter.daemonSets, i)
			m.fitter.daemons = append(m.fitter.daemons, m.dims.newClass(Class{Key: "daemonset " + itoa(int64(i)), Pod: pod}, want{}))
		}
	}
	m.fitter.takeDaemons()
	m.market.sizes = newSizes(m.market.offers, len(m.dims))
	for i, c := range in.Classes {
		m.classes = append(m.classes, m.dims.newClass(c, w.of(i)))
		m.classes[i].fits, m.classes[i].demands = bitset.New(len(m.market.offers)), make([]catalog.Requirements, len(m.market.pools))
	}
	// What the rest of this takes, roughly, in the units of packing.
	in.budget.Spend(len(m.classes) * (len(m.market.offers) + len(in.Nodes)) / 8)
	m.gangRules = gangRules{in: &m.in, explainer: &m.explainer, classes: m.classes, lessons: l}
	m.gangRules.compileGangs()
	m.relations = m.newRelations()
	m.fitter.relations = m.relations
	m.fitter.compileHostility()
	m.placer = placer{market: &m.market, relations: m.relations, classes: m.classes, dims: m.dims}
	m.explainer = explainer{in: &m.in, market: &m.market, relations: m.relations, fitter: &m.fitter, classes: m.classes, dims: m.dims, lessons: l}
	m.listPrices = listPrices{market: &m.market, classes: m.classes, dims: m.dims, now: in.Now}
	m.spotSpread = spotSpread{in: &m.in, market: &m.market, classes: m.classes}
	m.compileRooms()
	m.colocation = colocation{in: &m.in, market: &m.market, relations: m.relations, placer: &m.placer, classes: m.classes, rooms: m.rooms}
	for i := range m.market.offers {
		m.colocation.podsPerNode = max(m.colocation.podsPerNode, int(m.market.offers[i].free[dimPods]))
	}
	rejected := byClass(in.Rejected)
	for i := range m.classes {
		if in.budget.Cancelled() {
			return m
		}
		c := &m.classes[i]
		c.apply(rejected[c.key])
		c.blocked = m.relations.Blocked(i)
		c.hostile = m.fitter.hostile(c)
		c.without = m.lessons.without[i]
		c.fits, c.demands = m.fitter.fit(c)
		if c.want.pod != nil {
			c.fits = m.market.probation.without(c.fits) // A preference is no need to wait for it.
		}
	}
	opened := openDomains{in: &m.in, market: &m.market, relations: m.relations, fitter: &m.fitter, classes: m.classes}
	opened.attend()
	opened.softDomains()
	opened.openDomains()
	m.colocation.compileNodeRules()
	m.relations.Index()
	return m
}

// newRelations returns the relations of the classes with each other and with the pods that exist.
func (m *model) newRelations() *relations.Relations {
	in := relations.Input{
		Classes: make([]relations.Class, len(m.classes)), Nodes: make([]relations.Node, len(m.in.Nodes)), Namespaces: m.in.Namespaces, Budget: m.in.budget,
	}
	for i := range m.classes {
		c := &m.classes[i]
		in.Classes[i] = relations.Class{
			Pod: c.pod, Planned: m.in.Classes[i].Pod, NodeAffinity: c.own, Priority: priority(c.pod), Excluded: c.broken != nil,
		}
		for _, s := range c.want.spread {
			in.Classes[i].SoftSpreads = append(in.Classes[i].SoftSpreads, s.SoftSpread)
		}
	}
	for i := range m.in.Nodes {
		n := &m.in.Nodes[i]
		in.Nodes[i] = relations.Node{Name: n.Name, Labels: n.Labels, Taints: n.Taints, Pods: n.Pods}
	}
	return relations.New(in)
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

// resources are those that any instance type or node of the input has.
func (in *Input) resources() map[corev1.ResourceName]bool {
	out := map[corev1.ResourceName]bool{}
	add := func(list corev1.ResourceList) {
		for name, q := range list {
			if q.Sign() > 0 {
				out[name] = true
			}
		}
	}
	for _, types := range in.Catalog.InstanceTypes {
		for i := range types {
			add(types[i].Allocatable)
		}
	}
	for i := range in.Nodes {
		add(in.Nodes[i].Free)
	}
	return out
}

// newRoomFiller returns the filler of the model's rooms.
func newRoomFiller(m *model) *roomFiller {
	return &roomFiller{
		in: &m.in, market: &m.market, relations: m.relations, colocation: &m.colocation, classes: m.classes, dims: m.dims, rooms: m.rooms,
	}
}

// newRelaxation returns the relaxation of the model.
func newRelaxation(m *model) *relaxation {
	return &relaxation{in: &m.in, market: &m.market, relations: m.relations, fitter: &m.fitter, colocation: &m.colocation, supplies: &m.supplies, classes: m.classes}
}

// newPreferenceCosts returns the estimates for the model's classes.
func newPreferenceCosts(m *model) *preferenceCosts {
	return &preferenceCosts{
		in: &m.in, market: &m.market, relations: m.relations, fitter: &m.fitter, colocation: &m.colocation, classes: m.classes, dims: m.dims, rooms: m.rooms,
	}
}

// closed says that the node in flight takes no more pods for now: EC2 has not launched it, and its NodePool is not ready, so that what else those pods could
// run on, and whether EC2 has capacity for the node, is not known.
func (m *model) closed(f catalog.InFlightNode) bool {
	return f.Phase <= catalog.PhaseRecorded && !m.in.Catalog.NodePools[f.NodePool].Ready
}

// compileRooms lists the nodes that have room.
func (m *model) compileRooms() {
	open := map[string]map[string]bool{}
	for i := range m.in.Nodes {
		n := &m.in.Nodes[i]
		f, inFlight := m.in.Catalog.InFlight[n.Name]
		if n.Free == nil || inFlight && m.closed(f) {
			continue
		}
		r := room{node: n, inFlight: inFlight, labels: nodematch.NodeLabels(n.Name, n.Labels), free: m.dims.node(n.Free, n.Attachable), doubtful: m.market.probation.doubtful(n, m.in.Catalog.InFlight)}
		if inFlight && f.Undecided() {
			if open[f.NodePool] == nil {
				open[f.NodePool] = NewLabels(m.in.Catalog.NodePools[f.NodePool], m.in.Catalog.TypesOf(f.NodePool))
			}
			r.open = open[f.NodePool]
		}
		for _, p := range n.Pods {
			r.ports = r.ports.union(hostPorts(&p.Spec))
			r.attach(p.Namespace, p.Spec.Volumes)
		}
		m.rooms = append(m.rooms, r)
	}
	// Nodes that run already come first: their room is there now.
	slices.SortStableFunc(m.rooms, func(a, b room) int {
		if a.inFlight != b.inFlight {
			if b.inFlight {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.node.Rank, b.node.Rank), strings.Compare(a.node.Name, b.node.Name))
	})
}

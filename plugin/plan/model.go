package plan

import (
	"cmp"
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
	classes   []class
	daemons   []class
	rooms     []room
	nodeRules []nodeRule
	memo      domainMemo
	// bins are the offers as packing sees them; nil until it asks.
	bins []binpack.Bin
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
	// gangs of the input, in the order of their first class.
	gangs []gang
	// problems are mistakes in the input.
	problems  []Problem
	market    market
	relations relations
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
	m.market.newLabels = newLabels(m.market.pools, m.market.types)
	m.compileReserved()
	for i, ds := range in.DaemonSets {
		pod := &corev1.Pod{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}
		pod.Namespace, pod.Name = ds.Namespace, ds.Name
		if InvalidRequest(pod) == "" {
			m.daemons = append(m.daemons, m.newClass(Class{Key: "daemonset " + itoa(int64(i)), Pod: pod}, want{}))
		}
	}
	m.takeDaemons()
	m.market.sizes = newSizes(m.market.offers, len(m.dims))
	for i := range m.market.offers {
		m.podsPerNode = max(m.podsPerNode, int(m.market.offers[i].free[dimPods]))
	}
	for i, c := range in.Classes {
		m.classes = append(m.classes, m.newClass(c, w.of(i)))
		m.classes[i].fits, m.classes[i].demands = newBits(len(m.market.offers)), make([]catalog.Requirements, len(m.market.pools))
	}
	m.relations = relations{in: &m.in, classes: m.classes, concerns: make([]concern, len(m.classes))}
	// What the rest of this takes, roughly, in the units of packing.
	in.budget.Spend(len(m.classes) * (len(m.market.offers) + len(in.Nodes)) / 8)
	m.compileGangs()
	m.compileRooms()
	m.relations.compileRules()
	for i := range m.classes {
		if in.budget.Cancelled() {
			return m
		}
		c := &m.classes[i]
		m.applyRejections(c)
		c.hostile = m.hostile(c)
		c.fits, c.demands = m.fit(c)
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
	m.relations.findConcerns()
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
		m.market.pools = append(m.market.pools, newPool(m.in.Catalog.NodePools[name]))
	}
	slices.SortStableFunc(m.market.pools, func(a, b pool) int { return cmp.Compare(b.Weight, a.Weight) })
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
		d.fits = newBits(len(m.market.offers))
		for pi := range m.market.pools {
			p := &m.market.pools[pi]
			if _, ok := Tolerates(d.pod.Spec.Tolerations, p.Taints); !ok || p.broken != nil {
				continue
			}
			for _, term := range d.terms {
				d.fits.or(m.market.matching(p, term))
			}
		}
	}
	if len(m.daemons) == 0 {
		return
	}
	m.market.offers = slices.Clone(m.market.offers) // Others may have them, too.
	// Offers of a type share what they have.
	var from, last vec
	were, are := make([]bool, len(m.daemons)), make([]bool, len(m.daemons))
	for i := range m.market.offers {
		o := &m.market.offers[i]
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

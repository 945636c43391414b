package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// class is an Input.Class, or a DaemonSet seen as one.
type class struct {
	key      string
	pod      *corev1.Pod
	refs     []catalog.PodRef
	need     vec
	terms    []catalog.Requirements
	termsErr error
	// own are the terms without what the profile, volumes, preferences and OffSpotTerms add: they say which nodes a topology spread counts.
	own   []catalog.Requirements
	ports portSet
	// origins are what requirements of the terms come from that are not the pod's own, by key.
	origins map[string]string
	// shared are those of its volumes that other pods may use as well.
	shared []sharedVolume
	// fits are the offers one of whose nodes could run a pod of the class, were they available.
	fits bitset.Set
	// demands are what the class wants of the open keys, by pool; nil for nothing.
	demands []catalog.Requirements
	// rejected are the filters' verdicts on offers; barred are those on rooms, by the node's name.
	rejected []Rejection
	barred   map[string]string
	// without is what earlier tries of the plan found that the class cannot use.
	without []refused
	// perNode is how many one node may hold by a filter's verdict; 0 for any.
	perNode int
	// blocked is where pods that exist forbid the class.
	blocked relations.Blocked
	// lacks is the first resource, by name, that the class asks for and that is no dimension: no instance type and no node has any. Empty
	// for none.
	lacks corev1.ResourceName
	// broken is why no node at all will do; nil where some might.
	broken *Reason
	// want are the preferences that the class is held to.
	want want
	// hostile are the daemons whose pods do not bear the class on their node, or the class them.
	hostile []hostility
	// repelling is the required anti-affinity of a DaemonSet's pod.
	repelling []relations.Term
}

// want is the preferences of one class that a plan is held to.
type want struct {
	// pod is the class's with preferred affinity turned into required; nil for as it is.
	pod *corev1.Pod
	// spread are the soft spreads to keep.
	spread []softSpread
	// untainted keeps off nodes with a PreferNoSchedule taint that the pod does not tolerate.
	untainted bool
}

// sharedVolume is a volume claim that other pods may use as well: a node attaches its volume once for all of them.
type sharedVolume struct {
	claim string
	dim   int
}

// hostility is a daemon that required anti-affinity keeps apart from a class, on whichever side it is, on nodes that have one of the keys.
type hostility struct {
	daemon int
	keys   []string
}

// softSpread wants the matching pods even over the values of a label.
type softSpread struct {
	// id of the preference it comes from, plus one; 0 for none.
	id int
	relations.SoftSpread
}

// wants are the preferences that a plan is held to, by class; nil for none.
type wants []want

func (w wants) of(ci int) want {
	if w == nil {
		return want{}
	}
	return w[ci]
}

// unit is what packing moves: one pod, or several that must share a node.
type unit struct {
	parts []relations.Part
	count int
	need  vec
	// fits are the offers that take one unit on an empty node; demands what it wants of the open keys, by pool.
	fits    bitset.Set
	demands []catalog.Requirements
	// last are the offers that a unit without a domain falls back on: with those on probation that fits lacks; nil for none.
	last bitset.Set
	// pinned says that the unit was given its domain: a node with it has to be in the zone it was planned in.
	pinned bool
	// domain is what it was given; nil for none.
	domain map[string]string
}

// modest reports whether the demands leave all labels as open as the NodePools do.
func modest(demands []catalog.Requirements) bool {
	return !slices.ContainsFunc(demands, func(d catalog.Requirements) bool { return len(d) > 0 })
}

// priority of the pod; 0 unless a PriorityClass or the pod says otherwise.
func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// newClass reads the needs of the class, held to what is wanted of its preferences.
func (d dims) newClass(c Class, w want) class {
	pod := c.Pod
	if w.pod != nil {
		pod = w.pod
	}
	if len(pod.Spec.TopologySpreadConstraints) == 0 && len(c.DefaultSpread) > 0 {
		pod = &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		pod.Spec.TopologySpreadConstraints = c.DefaultSpread
	}
	requests := PodRequests(c.Pod)
	out := class{key: c.Key, pod: pod, refs: c.Pods, need: d.pod(requests), lacks: d.lacking(requests), ports: hostPorts(&pod.Spec), barred: map[string]string{}, want: w}
	out.terms, out.termsErr = nodematch.PodRequirements(pod)
	out.own = out.terms
	if w.pod != nil {
		out.own, _ = nodematch.PodRequirements(c.Pod) // An error of it is one of the stricter pod, too.
	}
	if len(c.OffSpotTerms) > 0 {
		// What contradicts itself matches nothing, and is named as the reason.
		out.terms = slices.Collect(pairs(out.terms, c.OffSpotTerms))
	}
	if out.broken = unsupported(&c, requests); out.broken == nil {
		out.addAffinity(c.AddedAffinity)
	}
	if out.broken == nil {
		d.addVolumes(&out, c.Volumes)
		out.shared = d.sharedVolumes(&out, c.Volumes)
	}
	return out
}

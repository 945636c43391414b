package clusterview

import (
	"errors"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// Source is what a View is made of.
type Source struct {
	// Snapshot of the scheduler's cache; it must not change while the View is used. Required.
	Snapshot fwk.SharedLister
	// Now is when the plan is made; zero for a plan that takes each spot offering as settled. Provision sets it to that of its request.
	Now time.Time
	// Catalog with the nodes in flight.
	Catalog catalog.State
	// DaemonSets are those whose pods reserve resources on nodes in flight before the pods arrive.
	DaemonSets []*appsv1.DaemonSet
	// Pod returns a pod by reference, nil if it does not exist. Required.
	Pod func(catalog.PodRef) *corev1.Pod
	// Leave holds the UIDs of pods that are planned again: they are left out of the View, wherever they are.
	Leave map[types.UID]bool
	// Going holds the names of nodes that terminate: they take no pods, and their pods are no neighbors. Nil for none.
	Going map[string]bool
	// Kept lists pods that count as being on a node, by its NodeClaim or its name, wherever they are: displaced pods with a
	// reservation there, and their replacement pods. Nil for none.
	Kept func(nodeClaim, nodeName string) []*corev1.Pod
	// Volumes returns what the pods' volumes need, and CSINodes how many volumes existing nodes can attach. If either is nil,
	// nodes attach any number.
	Volumes *podclass.Volumes
	// CSINodes is described at Volumes.
	CSINodes fwk.CSINodeLister
	// Room reports whether an existing node may take pods, and is not only a neighbor: the scheduler has not tried the pods on it
	// yet. Nil for none.
	Room func(nodeName string) bool
	// TaintsGo means that taints of a Ready node by which kube-controller-manager says that it is not count as gone. It looks at Nodes every five seconds. Set
	// where the pods do not go to the node at once.
	TaintsGo bool
	// Rank returns the plan.Node.Rank of an existing node by its name. Nil for 0.
	Rank func(nodeName string) int
}

// View is the cluster with its nodes in flight.
type View struct {
	base fwk.SharedLister
	// all are the nodes of the snapshot with all of their pods, leave the pods that are planned again.
	all        []fwk.NodeInfo
	leave      map[types.UID]bool
	existing   []*framework.NodeInfo
	inFlight   map[string]*framework.NodeInfo
	daemonSets []*daemonSet
	// compiled are the daemonSets by the DaemonSet of the Source.
	compiled map[*appsv1.DaemonSet]*daemonSet
	logger   klog.Logger
	now      time.Time
	room     func(string) bool
	rank     func(string) int
	volumes  *podclass.Volumes
	csiNodes fwk.CSINodeLister
	// starting are the nodes in flight, types the instance types, by NodePool.
	starting map[string]catalog.InFlightNode
	types    map[string][]catalog.InstanceType
	// labels are the label keys of new nodes, by NodePool, as far as they were asked for.
	labels map[string]map[string]bool
}

// New returns a View of the source. It copies what it changes.
func New(logger klog.Logger, src Source) (*View, error) {
	if src.Snapshot == nil || src.Pod == nil {
		return nil, errors.New("world: Snapshot and Pod are required")
	}
	infos, err := src.Snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	v := &View{
		base: src.Snapshot, all: infos, leave: src.Leave, inFlight: map[string]*framework.NodeInfo{},
		compiled: map[*appsv1.DaemonSet]*daemonSet{}, logger: logger, now: src.Now, room: src.Room, rank: src.Rank, volumes: src.Volumes, csiNodes: src.CSINodes,
		starting: src.Catalog.InFlight, types: map[string][]catalog.InstanceType{},
		labels: map[string]map[string]bool{},
	}
	v.compile(src.DaemonSets)
	v.learnTypes(src.Catalog)
	starting := map[string]catalog.InFlightNode{}
	for _, n := range src.Catalog.InFlight {
		if n.NodeName != "" {
			starting[n.NodeName] = n
		}
	}
	running := map[string]*framework.NodeInfo{}
	for _, info := range infos {
		ni, ok := info.(*framework.NodeInfo)
		switch {
		case !ok || ni.Node() == nil || src.Going[ni.Node().Name]:
		case starting[ni.Node().Name].NodeClaim != "":
			running[ni.Node().Name] = ni
		default:
			v.existing = append(v.existing, withKept(without(logger, src.shown(ni), src.Leave), src))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(src.Catalog.InFlight)) {
		if n := src.Catalog.InFlight[name]; n.NodeName == "" || !src.Going[n.NodeName] {
			v.inFlight[name] = v.startingNode(src, n, running[n.NodeName])
		}
	}
	return v, nil
}

// compile reads the DaemonSets. It leaves out those whose pods can never run: counted, they would fill every node.
func (v *View) compile(list []*appsv1.DaemonSet) {
	for _, ds := range list {
		if d := newDaemonSet(ds); plan.InvalidRequest(d.template.Pod) == "" {
			v.daemonSets, v.compiled[ds] = append(v.daemonSets, d), d
		}
	}
}

// learnTypes records the instance types of each NodePool.
func (v *View) learnTypes(cat catalog.State) {
	for name, pool := range cat.NodePools {
		v.types[name] = cat.InstanceTypes[pool.TypesKey()]
	}
}

// shown returns the node without the taints that go.
func (s Source) shown(ni *framework.NodeInfo) *framework.NodeInfo {
	late := func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	}
	node := ni.Node()
	if !s.TaintsGo || !slices.ContainsFunc(node.Spec.Taints, late) || !conditions.NodeReady(node) {
		return ni
	}
	free, out := *node, ni.SnapshotConcrete()
	free.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), late)
	out.SetNode(&free)
	return out
}

// without returns the node without the pods. A node that has none of them is returned as it is.
func without(logger klog.Logger, ni *framework.NodeInfo, leave map[types.UID]bool) *framework.NodeInfo {
	if len(leave) == 0 {
		return ni
	}
	var out *framework.NodeInfo
	for _, p := range ni.Pods {
		if leave[p.GetPod().UID] {
			if out == nil {
				out = ni.SnapshotConcrete()
			}
			if err := out.RemovePod(logger, p.GetPod()); err != nil {
				logger.V(5).Info("Pod was gone from its node", "pod", klog.KObj(p.GetPod()), "err", err)
			}
		}
	}
	if out == nil {
		return ni
	}
	return out
}

// startingNode returns a node in flight as it will be once it is initialized: with the pods that run on it already, the pods
// promised to it and the DaemonSet pods that will come. Of one that EC2 has not launched yet these are all that may come: its labels are not all known.
func (v *View) startingNode(src Source, n catalog.InFlightNode, running *framework.NodeInfo) *framework.NodeInfo {
	node := VirtualNode(n.NodeClaim, maps.Clone(n.Labels), n.Taints, n.Allocatable)
	ni := framework.NewNodeInfo()
	ni.SetNode(node)
	have, daemons := map[types.UID]bool{}, map[intake.Controller]bool{}
	if running != nil {
		// Before its kubelet has joined, a Node declares nothing.
		if rn := running.Node(); rn.Status.NodeInfo.KubeletVersion != "" || rn.Status.DeclaredFeatures != nil {
			node.Status.DeclaredFeatures = rn.Status.DeclaredFeatures
			ni.SetNode(node)
		}
		for _, p := range running.Pods {
			pod := p.GetPod()
			have[pod.UID] = true
			daemons[intake.ControllerOf(pod)] = true
			if !src.Leave[pod.UID] {
				ni.AddPodInfo(p)
			}
		}
	}
	addPromised(ni, src, n, have)
	keep(ni, src.kept(n.NodeClaim, ""))
	if n.Undecided() {
		gets := v.newLabels(src.Catalog, n.NodePool)
		v.addDaemons(ni, daemons, func(ds *daemonSet) bool { return ds.mayRunOn(node, gets) })
	} else {
		v.AddDaemons(ni, daemons)
	}
	return ni
}

// newLabels returns the label keys that nodes of the NodePool have.
func (v *View) newLabels(cat catalog.State, pool string) map[string]bool {
	if v.labels[pool] == nil {
		v.labels[pool] = plan.NewLabels(cat.NodePools[pool], v.types[pool])
	}
	return v.labels[pool]
}

// addPromised adds the pods that are promised to a node in flight, except those that it has.
func addPromised(ni *framework.NodeInfo, src Source, n catalog.InFlightNode, have map[types.UID]bool) {
	for _, ref := range n.Pods {
		uid := types.UID(ref.UID)
		if have[uid] || src.Leave[uid] {
			continue
		}
		pod := src.Pod(ref)
		if pod == nil || pod.UID != uid {
			continue
		}
		// The resources for pods of a node that terminates are reserved for them until they are deleted, or released from their ReplicaSet. From then on
		// they are reserved for the replacement pods, which the controllers create at that moment.
		at, moving := pod.Spec.NodeName, !disruption.Leaves(pod)
		if at == "" || at == n.NodeName || n.ReplacesNode(at) && moving {
			have[uid] = true
			addPod(ni, pod)
		}
	}
}

// keep adds pods to a node, except those that it has.
func keep(ni *framework.NodeInfo, pods []*corev1.Pod) {
	for _, pod := range pods {
		if !slices.ContainsFunc(ni.Pods, func(p fwk.PodInfo) bool { return p.GetPod().UID == pod.UID }) {
			addPod(ni, pod)
		}
	}
}

// kept lists the pods that count as being on the node, without those that are planned again.
func (s Source) kept(nodeClaim, nodeName string) []*corev1.Pod {
	if s.Kept == nil {
		return nil
	}
	return slices.DeleteFunc(s.Kept(nodeClaim, nodeName), func(pod *corev1.Pod) bool { return s.Leave[pod.UID] })
}

// withKept returns the node with the pods that have a reservation there, or as it is if there are none.
func withKept(ni *framework.NodeInfo, src Source) *framework.NodeInfo {
	kept := src.kept("", ni.Node().Name)
	if len(kept) == 0 {
		return ni
	}
	out := ni.SnapshotConcrete()
	keep(out, kept)
	return out
}

// AddDaemons adds to the node the pods of the DaemonSets that fit it, except those that it has. It returns the DaemonSets by UID
// of their pods.
func (v *View) AddDaemons(ni *framework.NodeInfo, have map[intake.Controller]bool) map[types.UID]*appsv1.DaemonSet {
	return v.addDaemons(ni, have, func(ds *daemonSet) bool { return ds.runsOn(ni.Node()) })
}

func (v *View) addDaemons(ni *framework.NodeInfo, have map[intake.Controller]bool, runs func(*daemonSet) bool) map[types.UID]*appsv1.DaemonSet {
	out := map[types.UID]*appsv1.DaemonSet{}
	for _, ds := range v.daemonSets {
		if have[intake.Controller{Namespace: ds.Namespace, UID: ds.UID}] {
			continue
		}
		if runs(ds) {
			info := ds.pod(ni.Node().Name)
			ni.AddPodInfo(info)
			out[info.Pod.UID] = ds.DaemonSet
		}
	}
	return out
}

// Base returns the snapshot from which the View was made.
func (v *View) Base() fwk.SharedLister { return v.base }

// Existing returns the nodes that exist and are not in flight. Callers must not change them.
func (v *View) Existing() []*framework.NodeInfo { return v.existing }

// InFlight returns the nodes in flight by NodeClaim, as they will be once initialized. Callers must not change them.
func (v *View) InFlight() map[string]*framework.NodeInfo { return v.inFlight }

// RunsAll reports whether the node runs pods of all of the DaemonSets, which are those of the View.
func (v *View) RunsAll(node *corev1.Node, daemons map[types.UID]*appsv1.DaemonSet) bool {
	for _, ds := range daemons {
		if !v.compiled[ds].runsOn(node) {
			return false
		}
	}
	return true
}

// PlanNodes lists the nodes as the planner's input. The requests of DaemonSet pods are subtracted from Free, whether or not the
// pods have arrived.
func (v *View) PlanNodes() []plan.Node {
	out := make([]plan.Node, 0, len(v.existing)+len(v.inFlight))
	for _, ni := range v.existing {
		n := planNode(ni)
		if v.room != nil && v.room(ni.Node().Name) {
			n.Free, n.Attachable = free(ni), v.attachable(ni, nil)
			if v.rank != nil {
				n.Rank = v.rank(n.Name)
			}
		}
		out = append(out, n)
	}
	for _, name := range slices.Sorted(maps.Keys(v.inFlight)) {
		n, starting := planNode(v.inFlight[name]), v.starting[name]
		n.Free, n.Attachable = free(v.inFlight[name]), v.attachable(v.inFlight[name], &starting)
		out = append(out, n)
	}
	return out
}

func planNode(ni *framework.NodeInfo) plan.Node {
	n := plan.Node{Name: ni.Node().Name, Labels: ni.Node().Labels, Taints: ni.Node().Spec.Taints}
	if cordoned := (corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}); ni.Node().Spec.Unschedulable {
		// The scheduler's NodeUnschedulable reads the field, whether or not the taint is there yet.
		n.Taints = append(slices.Clone(n.Taints), cordoned)
	}
	if len(ni.Pods) > 0 {
		n.Pods = make([]*corev1.Pod, len(ni.Pods))
		for i, p := range ni.Pods {
			n.Pods[i] = p.GetPod()
		}
	}
	return n
}

func free(ni *framework.NodeInfo) corev1.ResourceList {
	a, r := ni.Allocatable, ni.Requested
	out := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(a.MilliCPU-r.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(a.Memory-r.Memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(a.EphemeralStorage-r.EphemeralStorage, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(a.AllowedPodNumber-len(ni.Pods)), resource.DecimalSI),
	}
	for name, have := range a.ScalarResources {
		out[name] = *resource.NewQuantity(have-r.ScalarResources[name], resource.DecimalSI)
	}
	return out
}

func addPod(ni *framework.NodeInfo, pod *corev1.Pod) { ni.AddPodInfo(podInfo(pod)) }

func podInfo(pod *corev1.Pod) *framework.PodInfo {
	// The error is about affinity terms that the API server accepted and that cannot be parsed. The pod counts without them, as
	// in the scheduler's cache.
	info, _ := framework.NewPodInfo(pod)
	return info
}

package plugin

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

// keptRoom is the room that is kept on a node for one pod that will leave another, and then for its successor.
type keptRoom struct {
	need roomNeed
	pod  *corev1.Pod
	// beside are the pods of the same owner that were on the node before: they took none of the room.
	beside map[types.UID]bool
}

// keptNodes is the room that is kept by the names of the nodes, for those who ask outside the planner's goroutine. What was
// published is not changed any more.
type keptNodes struct {
	rooms map[string][]keptRoom
	// owners have room kept for their pods.
	owners map[types.UID]bool
}

// published is what is kept, as others see it.
func (b bequests) published() *keptNodes {
	out := &keptNodes{rooms: map[string][]keptRoom{}, owners: map[types.UID]bool{}}
	for _, q := range b {
		if q.node == "" {
			continue
		}
		out.owners[q.owner] = true
		need := needOf(q.pod)
		need.owner, need.successor = q.owner, true
		out.rooms[q.node] = append(out.rooms[q.node], keptRoom{need: need, pod: q.pod, beside: q.beside})
	}
	for _, rooms := range out.rooms {
		slices.SortFunc(rooms, func(x, y keptRoom) int { return cmp.Compare(x.pod.UID, y.pod.UID) })
	}
	return out
}

// named notes the Nodes of claims in flight as soon as they have one: they take pods before the launcher says that they have joined.
func (b bequests) named(inFlight map[string]catalog.InFlightNode) {
	for uid, q := range b {
		if n := inFlight[q.claim]; q.node == "" && n.NodeName != "" {
			q.node = n.NodeName
			b[uid] = q
		}
	}
}

// lost says whether room is not kept any more that was kept before.
func (k *keptNodes) lost(now *keptNodes) bool {
	for node, rooms := range k.rooms {
		for _, r := range rooms {
			if !slices.ContainsFunc(now.rooms[node], func(other keptRoom) bool { return other.pod.UID == r.pod.UID }) {
				return true
			}
		}
	}
	return false
}

// from lists what is kept on the node from the pod. An heir may take its slot: one for each pod of its owner that has left, less
// what others of the owner have taken since.
func (k *keptNodes) from(pod *corev1.Pod, info fwk.NodeInfo, left func(*corev1.Pod) bool) []roomNeed {
	rooms := k.rooms[info.Node().Name]
	if len(rooms) == 0 {
		return nil
	}
	var out []roomNeed
	own := types.UID("")
	if ref := metav1.GetControllerOf(pod); ref != nil {
		own = ref.UID
	}
	done := map[types.UID]bool{}
	for i := range rooms {
		owner := rooms[i].need.owner
		if done[owner] {
			continue
		}
		done[owner] = true
		free := k.taken(rooms[i:], info)
		if owner == own && owner != "" {
			free += k.inherits(rooms[i:], free, left)
		}
		for _, r := range rooms[i:] {
			switch {
			case r.need.owner != owner, r.pod.UID == pod.UID, owner == "" && left(r.pod):
			case free > 0:
				free--
			default:
				out = append(out, r.need)
			}
		}
	}
	return out
}

// inherits is 1 where more pods of the first room's owner have left than successors came.
func (k *keptNodes) inherits(rooms []keptRoom, taken int, left func(*corev1.Pod) bool) int {
	gone := 0
	for _, r := range rooms {
		if r.need.owner == rooms[0].need.owner && left(r.pod) {
			gone++
		}
	}
	return min(max(gone-taken, 0), 1)
}

// taken counts the pods of the first room's owner that came to the node since its room is kept.
func (k *keptNodes) taken(rooms []keptRoom, info fwk.NodeInfo) int {
	owner, beside := rooms[0].need.owner, rooms[0].beside
	if owner == "" {
		return 0
	}
	n := 0
	for _, pi := range info.GetPods() {
		p := pi.GetPod()
		if ref := metav1.GetControllerOf(p); ref != nil && ref.UID == owner && !beside[p.UID] && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// left says whether the pod is leaving its node, or gone.
func (p *Plugin) left(pod *corev1.Pod) bool {
	current := p.pod(catalog.PodRefOf(pod))
	return current == nil || current.DeletionTimestamp != nil
}

// publishKept tells others where room is kept, and wakes the pods that were kept off room which is free again.
func (p *planner) publishKept() {
	if len(p.kept) == 0 {
		clear(p.succeeded)
	}
	p.kept.named(p.view.InFlight())
	out := p.kept.published()
	before := p.keptOn.Swap(out)
	p.consolidator.busy.Store(len(p.batch.Entries()) > 0)
	if before == nil || !before.lost(out) {
		return
	}
	for _, r := range p.reserve {
		p.activatePods(r.freed())
	}
}

// keeps says whether room is kept on the node.
func (p *Plugin) keeps(node string) bool {
	kept := p.keptOn.Load()
	return kept != nil && len(kept.rooms[node]) > 0
}

// podArrived hands a pod that was placed to the planner, where room is kept for its owner.
func (p *Plugin) podArrived(old, obj any) {
	kept := p.keptOn.Load()
	if kept == nil || len(kept.owners) == 0 {
		return
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if before, ok := old.(*corev1.Pod); ok && before.Spec.NodeName != "" {
		return
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && kept.owners[owner.UID] {
		p.inbox.arrive(pod)
	}
}

// arrived ends the room of pods whose successors have a place: on the node where it was kept, or elsewhere.
func (p *planner) arrived(pods []*corev1.Pod, now time.Time) {
	if len(pods) == 0 {
		return
	}
	p.kept.tidy(now, p.pod, p.leaving)
	for _, pod := range pods {
		if !p.succeeded[pod.UID] && p.kept.inherited(pod) { // Else its room was given up when it was planned.
			p.metrics.successors.Inc()
		}
		p.kept.beside(pod)
	}
}

// planned notes the successors whose room is given up because they are planned into it.
func (p *planner) planned(successors []intake.Entry) {
	p.metrics.successors.Add(float64(len(successors)))
	for _, e := range successors {
		p.succeeded[e.Pod.UID] = true
		p.kept.beside(e.Pod)
	}
}

// inherited gives up the room of one pod that left, for its successor that has come: on the successor's node first.
func (b bequests) inherited(successor *corev1.Pod) bool {
	owner := metav1.GetControllerOf(successor)
	var heirless []types.UID
	for uid, q := range b {
		if owner != nil && q.owner == owner.UID && !q.left.IsZero() && q.pod.UID != successor.UID {
			heirless = append(heirless, uid)
		}
	}
	if len(heirless) == 0 {
		return false
	}
	here := func(uid types.UID) int {
		if b[uid].node == successor.Spec.NodeName {
			return 0
		}
		return 1
	}
	slices.SortFunc(heirless, func(x, y types.UID) int { return cmp.Or(cmp.Compare(here(x), here(y)), cmp.Compare(x, y)) })
	delete(b, heirless[0])
	return true
}

// beside notes a pod that takes none of the room which is kept for others of its owner.
func (b bequests) beside(pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	for uid, q := range b {
		if q.owner == owner.UID && !q.beside[pod.UID] {
			q.beside = maps.Clone(q.beside) // What was published is read by others.
			q.beside[pod.UID] = true
			b[uid] = q
		}
	}
}

// siblings are the pods of an owner among the others.
func siblings(pods []fwk.PodInfo, owner types.UID) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, pi := range pods {
		if ref := metav1.GetControllerOf(pi.GetPod()); ref != nil && ref.UID == owner {
			out[pi.GetPod().UID] = true
		}
	}
	return out
}

// dropTaken gives up what is kept on nodes where others have taken of it, after the planner's snapshot, and names one of the pods
// that it was kept for; empty for none.
func (p *planner) dropTaken() (lost string) {
	rooms := p.kept.published()
	for _, node := range slices.Sorted(maps.Keys(rooms.rooms)) {
		info, err := p.snapshot.Get(node)
		if err != nil || starting(info.Node()) {
			continue // Nobody takes room there.
		}
		if needs := rooms.from(&corev1.Pod{}, info, p.left); !overdrawn(info, needs) && !p.needs.spoilt(info, needs) {
			continue
		}
		for uid, q := range p.kept {
			if q.node == node {
				lost = klog.KObj(q.pod).String()
				delete(p.kept, uid)
			}
		}
	}
	return lost
}

// starting says whether ordinary pods are kept off the node until it has joined.
func starting(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return startupTaint(t.Key) })
}

// overdrawn says whether the needs have no room beside what is on the node.
func overdrawn(info fwk.NodeInfo, needs []roomNeed) bool {
	have, used := info.GetAllocatable(), info.GetRequested()
	kept := total(needs)
	for name, q := range kept {
		if need := amount(name, q); need > 0 && need > available(name, have)-available(name, used) {
			return true
		}
	}
	return len(info.GetPods())+len(needs) > have.GetAllowedPodNumber()
}

package buffers

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// MostGroups is how many groups of takers one batch has at most, beside the other pods: each is planned by itself.
const MostGroups = 8

// takers are the pods that may take the room of one buffer.
type takers = *buffersize.Matcher

// reserved are the takers of reserved buffers, by namespace and by UID of the buffer. The inner maps never change.
type reserved map[string]map[string]takers

// Reserve replaces the reserved buffers of the namespace, by UID, with the pods that may take their room. Any pod may take the room of the others.
func (t *Table) Reserve(namespace string, of map[string]*buffersize.Matcher) {
	if len(of) == 0 {
		delete(t.reserved, namespace)
		return
	}
	t.reserved[namespace] = of
}

// takers returns the pods that may take the room of the buffer's pod, nil where any may.
func (r reserved) takers(pod *corev1.Pod) takers { return r[pod.Namespace][bufferOf(pod.UID)] }

// bufferOf returns the UID of the buffer of the pod.
func bufferOf(uid types.UID) string {
	text := strings.TrimPrefix(string(uid), catalog.VirtualUIDPrefix)
	if i := strings.LastIndexByte(text, '/'); i >= 0 {
		return text[:i]
	}
	return text
}

// EachReserved returns a function like Each of the pods whose room is reserved, but not of the named buffers, by UID.
func (t *Table) EachReserved(but map[string]bool) func(add func(pod *corev1.Pod, claim, node string)) {
	return func(add func(pod *corev1.Pod, claim, node string)) {
		t.Each(func(pod *corev1.Pod, claim, node string) {
			if t.reserved.takers(pod) != nil && !but[bufferOf(pod.UID)] {
				add(pod, claim, node)
			}
		})
	}
}

// Standing returns the reserved room by the names of the nodes, with the Nodes of the claims in flight that have one by now.
func (t *Table) Standing(inFlight map[string]catalog.InFlightNode) map[string][]reservations.Standing {
	if len(t.reserved) == 0 {
		return nil
	}
	out := map[string][]reservations.Standing{}
	for _, p := range t.places {
		node, of := cmp.Or(p.node, inFlight[p.claim].NodeName), t.reserved.takers(p.pod)
		if node == "" || of == nil {
			continue
		}
		need := reservations.NeedOf(p.pod)
		need.Name, need.Priority = "CapacityBuffer "+NameOf(p.pod), math.MaxInt32
		out[node] = append(out[node], reservations.Standing{Of: bufferOf(p.pod.UID), Takers: of, Need: need})
	}
	for _, rooms := range out {
		slices.SortFunc(rooms, func(x, y reservations.Standing) int { return cmp.Compare(x.Need.Pod.UID, y.Need.Pod.UID) })
	}
	return out
}

// Group is a part of a batch.
type Group struct {
	// Entries are the pods.
	Entries []intake.Entry
	// Buffers are those whose reserved room they may take, by UID; nil for none.
	Buffers map[string]bool
}

// Groups divides the pods of a batch by the buffers whose reserved room they may take. Those that may take none are the last group. A gang is not
// divided.
func (t *Table) Groups(entries []intake.Entry) []Group {
	if len(t.reserved) == 0 {
		return []Group{{Entries: entries}}
	}
	groups, gangs := map[string]*Group{}, map[string]string{}
	var order []string
	others := Group{}
	for _, e := range entries {
		key, known := gangs[e.Gang.Name]
		if !known || e.Gang.Name == "" {
			key = strings.Join(t.reserved.openTo(e.Pod), ",")
		}
		if groups[key] == nil && len(order) == MostGroups {
			key = ""
		}
		if e.Gang.Name != "" {
			gangs[e.Gang.Name] = key
		}
		switch {
		case key == "":
			others.Entries = append(others.Entries, e)
			continue
		case groups[key] == nil:
			groups[key] = &Group{Buffers: map[string]bool{}}
			for uid := range strings.SplitSeq(key, ",") {
				groups[key].Buffers[uid] = true
			}
			order = append(order, key)
		}
		groups[key].Entries = append(groups[key].Entries, e)
	}
	var out []Group
	for _, key := range order {
		out = append(out, *groups[key])
	}
	return append(out, others)
}

// openTo returns the buffers whose reserved room the pod may take, by UID, sorted.
func (r reserved) openTo(pod *corev1.Pod) []string {
	var out []string
	for namespace, of := range r {
		for uid, t := range of {
			if (namespace == pod.Namespace || t.Priority != nil) && t.Match(pod) {
				out = append(out, uid)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Took drops the room of as many pods of the named buffers on a node in flight as pods were promised it that may take it.
func (t *Table) Took(claim string, buffers map[string]bool, pods int) {
	if len(buffers) == 0 {
		return
	}
	for _, pod := range t.On(claim, "") {
		if !buffers[bufferOf(pod.UID)] {
			continue
		}
		if pods--; pods < 0 {
			return
		}
		t.Drop(pod.UID)
	}
}

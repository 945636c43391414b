package expect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/workload"
)

// KeyExpectGrowth is the annotation of pods with which a Deployment opts out: false.
const KeyExpectGrowth = "slipway.dev/expect-growth"

const (
	// Window is the time whose growth is expected once more.
	Window = 28 * time.Minute
	// Step is the time between two counts.
	Step = 4 * time.Minute
	// MostWorkloads is how many Deployments are counted: the largest ones. The others are not expected to grow.
	MostWorkloads = 5000
	// MostKept is for how many expected pods consolidation keeps room.
	MostKept = 200

	steps  = int(Window / Step)
	counts = 2*steps + 1
)

// Workload is a Deployment by namespace and name. The zero value is none.
type Workload struct{ Namespace, Name string }

// String is namespace/name.
func (w Workload) String() string { return w.Namespace + "/" + w.Name }

// WorkloadOf returns the Deployment of a pod: that of its ReplicaSet, so that a rollout is no growth, or a ReplicaSet that has none. It is zero for all
// other pods, and for those that opt out. Those of a Job come and go.
func WorkloadOf(pod *corev1.Pod) Workload {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil || c.Kind != "ReplicaSet" || pod.Annotations[KeyExpectGrowth] == "false" {
		return Workload{}
	}
	_, name := workload.Of(pod)
	return Workload{Namespace: pod.Namespace, Name: name}
}

// history is how many pods a Deployment had, the newest count first.
type history [counts]int32

// Growth has the counts of Deployments. The zero value has none. One goroutine uses it at a time; Of may be called beside others.
type Growth struct {
	at    time.Time
	known map[Workload]*history
	// bound are how many pods have a node.
	bound map[Workload]int
	// growing has a pod of each Deployment that is expected to add some, the newest one that has a node.
	growing map[Workload]*corev1.Pod
}

// Due reports whether pods are to be counted now.
func (g *Growth) Due(now time.Time) bool { return g.at.IsZero() || !now.Before(g.at.Add(Step)) }

// Observe counts the pods that there are, but those with scheduling gates, which may never run. A Deployment that was not counted before, as after a restart,
// had earlier those of them that are old enough.
func (g *Growth) Observe(now time.Time, pods []*corev1.Pod) {
	shift := counts
	if !g.at.IsZero() {
		shift = min(max(int((now.Sub(g.at)+Step/2)/Step), 1), counts)
	}
	g.at = now
	next, one, bound := map[Workload]*history{}, map[Workload]*corev1.Pod{}, map[Workload]int{}
	for _, pod := range pods {
		w := WorkloadOf(pod)
		if w == (Workload{}) || ends(pod) || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if next[w] == nil {
			next[w] = &history{}
		}
		next[w].count(now.Sub(pod.CreationTimestamp.Time))
		if pod.Spec.NodeName != "" {
			bound[w]++
			if last := one[w]; last == nil || last.CreationTimestamp.Before(&pod.CreationTimestamp) {
				one[w] = pod
			}
		}
	}
	for w, h := range next {
		if old := g.known[w]; old != nil && shift < counts {
			copy(h[shift:], old[:])
		}
	}
	g.known, g.growing, g.bound = largest(next), one, bound
	maps.DeleteFunc(g.growing, func(w Workload, _ *corev1.Pod) bool { return g.Of(w) == 0 })
}

// count adds a pod that is so old to the counts of the times at which it was there.
func (h *history) count(age time.Duration) {
	for i := 0; i < counts && (i == 0 || age >= time.Duration(i)*Step); i++ {
		h[i]++
	}
}

// Expected is pods that a Deployment is expected to add.
type Expected struct {
	// Workload that adds them.
	Workload Workload
	// Pods is their number.
	Pods int
	// Like is the newest pod of the Deployment that has a node.
	Like *corev1.Pod
}

// All returns what all Deployments are expected to add, the largest numbers first, but no more pods in all than that. Where that is less, namespaces have it in
// equal parts, as far as they need theirs.
func (g *Growth) All(most int) []Expected {
	var out []Expected
	for w, pod := range g.growing {
		out = append(out, Expected{Workload: w, Pods: g.Of(w), Like: pod})
	}
	slices.SortFunc(out, func(a, b Expected) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace), cmp.Compare(a.Workload.Name, b.Workload.Name))
	})
	parts := partsOf(out, most)
	for i := range out {
		of := &out[i]
		of.Pods = min(of.Pods, parts[of.Workload.Namespace])
		parts[of.Workload.Namespace] -= of.Pods
	}
	return slices.DeleteFunc(out, func(e Expected) bool { return e.Pods == 0 })
}

// partsOf returns how many of the pods each namespace has, if no more than most are wanted in all: they take one after the other in turns.
func partsOf(all []Expected, most int) map[string]int {
	wanted, parts := map[string]int{}, map[string]int{}
	var turns []string
	for _, e := range all {
		if wanted[e.Workload.Namespace] == 0 {
			turns = append(turns, e.Workload.Namespace)
		}
		wanted[e.Workload.Namespace] += e.Pods
	}
	for most > 0 && len(turns) > 0 {
		for _, namespace := range turns[:min(most, len(turns))] {
			parts[namespace]++
			most--
		}
		turns = slices.DeleteFunc(turns, func(namespace string) bool { return parts[namespace] == wanted[namespace] })
	}
	return parts
}

// ends reports whether the pod has ended or is about to.
func ends(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// largest returns the MostWorkloads largest ones.
func largest(all map[Workload]*history) map[Workload]*history {
	if len(all) <= MostWorkloads {
		return all
	}
	names := make([]Workload, 0, len(all))
	for w := range all {
		names = append(names, w)
	}
	slices.SortFunc(names, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(all[b][0], all[a][0]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, w := range names[MostWorkloads:] {
		delete(all, w)
	}
	return all
}

// Of returns how many pods the Deployment is expected to add: the smaller one of its growth in the last Window and in the one before. Pods that come at
// once are no growth that goes on. It is no more than it has on nodes.
func (g *Growth) Of(w Workload) int {
	h := g.known[w]
	if h == nil {
		return 0
	}
	return int(max(min(h[0]-h[steps], h[steps]-h[2*steps], int32(min(g.bound[w], math.MaxInt32))), 0))
}

package ondemand

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Source is what Split decides on.
type Source struct {
	// Shares are those of the NodePools.
	Shares Shares
	// Classes are the pods of the plan.
	Classes []plan.Class
	// Nodes are those that exist or are in flight, with their pods.
	Nodes []plan.Node
	// Pod returns a pod of a class; nil if only the class's is known.
	Pod func(catalog.PodRef) *corev1.Pod
}

// pod returns the pod of a reference, or the one that stands for its class.
func (s *Source) pod(c *plan.Class, ref catalog.PodRef) *corev1.Pod {
	if s.Pod != nil {
		if pod := s.Pod(ref); pod != nil {
			return pod
		}
	}
	return c.Pod
}

// Governed reports whether a share may hold for any of the pods.
func (s *Source) Governed() bool {
	if len(s.Shares) > 0 {
		return true
	}
	for i := range s.Classes {
		c := &s.Classes[i]
		if annotated(c.Pod) || slices.ContainsFunc(c.Pods, func(ref catalog.PodRef) bool { return annotated(s.pod(c, ref)) }) {
			return true
		}
	}
	return false
}

func annotated(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[catalog.OnDemandShareAnnotation]
	return ok
}

// workload is what is known of one.
type workload struct {
	Tally
	// own is the largest share that a pod asks for.
	own float64
	// planned counts the pods of the plan that have been divided.
	planned int
}

// Split takes as many pods of each workload off spot nodes as the shares demand: the last ones of the plan. They become classes of their own,
// behind the others, whose OffSpotTerms require nodes which are not interruptible. Problems are annotations that cannot be read.
func Split(s Source) (classes []plan.Class, problems []plan.Problem) {
	known := s.workloads(&problems)
	classes = slices.Clone(s.Classes)
	var kept []plan.Class
	for i := range classes {
		c := &classes[i]
		var free []catalog.PodRef
		byRule := map[string]int{}
		for _, ref := range c.Pods {
			pod := s.pod(c, ref)
			w := known[Workload(pod)]
			if ref.Virtual() || w == nil {
				free = append(free, ref)
				continue
			}
			pools, why := s.barred(pod, w)
			w.planned++
			if why == "" {
				free = append(free, ref)
				continue
			}
			rule := strings.Join(pools, ",")
			at, ok := byRule[rule]
			if !ok {
				at, byRule[rule] = len(kept), len(kept)
				kept = append(kept, offSpot(c, pools, why))
			}
			kept[at].Pods = append(kept[at].Pods, ref)
		}
		c.Pods = free
	}
	return append(classes, kept...), problems
}

// barred returns the NodePools whose interruptible nodes the workload's next pod may not use, and why; no pools and a reason for all of them.
func (s *Source) barred(pod *corev1.Pod, w *workload) (pools []string, why string) {
	if left := most(w.Pods, w.own) - w.onSpot(); w.own > 0 && w.planned >= left {
		return nil, says(pod, w.own, "", most(w.Pods, w.own), w.Pods)
	}
	for _, pool := range s.Shares.names() {
		if share := s.Shares[pool]; w.planned >= most(w.Pods, share)-w.Spot[pool] {
			if pools = append(pools, pool); why == "" {
				why = says(pod, share, pool, most(w.Pods, share), w.Pods)
			}
		}
	}
	return pools, why
}

// workloads counts the pods of each workload of the plan, where they run and in the plan. A pod that shows on two nodes is about to move: it
// counts once, and as interruptible if either node is.
func (s *Source) workloads(problems *[]plan.Problem) map[string]*workload {
	out := map[string]*workload{}
	for i := range s.Classes {
		c := &s.Classes[i]
		for _, ref := range c.Pods {
			if ref.Virtual() {
				continue
			}
			pod := s.pod(c, ref)
			name := Workload(pod)
			w := out[name]
			if w == nil {
				w = &workload{}
				out[name] = w
			}
			share, err := catalog.OnDemandShare(pod.Annotations)
			if err != nil && w.Pods == 0 {
				*problems = append(*problems, problem(pod, err))
			}
			w.own = max(w.own, share)
			w.Pods++
		}
	}
	seen := map[*corev1.Pod]map[string]string{}
	byUID := map[string]*corev1.Pod{}
	for i := range s.Nodes {
		for _, pod := range s.Nodes[i].Pods {
			if out[Workload(pod)] == nil || !Counts(pod) {
				continue
			}
			if before := byUID[string(pod.UID)]; before != nil && pod.UID != "" {
				if Interruptible(s.Nodes[i].Labels) {
					seen[before] = s.Nodes[i].Labels
				}
				continue
			}
			byUID[string(pod.UID)], seen[pod] = pod, s.Nodes[i].Labels
		}
	}
	for pod, labels := range seen {
		w := out[Workload(pod)]
		w.Add(labels)
		w.own = max(w.own, own(pod))
	}
	return out
}

// Counts reports whether a pod is one that its workload can count on: it is not ending, and has not ended.
func Counts(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// problem reports an annotation of a pod that cannot be read.
func problem(pod *corev1.Pod, err error) plan.Problem {
	field, message, _ := strings.Cut(err.Error(), ": ")
	return plan.Problem{Object: fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name), Field: field, Message: message}
}

// offSpot returns an empty class like c whose pods need a node that is not interruptible, or is of none of the NodePools. Its pod is a copy: plans
// count the pods of a class by it.
func offSpot(c *plan.Class, pools []string, why string) plan.Class {
	out := *c
	out.Pods, out.OffSpot, out.OffSpotTerms = nil, why, alternatives(pools)
	out.Key = c.Key + "/off-spot:" + strings.Join(pools, ",")
	pod := *c.Pod
	out.Pod = &pod
	return out
}

// alternatives are the requirements on a node's labels of which one must be met.
func alternatives(pools []string) []catalog.Requirements {
	var interruptible []string
	for _, t := range catalog.CapacityTypes() {
		if t.Interruptible {
			interruptible = append(interruptible, t.Name)
		}
	}
	out := []catalog.Requirements{notIn(labelCapacityType, interruptible)}
	if len(pools) > 0 {
		out = append(out, notIn(labelNodePool, pools))
	}
	return out
}

func notIn(key string, values []string) catalog.Requirements {
	not := catalog.Set{Values: map[string]bool{}, Complement: true, Absent: true}
	for _, v := range values {
		not.Values[v] = true
	}
	return catalog.Requirements{key: not}
}

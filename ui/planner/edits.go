package planner

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// mostGroups bounds each list of an answer about pending pods.
const mostGroups = 1000

// Edits is the answer of /local/v1/edits: what planning all pending pods gave.
type Edits struct {
	// Classes of pods that cannot be placed, the largest first, at most 1,000. Edits are searched for the first 20.
	Classes []edits.Unplaced `json:"classes"`
	// Held are pods that are not planned, since they wait for something other than a node or are not valid, the largest groups first, at most 1,000.
	Held []Group `json:"held"`
	// Placed are pods that the plan gives a place, the largest groups first, at most 1,000.
	Placed []Group `json:"placed"`
	// More is how many classes and groups more there are.
	More int `json:"more,omitempty"`
	// At is when the cluster was read: pods that came later are in none of the lists.
	At time.Time `json:"at"`
	// Refusals means that nothing is planned on what EC2 refuses now; without it that is not known.
	Refusals bool `json:"refusals"`
	// Notes are sentences about what was assumed.
	Notes []string `json:"notes"`
}

// Group is pods of an owner that the same holds for.
type Group struct {
	// Namespace of the pods.
	Namespace string `json:"namespace"`
	// Owner is their controller, such as "ReplicaSet web-5d4f", or "Pod web".
	Owner string `json:"owner"`
	// Pods by name, at most 100.
	Pods []string `json:"pods"`
	// Count is the number of pods.
	Count int `json:"count"`
	// Reason is why they are held.
	Reason string `json:"reason,omitempty"`
}

func (s *Server) findEdits(ctx context.Context) (Edits, error) {
	return s.edits.get(fresh, rests, func() (Edits, error) {
		w, err := s.world(ctx)
		if err != nil {
			return Edits{}, err
		}
		outcome, err := simulate.Run(ctx, w.Objects, w.Market, w.Options)
		if err != nil {
			return Edits{}, err
		}
		list, err := edits.Find(ctx, w, outcome, "")
		out := Edits{At: s.objects.begun, Refusals: w.Market.Refusals, Notes: notes(outcome)}
		pods := podsOf(w.Objects)
		out.Classes = capped(list, &out.More)
		out.Held = capped(held(outcome, pods), &out.More)
		out.Placed = capped(placed(outcome, pods), &out.More)
		return out, err
	})
}

// capped returns the first of a list, and adds how many more there are.
func capped[T any](list []T, more *int) []T {
	*more += max(len(list)-mostGroups, 0)
	return list[:min(len(list), mostGroups)]
}

// podsOf returns the pods of the objects by namespace/name.
func podsOf(objects *input.Objects) map[string]*corev1.Pod {
	out := make(map[string]*corev1.Pod, len(objects.Pods))
	for _, p := range objects.Pods {
		out[p.Namespace+"/"+p.Name] = p.Pod
	}
	return out
}

// groups are pods by namespace, owner and reason.
type groups struct {
	list []Group
	at   map[[3]string]int
	// pods are all of the cluster, by namespace/name.
	pods map[string]*corev1.Pod
}

// add adds a pod, given as namespace/name.
func (g *groups) add(pod, reason string) {
	namespace, name, _ := strings.Cut(pod, "/")
	owner := edits.OwnerOf(g.pods[pod], name)
	key := [3]string{namespace, owner, reason}
	i, ok := g.at[key]
	if !ok {
		i = len(g.list)
		g.at[key], g.list = i, append(g.list, Group{Namespace: namespace, Owner: owner, Reason: reason})
	}
	one := &g.list[i]
	one.Count++
	if len(one.Pods) < edits.MostPods {
		one.Pods = append(one.Pods, name)
	}
}

// sorted returns the groups, the largest first.
func (g *groups) sorted() []Group {
	slices.SortStableFunc(g.list, func(a, b Group) int { return b.Count - a.Count })
	return g.list
}

// held returns the pods that are not planned, with the reason.
func held(o *simulate.Outcome, pods map[string]*corev1.Pod) []Group {
	out := groups{list: []Group{}, at: map[[3]string]int{}, pods: pods}
	for _, h := range o.Held {
		out.add(h.Pod, h.Reason)
	}
	return out.sorted()
}

// placed returns the pods that the plan gives a place, on new nodes or others.
func placed(o *simulate.Outcome, pods map[string]*corev1.Pod) []Group {
	out := groups{list: []Group{}, at: map[[3]string]int{}, pods: pods}
	add := func(members []plan.Member) {
		for _, m := range members {
			for _, ref := range m.Pods {
				out.add(ref.Namespace+"/"+ref.Name, "")
			}
		}
	}
	for i := range o.Plan.Claims {
		add(o.Plan.Claims[i].Members)
	}
	for i := range o.Plan.Placements {
		add(o.Plan.Placements[i].Members)
	}
	return out.sorted()
}

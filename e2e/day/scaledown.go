package day

import (
	"sort"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller"

	"github.com/slipway-k8s/slipway/launcher/scalein"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// replica is a pod of a service.
type replica struct {
	object *corev1.Pod
	// node that it has a place on; empty while it waits for one.
	node string
	// created is when the pod came first.
	created time.Time
	// nodeReady is since when its node is ready; zero while it is not.
	nodeReady time.Time
	// used is the share of the node that pods request, if that decides which pods end first.
	used float64
	// cost is the pod's own deletion cost.
	cost string
}

// usedOf returns the shares of the nodes that pods request.
func usedOf(c *cluster) map[string]float64 {
	out := map[string]float64{}
	for name, pods := range podsOn(c) {
		if n := c.nodes[name]; n != nil {
			out[name] = consolidate.Used(n.object, pods)
		}
	}
	return out
}

// deleted returns the n pods that the ReplicaSet controller deletes, by its own rule: those without a node and those that are not ready first, then those
// of a low deletion cost, those that share their node with the most of their set, and the youngest ones.
func deleted(replicas []replica, n int, now time.Time) []string {
	list := controller.ActivePodsWithRanks{Now: metav1.NewTime(now)}
	on := map[string]int{}
	for i := range replicas {
		list.Pods = append(list.Pods, replicas[i].status())
		on[replicas[i].node]++
	}
	for _, p := range list.Pods {
		list.Rank = append(list.Rank, on[p.Spec.NodeName])
	}
	sort.Sort(list)
	var out []string
	for _, p := range list.Pods[:min(n, len(list.Pods))] {
		out = append(out, p.Name)
	}
	return out
}

// status is the pod as the controller sees it: ready where its node is. A pod that has moved is a new one.
func (r *replica) status() *corev1.Pod {
	out := *r.object
	switch {
	case r.used > 0:
		out.Annotations = map[string]string{corev1.PodDeletionCost: strconv.Itoa(int(1000 * r.used))}
	case r.cost != "":
		out.Annotations = map[string]string{corev1.PodDeletionCost: r.cost}
	}
	out.Spec.NodeName, out.CreationTimestamp = r.node, metav1.NewTime(r.created)
	if out.Status.StartTime != nil {
		out.CreationTimestamp = *out.Status.StartTime
	}
	if !r.nodeReady.IsZero() {
		since := metav1.NewTime(r.nodeReady)
		if since.Before(&out.CreationTimestamp) {
			since = out.CreationTimestamp
		}
		out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
	}
	return &out
}

// setCosts gives pods that the launcher binds to a new node their deletion costs. Those that the scheduler places have none.
func setCosts(pods map[string]*pod, members []plan.Member, on *corev1.Node) {
	for _, m := range members {
		for _, ref := range m.Pods {
			p := pods[ref.Name]
			if !scalein.Governed(p.object) {
				continue
			}
			kept := map[string]bool{}
			for _, other := range pods {
				if other.object.Labels["app"] == p.object.Labels["app"] && scalein.Kept(other.cost) {
					kept[other.node] = true
				}
			}
			p.cost = scalein.Cost(on, scalein.KeepsAnother(on.Name, kept))
		}
	}
}

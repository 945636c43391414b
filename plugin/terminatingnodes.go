package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// terminating plans room for the pods of nodes that will terminate, of all that wait together in one plan, and launches what is
// missing. Asked again about one, it plans for the pods whose room was lost since; the others have theirs.
func (d *displacer) terminating(ctx context.Context, all []terminationRequest, now time.Time) {
	answers := make([]api.NodeGoingAnswer, len(all))
	defer func() {
		cause := recover()
		if cause != nil {
			d.metrics.panics.WithLabelValues("NodeGoing").Inc()
		}
		d.publish()
		for i, g := range all {
			answer := &answers[i]
			if cause != nil {
				answer = &api.NodeGoingAnswer{Message: fmt.Sprintf("panic: %v", cause)}
			}
			reply(ctx, d.link, &api.Answer{Id: g.question.GetId(), Kind: &api.Answer_NodeGoing{NodeGoing: answer}})
		}
	}()
	if !d.view.Synced() {
		for i := range answers {
			answers[i].Message = "the catalog is not known yet"
		}
		return
	}
	d.reserved.Tidy(now)
	cat := d.view.State(nil, now)
	var entries []intake.Entry
	from, nodes, soon := map[types.UID]string{}, map[string]bool{}, map[string]bool{}
	for i, g := range all {
		own, err := d.podsOf(ctx, g, cat, now)
		if err != nil {
			answers[i].Message = err.Error()
			continue
		}
		nodes[g.node] = true
		for _, name := range g.question.GetLeaving() {
			soon[name] = true
		}
		for _, e := range own {
			if from[e.Pod.UID] == "" { // A node may be asked about twice.
				entries = append(entries, e)
			}
			from[e.Pod.UID] = g.node
		}
	}
	of := purpose{kind: api.Purpose_PURPOSE_TERMINATION, terminating: slices.Sorted(maps.Keys(nodes)), soon: soon}
	missing := missingRoom(d.provisioner.plan(ctx, entries, of).unplaced, from)
	cat = d.view.State(nil, now)
	names := slices.Sorted(maps.Keys(cat.InFlight))
	for i, g := range all {
		answer := &answers[i]
		for _, name := range names {
			if cat.InFlight[name].ReplacesNode(g.node) {
				answer.NodeClaims = append(answer.NodeClaims, name)
			}
		}
		answer.Message = cmp.Or(answer.GetMessage(), missing[g.node])
		klog.FromContext(ctx).V(1).Info("Planned for a node that goes", "node", g.node, "reason", g.reason, "pods", len(entries),
			"nodes", len(nodes), "nodeClaims", answer.GetNodeClaims(), "message", answer.GetMessage())
	}
}

// podsOf returns the pods that have to move when the node terminates and have no room elsewhere yet.
func (d *displacer) podsOf(ctx context.Context, g terminationRequest, cat catalog.State, now time.Time) ([]intake.Entry, error) {
	node, provided := g.node, d.provided(g.node, cat)
	asked := map[types.UID]bool{}
	for _, uid := range g.question.GetNodeGoing().GetPods() {
		asked[types.UID(uid)] = true
	}
	if err := d.snapshot.update(ctx); err != nil {
		return nil, err
	}
	info, err := d.snapshot.Get(node)
	if err != nil {
		return nil, fmt.Errorf("node %s is not in the scheduler's cache", node)
	}
	var out []intake.Entry
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		if mirror || ownedByDaemonSet(pod) || pod.DeletionTimestamp != nil || !d.queue.profiles.plans(pod) {
			continue
		}
		if provided[pod.UID] || len(asked) > 0 && !asked[pod.UID] {
			continue
		}
		out = append(out, intake.Entry{Pod: pod, At: now})
	}
	return out, nil
}

// provided returns the pods that room is reserved for, and those that nodes in flight were launched for because of the node.
func (d *displacer) provided(node string, cat catalog.State) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, n := range cat.InFlight {
		for _, ref := range n.Pods {
			if n.ReplacesNode(node) {
				out[types.UID(ref.UID)] = true
			}
		}
	}
	for _, uid := range d.reserved.Displaced() {
		out[uid] = true
	}
	return out
}

// missingRoom returns by node why its pods have no room elsewhere. from is the node of each pod.
func missingRoom(unplaced []plan.Unplaced, from map[types.UID]string) map[string]string {
	messages := map[string]string{}
	for _, u := range unplaced {
		seen := map[string]bool{}
		for _, ref := range u.Pods {
			if node := from[types.UID(ref.UID)]; !seen[node] {
				seen[node] = true
				messages[node] = strings.TrimPrefix(messages[node]+"; "+explain.Unplaced(u, ""), "; ")
			}
		}
	}
	return messages
}

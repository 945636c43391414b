package plugin

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// roomForMost plans room for as many as possible of the pods of nodes that terminate whatever the answer is, and launches what is
// missing. All requests have one plan, so that pods of different nodes share new ones.
func (d *displacer) roomForMost(ctx context.Context, requests []*roomRequest, now time.Time) {
	if err := d.snapshot.update(ctx); err != nil {
		for _, r := range requests {
			r.answer.NoRoom = err.Error()
		}
		return
	}
	d.reserved.DropTaken(d.snapshot.Get)
	cat := d.view.State(nil, now)
	entries := map[types.UID]intake.Entry{} // Two requests may name one pod.
	nodes, avoid := map[string]bool{}, map[string]bool{}
	problems := make([][]string, len(requests))
	for i, r := range requests {
		var own []intake.Entry
		own, problems[i] = d.displaced(r, cat, now)
		for _, e := range own {
			entries[e.Pod.UID] = e
		}
		d.buffers.Terminate(r.asked.GetNodeNames())
		maps.Copy(nodes, setOf(r.asked.GetNodeNames()))
		maps.Copy(avoid, setOf(r.asked.GetAvoid()))
	}
	of := purpose{kind: api.Purpose_PURPOSE_TERMINATION, terminating: slices.Sorted(maps.Keys(nodes)), avoid: avoid}
	ordered := make([]intake.Entry, 0, len(entries))
	for _, uid := range slices.Sorted(maps.Keys(entries)) {
		ordered = append(ordered, entries[uid])
	}
	got := d.provisioner.plan(ctx, ordered, of)
	for i, r := range requests {
		why := append(problems[i], r.reasons(got.unplaced)...)
		for _, n := range got.unrecorded {
			if slices.ContainsFunc(n.members, func(m plan.Member) bool { return r.names(m.Pods) }) {
				// The launcher knows of a change that the plan did not: it takes the name for that of a NodeClaim that has failed, and asks again.
				r.answer.NodeClaims, why = append(r.answer.NodeClaims, n.nodeClaim), append(why, n.why)
			}
		}
		r.answer.NoRoom = strings.Join(why, "; ")
	}
}

// names reports whether the request names one of the pods.
func (r *roomRequest) names(pods []catalog.PodRef) bool {
	return slices.ContainsFunc(pods, func(ref catalog.PodRef) bool { return r.pods[types.UID(ref.UID)] })
}

// reasons returns why pods of the request are not placed.
func (r *roomRequest) reasons(unplaced []plan.Unplaced) []string {
	var out []string
	for _, u := range unplaced {
		if r.names(u.Pods) {
			out = append(out, explain.Unplaced(u, "").Text())
		}
	}
	return out
}

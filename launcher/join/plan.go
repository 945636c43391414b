package join

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// plan returns when each promised pod is bound, in the order of the moments. It includes bound pods, so that earlier entries stay.
func plan(o Observed) []record.Bindings {
	var out []record.Bindings
	rules := bind.Rules()
	for _, s := range o.Slots {
		if s.Pod == nil {
			continue
		}
		v := rules.At(facts(o, s))
		out = record.AddBinding(out, record.Bindings{At: string(v.Moment), Rule: v.Code, Why: v.Reason}, string(s.Pod.UID))
	}
	for i := range out {
		slices.Sort(out[i].UIDs)
	}
	order := []string{string(bind.Launch), string(bind.Ready), string(bind.Scheduler)}
	slices.SortFunc(out, func(a, b record.Bindings) int {
		return cmp.Or(slices.Index(order, a.At)-slices.Index(order, b.At), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Why, b.Why))
	})
	return out
}

// summary returns a plan as one sentence.
func summary(plan []record.Bindings) string {
	words := map[string]string{string(bind.Launch): "at launch", string(bind.Ready): "when the node is ready", string(bind.Scheduler): "by the scheduler"}
	var parts []string
	for _, b := range plan {
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(b.UIDs), words[b.At], b.Why))
	}
	return "Promised pods are bound: " + strings.Join(parts, "; ")
}

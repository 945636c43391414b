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
	for _, s := range o.Slots {
		if s.Pod == nil {
			continue
		}
		v := bind.At(facts(o, s))
		i := slices.IndexFunc(out, func(b record.Bindings) bool {
			return b.At == string(v.Moment) && b.Rule == v.Code && b.Why == v.Reason
		})
		if i < 0 {
			i = len(out)
			out = append(out, record.Bindings{At: string(v.Moment), Rule: v.Code, Why: v.Reason})
		}
		out[i].Pods = append(out[i].Pods, s.Pod.Namespace+"/"+s.Pod.Name)
	}
	for i := range out {
		slices.Sort(out[i].Pods)
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
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(b.Pods), words[b.At], b.Why))
	}
	return "Promised pods are bound: " + strings.Join(parts, "; ")
}

package parity_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// property says what is wrong with a plan; nothing for nothing.
type property struct {
	name  string
	check func(ctx context.Context, l *lab, o *outcome) []string
}

func properties() []property {
	return []property{
		{name: "every pod once", check: everyPodOnce},
		{name: "the scheduler agrees", check: schedulerAgrees},
		{name: "alternatives hold the pods", check: alternativesHold},
		{name: "nothing launchable is left out", check: nothingLeftOut},
		{name: "bill and bound", check: billAndBound},
		{name: "limits", check: withinLimits},
		{name: "reservations", check: withinReservations},
		{name: "devices are declined", check: devicesDeclined},
		{name: "minValues", check: minValuesHold},
		{name: "the same plan for the same input", check: sameForSame},
		{name: "heavier NodePools first", check: heavierFirst},
		{name: "important pods first", check: importantFirst},
		{name: "gangs are whole", check: gangsWhole},
		{name: "preferences are priced", check: preferencesArePriced},
		{name: "claims are true", check: claimsAreTrue},
		{name: "impossible requests are refused", check: impossibleRefused},
		{name: "no negative requests", check: nothingNegative},
		{name: "others are placed as without hostile pods", check: othersPlaced},
		{name: "CPU within its bound", check: cpuBounded},
		{name: "memory within its bound", check: memoryBounded},
	}
}

// everyPodOnce: each pending pod is in a claim, a placement, or unplaced with reasons.
func everyPodOnce(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	seen := map[string]int{}
	for _, c := range o.plan.Claims {
		if len(c.Members) == 0 {
			out = append(out, "claim "+c.Name+" has no pods")
		}
		for _, p := range o.members(c.Members) {
			seen[string(p.UID)]++
		}
	}
	for _, pl := range o.plan.Placements {
		for _, p := range o.members(pl.Members) {
			seen[string(p.UID)]++
		}
	}
	for _, u := range o.plan.Unplaced {
		for _, ref := range u.Pods {
			seen[ref.UID]++
		}
		if len(u.Pods) == 0 || len(u.Reasons) == 0 {
			out = append(out, fmt.Sprintf("unplaced class %d: %d pods, %d reasons", u.Class, len(u.Pods), len(u.Reasons)))
		}
		for _, r := range u.Reasons {
			if r.Code == "" || r.Message == "" {
				out = append(out, fmt.Sprintf("unplaced class %d: reason %+v says nothing", u.Class, r))
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(o.pending)) {
		if seen[uid] != 1 {
			out = append(out, fmt.Sprintf("pod %s is %d times in the plan", uid, seen[uid]))
		}
	}
	return out
}

// schedulerAgrees: with the plan come true, the filters let each planned pod be where it is.
func schedulerAgrees(ctx context.Context, l *lab, o *outcome) []string {
	machines, err := o.final()
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, m := range machines {
		for _, p := range m.pods {
			if o.pending[string(p.UID)] == nil {
				continue
			}
			if why := l.refusal(ctx, withoutPod(machines, p), p, m.node.Name); why != "" {
				out = append(out, fmt.Sprintf("pod %s on %s: %s", p.Name, m.node.Name, why))
			}
		}
	}
	return out
}

// offersOf are the combinations in which EC2 may launch the claim.
func (o *outcome) offersOf(c *plan.Claim) []plan.Offer {
	values := func(key string) []string {
		for _, r := range c.Requirements {
			if r.Key == key {
				return r.Values
			}
		}
		return nil
	}
	var out []plan.Offer
	for _, name := range c.Alternatives {
		_, it := o.instance(c, name)
		for _, of := range it.Offerings {
			if of.Available && slices.Contains(values(corev1.LabelTopologyZone), of.Zone) && slices.Contains(values("karpenter.sh/capacity-type"), of.CapacityType) {
				out = append(out, plan.Offer{InstanceType: name, Zone: of.Zone, CapacityType: of.CapacityType, Price: of.Price})
			}
		}
	}
	return out
}

// alternativesHold: whichever alternative EC2 picks for one claim, in whichever zone and capacity type it names, the
// filters let its pods be there, and the node is one that the NodePool allows.
func alternativesHold(ctx context.Context, l *lab, o *outcome) []string {
	machines, err := o.final()
	if err != nil {
		return nil // reported by schedulerAgrees
	}
	var out []string
	for i := range o.plan.Claims {
		c := &o.plan.Claims[i]
		at := len(o.c.nodes) + i
		offers := o.offersOf(c)
		if !slices.ContainsFunc(offers, func(x plan.Offer) bool { return x == c.Expected }) {
			out = append(out, fmt.Sprintf("claim %s: its requirements do not allow what is expected, %+v", c.Name, c.Expected))
		}
		if len(c.Alternatives) > 60 {
			out = append(out, fmt.Sprintf("claim %s: %d alternatives", c.Name, len(c.Alternatives)))
		}
		for _, of := range offers {
			m, err := o.launched(c, of)
			if err != nil {
				out = append(out, err.Error())
				continue
			}
			out = append(out, o.poolAllows(c, m.node.Labels)...)
			m.pods = append(m.pods, o.members(c.Members)...)
			changed := slices.Clone(machines)
			changed[at] = m
			for _, p := range o.members(c.Members) {
				if why := l.refusal(ctx, withoutPod(changed, p), p, m.node.Name); why != "" {
					out = append(out, fmt.Sprintf("pod %s on %s as %s/%s/%s: %s", p.Name, c.Name, of.InstanceType, of.Zone, of.CapacityType, why))
				}
			}
		}
	}
	return out
}

func (o *outcome) poolAllows(c *plan.Claim, labels map[string]string) []string {
	for _, list := range [][]catalog.Requirement{o.state.NodePools[c.NodePool].Requirements, c.Requirements} {
		normal := slices.Clone(list)
		for i := range normal {
			normal[i].Key = catalog.NormalKey(normal[i].Key)
		}
		reqs, err := catalog.NewRequirements(normal)
		if err != nil {
			return []string{fmt.Sprintf("claim %s: %v", c.Name, err)}
		}
		if key, ok := reqs.Match(labels); !ok {
			return []string{fmt.Sprintf("claim %s: label %s=%q is not what pool and claim require: %s", c.Name, key, labels[key], reqs[key])}
		}
	}
	return nil
}

package overlay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// The reasons, in Karpenter's words, for which a NodeOverlay is not applied.
const (
	ReasonInvalid  = "RuntimeValidation"
	ReasonConflict = "Conflict"
)

// Input is all that the effect of NodeOverlays depends on.
type Input struct {
	// Overlays in any order; they are not changed.
	Overlays []*v1alpha1.NodeOverlay
	// Pools are the NodePools, in any order.
	Pools []Pool
	// Types are the instance types by name of the EC2NodeClass, as AWS offers and prices them; they are not changed.
	Types map[string][]catalog.InstanceType
}

// Pool is what a NodeOverlay's requirements see of a NodePool.
type Pool struct {
	// Name of the NodePool, and NodeClass of its EC2NodeClass.
	Name, NodeClass string
	// Labels of its nodes, karpenter.sh/nodepool included.
	Labels map[string]string
}

// Result is what the NodeOverlays make of the catalog.
type Result struct {
	// Lists holds, by key, the lists of instance types that differ from those of their EC2NodeClass.
	Lists map[string][]catalog.InstanceType
	// Keys holds, by name of the NodePool, the key of its list; a NodePool without an entry has the list of its EC2NodeClass.
	Keys map[string]string
	// Verdicts are those of each NodeOverlay, by name.
	Verdicts map[string]Verdict
}

// Verdict says whether a NodeOverlay is applied.
type Verdict struct {
	// Reason is empty if it is applied, else why it is not.
	Reason string
	// Message is for people; empty if it is applied and changes something.
	Message string
	// Unmatched means that it is applied and nothing meets its requirements.
	Unmatched bool
}

// unmatched is the message of such a NodeOverlay.
const unmatched = "spec.requirements: no offering of any NodePool meets them, so that it changes nothing"

// Of returns the key and the instance types of a NodePool's list, if the NodePool has one of its own.
func (r Result) Of(pool string) (key string, list []catalog.InstanceType, ok bool) {
	key, ok = r.Keys[pool]
	return key, r.Lists[key], ok
}

// Evaluate applies NodeOverlays as Karpenter does, those of higher weight first. Per offering the first price counts, per instance type the
// first amount of each resource. A NodeOverlay with the weight of another that is applied, and with a price or an amount for the same, is in
// conflict, and none of it is applied. Conflicts are searched over all NodePools.
func Evaluate(ctx context.Context, in Input) Result {
	out := Result{Lists: map[string][]catalog.InstanceType{}, Keys: map[string]string{}, Verdicts: map[string]Verdict{}}
	overlays := slices.Clone(in.Overlays)
	slices.SortFunc(overlays, byWeight)
	var rules []ruled
	for i, o := range overlays {
		rule, err := read(ctx, o)
		switch {
		case err != nil:
			out.Verdicts[o.Name] = Verdict{Reason: ReasonInvalid, Message: err.Error()}
		case i >= mostOverlays:
			out.Verdicts[o.Name] = Verdict{Reason: ReasonInvalid, Message: fmt.Sprintf("counting NodeOverlays: more than %d, of which those of the highest weights are applied", mostOverlays)}
		default:
			rules = append(rules, rule)
		}
	}
	variants := variantsOf(in, rules)
	for i := range rules {
		out.Verdicts[rules[i].name] = apply(&rules[i], i, variants)
	}
	for _, v := range variants {
		list := v.list()
		if list == nil {
			continue
		}
		key := v.class + "/" + v.pools[0]
		out.Lists[key] = list
		for _, pool := range v.pools {
			out.Keys[pool] = key
		}
	}
	return out
}

// apply applies one rule to all variants, or to none.
func apply(rule *ruled, i int, variants []*variant) Verdict {
	touched, known := make([][]touch, len(variants)), map[string][]touch{}
	for k, v := range variants {
		if v.left[i] == nil {
			continue
		}
		// NodePools of a class that leave the same labels open are matched alike.
		id := v.class + "/" + v.left[i].String()
		if _, ok := known[id]; !ok {
			known[id] = v.touches(i)
		}
		touched[k] = known[id]
		if with := v.conflict(rule, touched[k]); with != "" {
			return Verdict{Reason: ReasonConflict, Message: "conflict with another overlay: " + with}
		}
	}
	found, read := false, len(variants) > 0
	for k, v := range variants {
		found, read = found || len(touched[k]) > 0, read && len(v.base) > 0
		v.apply(rule, touched[k])
	}
	if read && !found { // Not while the instance types of a class are not known yet.
		return Verdict{Unmatched: true, Message: unmatched}
	}
	return Verdict{}
}

// variant is one list of instance types, for the NodePools of a class whose labels mean the same to all rules.
type variant struct {
	class string
	pools []string
	base  []catalog.InstanceType
	// left are, for each rule, the requirements that the NodePool's labels leave open; nil if they do not meet the rule's.
	left []*requirements
	// changes are those of each instance type, by its index in base; nil for none.
	changes []*change
}

// variantsOf groups the NodePools, in the order of their names. Those that meet no rule are left out.
func variantsOf(in Input, rules []ruled) []*variant {
	pools := slices.Clone(in.Pools)
	slices.SortFunc(pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	var out []*variant
	known := map[string]*variant{}
	for _, p := range pools {
		base := in.Types[p.NodeClass]
		left, key, some := make([]*requirements, len(rules)), strings.Builder{}, false
		for i := range rules {
			open, ok := openFor(rules[i].requirements, p.Labels)
			if !ok {
				continue
			}
			some = true
			left[i] = split(open)
			key.WriteString(strconv.Itoa(i) + left[i].String() + ";")
		}
		if !some || len(base) == 0 {
			continue
		}
		id := p.NodeClass + "/" + key.String()
		v, ok := known[id]
		if !ok {
			v = &variant{class: p.NodeClass, base: base, left: left, changes: make([]*change, len(base))}
			known[id] = v
			out = append(out, v)
		}
		v.pools = append(v.pools, p.Name)
	}
	return out
}

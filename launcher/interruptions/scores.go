package interruptions

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

const (
	// scoreWithin bounds one question about placement scores.
	scoreWithin = 10 * time.Second
	// scoreAgain is how long EC2 is not asked after a question that failed: a missing right stays so, and a limit of AWS holds for a day.
	scoreAgain = time.Hour
	// leastTypes is for how many instance types at least EC2 gives scores that say something (API reference, GetSpotPlacementScores).
	leastTypes = 3
	// cheapFamilies is how many families without nodes are asked about: those with the cheapest vCPUs.
	cheapFamilies = 4
)

// Scorer asks EC2 for spot placement scores.
type Scorer interface {
	// PlacementScores returns the scores of the zones, 1 to 10, by zone ID, for spot nodes of the instance types.
	PlacementScores(ctx context.Context, instanceTypes []string) (map[string]int, error)
}

// score asks EC2 for the placement scores of at most one family, and reports whether any have changed.
func (r *Recorder) score(ctx context.Context, now time.Time, nodes []interruption.Node) (changed bool) {
	if r.config.Scorer == nil || now.Before(r.scoreAfter) {
		return false
	}
	offered := r.spotFamilies()
	family := r.scores.Due(now, wanted(offered, nodes))
	if family == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, scoreWithin)
	defer cancel()
	byID, err := r.config.Scorer.PlacementScores(ctx, offered[family].types)
	if err != nil {
		r.scoreAfter = now.Add(scoreAgain)
		if problem := err.Error(); problem != r.scoreProblem && !errors.Is(err, context.Canceled) {
			r.scoreProblem = problem
			klog.FromContext(ctx).Error(err, "EC2 gives no spot placement scores; interruptions are expected without them", "family", family, "triedAgainAfter", scoreAgain)
		}
		return false
	}
	r.scoreProblem = ""
	zones := map[string]int{}
	for id, score := range byID {
		if zone, ok := offered[family].zones[id]; ok && score >= 1 && score <= interruption.BestScore {
			zones[zone] = score
		}
	}
	r.scores, changed = r.scores.Answered(now, family, zones)
	if changed {
		klog.FromContext(ctx).V(1).Info("EC2's spot placement scores", "family", family, "scores", zones)
	}
	return changed
}

// spotFamily is what is offered of an instance family on spot.
type spotFamily struct {
	// types are sorted.
	types []string
	// zones are names by ID.
	zones map[string]string
	// cheapest is the least that a vCPU costs, in USD per hour.
	cheapest float64
}

// spotFamilies returns the families of the offerings that were listed last, those of too few types left out.
func (r *Recorder) spotFamilies() map[string]spotFamily {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]spotFamily{}
	for _, list := range r.priced {
		for i := range list.from {
			t := &list.from[i]
			for _, o := range t.Offerings {
				if !catalog.CapacityTypeOf(o.CapacityType).Interruptible {
					continue
				}
				name := interruption.Family(t.Name)
				f, ok := out[name]
				if !ok {
					f = spotFamily{zones: map[string]string{}, cheapest: math.Inf(1)}
				}
				if at, there := slices.BinarySearch(f.types, t.Name); !there {
					f.types = slices.Insert(f.types, at, t.Name)
				}
				f.zones[o.ZoneID] = o.Zone
				if cpus := t.Capacity.Cpu().AsApproximateFloat64(); cpus > 0 {
					f.cheapest = min(f.cheapest, o.Price/cpus)
				}
				out[name] = f
			}
		}
	}
	for name, f := range out {
		if len(f.types) < leastTypes {
			delete(out, name)
		}
	}
	return out
}

// wanted returns the families to ask about: those of spot nodes, most nodes first, then those with the cheapest vCPUs.
func wanted(offered map[string]spotFamily, nodes []interruption.Node) []string {
	count := map[string]int{}
	for _, n := range nodes {
		count[interruption.Family(n.Offering.InstanceType)]++
	}
	var used, others []string
	for name := range offered {
		if count[name] > 0 {
			used = append(used, name)
		} else {
			others = append(others, name)
		}
	}
	slices.SortFunc(used, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(cmp.Compare(offered[a].cheapest, offered[b].cheapest), cmp.Compare(a, b))
	})
	return append(used, others[:min(len(others), cheapFamilies)]...)
}

// loadScores reads the scores of the ConfigMap. What cannot be read is asked for again.
func (r *Recorder) loadScores(ctx context.Context, object *corev1.ConfigMap) {
	if r.scores = nil; r.config.Scorer == nil {
		return
	}
	scores, faults, err := interruption.ParseScores(object.Data[interruption.ScoresKey])
	if err := errors.Join(append(faults, err)...); err != nil {
		klog.FromContext(ctx).Error(err, "Some placement scores are left out; they are asked for again", "configMap", r.config.ConfigMap)
	}
	r.scores = scores
}

// storeScores puts the scores into the data of the ConfigMap.
func (r *Recorder) storeScores(data map[string]string) error {
	if r.config.Scorer == nil {
		delete(data, interruption.ScoresKey)
		return nil
	}
	text, err := r.scores.Encode()
	if err == nil {
		data[interruption.ScoresKey] = text
	}
	return err
}

package provision

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

const (
	// roundsPart is the part of the time in which plans are made. In the rest, the filters are asked about what is kept of the
	// last plan.
	roundsPart = 0.75
	// planPart is the part of the remaining time in which one plan is made. The rest is for the filters.
	planPart = 0.5
	// maxShortenings is how often pods are taken out of a plan whose time is over, with the filters asked again about the rest.
	// Nearly always the rest passes at the first time. It does not where spread or affinity of the rest depended on pods that
	// were taken out.
	maxShortenings = 3
)

// partOf returns a context that ends after the given part of the time that ctx has left. Without a deadline it ends with ctx.
func partOf(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(float64(time.Until(end))*part))
}

// over reports whether the context has ended.
func over(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// outOfTime returns the reason of pods about which the filters could not be asked.
func outOfTime() plan.Reason {
	return plan.OutOfTime("the scheduler's filters were asked about the pod")
}

// keepPassed reduces the last plan to what the filters let pass, when the time for rounds is over. It takes out what they
// rejected and what they were not asked about. Then it asks them about the rest, which may depend on pods that were taken out.
// What they have not let pass at the end of ctx is taken out too.
func (s *rounds) keepPassed(ctx context.Context, found verify.Result, verdicts []verify.Verdict) error {
	s.Plan.CutShort = true
	if found.Unchecked != nil && ctx.Err() == nil {
		var err error // The rest of the time is for the pods that were not asked about.
		if found, err = s.check(ctx); err != nil {
			return err
		}
		verdicts = slices.Concat(found.Verdicts, s.trim(found.Bad))
	}
	for range maxShortenings {
		taken := s.takeOut(found, verdicts)
		if !taken {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
		var err error
		if found, err = s.check(ctx); err != nil {
			return err
		}
		verdicts = slices.Concat(found.Verdicts, s.trim(found.Bad))
	}
	rest := withdrawal{}
	for ci := range s.in.Classes {
		rest.add(ci, nil, outOfTime())
	}
	s.withdraw(rest)
	return nil
}

// takeOut takes out of the plan the pods that were rejected or not asked about. A claim whose alternatives were not asked about
// is narrowed to its expected offering. If the NodePool's minValues need the alternatives, the claim's pods are taken out
// instead. It reports whether any pod was taken out.
func (s *rounds) takeOut(found verify.Result, verdicts []verify.Verdict) bool {
	out := withdrawal{}
	for _, x := range verdicts {
		out.add(x.Class, x.Pods, reasonOf(&x, "the node that was planned"))
	}
	for _, ci := range found.Unchecked {
		out.add(ci, nil, outOfTime())
	}
	if s.withdraw(out) {
		return true // The indices of claims have changed; all are asked about again.
	}
	lacking := withdrawal{}
	for _, i := range found.UncheckedClaims {
		c := &s.Plan.Claims[i]
		c.Narrow(corev1.LabelTopologyZone, func(zone string) bool { return zone == c.Expected.Zone })
		c.Narrow(clusterview.LabelCapacityType, func(capacityType string) bool { return capacityType == c.Expected.CapacityType })
		c.NarrowTypes(func(string) bool { return false })
		if !s.in.MinValuesBestEffort && !s.keepsMinValues(c) {
			for _, m := range c.Members {
				lacking.add(m.Class, m.Pods, outOfTime())
			}
		}
	}
	return s.withdraw(lacking)
}

// withdrawal lists pods to take out of a plan, by class.
type withdrawal map[int]*withdrawn

// withdrawn lists pods of one class to take out of a plan.
type withdrawn struct {
	// all means all pods of the class. Otherwise they are those with the UIDs.
	all     bool
	uids    map[string]bool
	reasons []plan.Reason
	// taken are the pods for which the plan had a place.
	taken []catalog.PodRef
}

// add adds pods of a class; nil means all of its pods.
func (w withdrawal) add(class int, pods []catalog.PodRef, why plan.Reason) {
	x := w[class]
	if x == nil {
		x = &withdrawn{uids: map[string]bool{}}
		w[class] = x
	}
	x.all = x.all || pods == nil
	for _, ref := range pods {
		x.uids[ref.UID] = true
	}
	if !slices.Contains(x.reasons, why) {
		x.reasons = append(x.reasons, why)
	}
}

// addGangs adds the other pods of each gang that has a pod in w.
func (w withdrawal) addGangs(classes []plan.Class) {
	reasons := map[string]plan.Reason{}
	for _, ci := range slices.Sorted(maps.Keys(w)) {
		gang := plan.GangOf(classes[ci].Pod).Name
		if _, known := reasons[gang]; gang != "" && !known {
			reasons[gang] = w[ci].reasons[0]
		}
	}
	if len(reasons) == 0 {
		return
	}
	for ci := range classes {
		if why, ok := reasons[plan.GangOf(classes[ci].Pod).Name]; ok {
			w.add(ci, nil, why)
		}
	}
}

// from returns the members without the pods to take out, and the number of pods taken out by class.
func (w withdrawal) from(members []plan.Member) ([]plan.Member, map[int]int) {
	var out []plan.Member
	var gone map[int]int
	for _, m := range members {
		x := w[m.Class]
		if x == nil {
			out = append(out, m)
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(m.Pods), func(ref catalog.PodRef) bool {
			goes := x.all || x.uids[ref.UID]
			if goes {
				x.taken = append(x.taken, ref)
			}
			return goes
		})
		if n := len(m.Pods) - len(kept); n > 0 {
			if gone == nil {
				gone = map[int]int{}
			}
			gone[m.Class] += n
		}
		if m.Pods = kept; len(kept) > 0 {
			out = append(out, m)
		}
	}
	return out, gone
}

// withdraw takes pods out of the plan. A gang is taken out as a whole, and so is a claim that has no pod left. It reports whether
// any pod was taken out.
func (s *rounds) withdraw(w withdrawal) bool {
	w.addGangs(s.in.Classes)
	claims := make([]plan.Claim, 0, len(s.Plan.Claims))
	for _, c := range s.Plan.Claims {
		var gone map[int]int
		if c.Members, gone = w.from(c.Members); len(c.Members) == 0 {
			s.Plan.CostPerHour -= c.Expected.Price
			continue
		}
		for _, class := range slices.Sorted(maps.Keys(gone)) {
			c.Requests = without(c.Requests, s.in.Classes[class].Pod, gone[class])
		}
		claims = append(claims, c)
	}
	placements := make([]plan.Placement, 0, len(s.Plan.Placements))
	for _, p := range s.Plan.Placements {
		if p.Members, _ = w.from(p.Members); len(p.Members) > 0 {
			placements = append(placements, p)
		}
	}
	at := map[int]int{}
	for i := range s.Plan.Unplaced {
		at[s.Plan.Unplaced[i].Class] = i
	}
	taken := false
	for _, class := range slices.Sorted(maps.Keys(w)) {
		x := w[class]
		if len(x.taken) == 0 {
			continue
		}
		taken = true
		if i, known := at[class]; known {
			u := &s.Plan.Unplaced[i]
			u.Pods, u.Reasons = slices.Concat(u.Pods, x.taken), slices.Concat(u.Reasons, x.reasons)
			continue
		}
		s.Plan.Unplaced = append(s.Plan.Unplaced, plan.Unplaced{Class: class, Pods: x.taken, Reasons: x.reasons})
	}
	if taken {
		s.Plan.Claims, s.Plan.Placements = claims, placements
	}
	return taken
}

// without returns the requests less those of n such pods.
func without(requests corev1.ResourceList, pod *corev1.Pod, n int) corev1.ResourceList {
	if n == 0 {
		return requests
	}
	out := requests.DeepCopy()
	for name, q := range plan.PodRequests(pod) {
		have, ok := out[name]
		if !ok {
			continue
		}
		for range n {
			have.Sub(q)
		}
		out[name] = have
	}
	if pods, ok := out[corev1.ResourcePods]; ok {
		pods.Set(pods.Value() - int64(n))
		out[corev1.ResourcePods] = pods
	}
	return out
}

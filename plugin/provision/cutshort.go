package provision

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

const (
	// roundsPart is the part of the time in which plans are made; in the rest the filters are asked about what is kept of the
	// last one.
	roundsPart = 0.75
	// planPart is the part of the time that is left in which one plan is made; the rest is for the filters.
	planPart = 0.5
	// maxShortenings is how often a plan whose time is over is left with fewer pods and asked about again. Nearly always the
	// first answer is that the rest passes: only where pods that are taken out held up the spread or the affinity of others are
	// there more.
	maxShortenings = 3
)

// partOf returns a context that ends when the part of the time is over that ctx has left; with ctx, where that has no
// deadline.
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

// outOfTime is the reason of pods about which the filters could not be asked.
func outOfTime() plan.Reason {
	return plan.OutOfTime("the scheduler's filters were asked about the pod")
}

// keepPassed leaves of the last plan what the filters let pass, when the time for rounds is over: what they rejected or were
// not asked about is taken out, and they are asked about the rest, since pods that are there may depend on pods that are
// not any more. What is still rejected when all time is over goes as well.
func (s *rounds) keepPassed(ctx context.Context, found verify.Judgement, verdicts []verify.Verdict) error {
	s.Plan.CutShort = true
	if found.Unchecked != nil && ctx.Err() == nil {
		var err error // The rest of the time is for these.
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
	for ci := range s.in.Classes {
		s.withhold(ci, nil, outOfTime())
	}
	return nil
}

// takeOut takes out of the plan the pods that were rejected or not asked about, and the pods of claims whose alternatives
// were not asked about where the NodePool's minValues need these. Other such claims are left with what was expected of
// them. It reports whether any pod was taken out.
func (s *rounds) takeOut(found verify.Judgement, verdicts []verify.Verdict) bool {
	taken := false
	for _, x := range verdicts {
		reason := plan.Reason{Code: "FilterRejected", Message: "the scheduler's filters reject the node that was planned: " + x.Reason}
		taken = s.withhold(x.Class, x.Pods, reason) || taken
	}
	for _, ci := range found.Unchecked {
		taken = s.withhold(ci, nil, outOfTime()) || taken
	}
	if taken {
		return true // The indices of claims are others now; all are asked about again.
	}
	var lacking []plan.Member
	for _, i := range found.UncheckedClaims {
		c := &s.Plan.Claims[i]
		c.Narrow(corev1.LabelTopologyZone, func(zone string) bool { return zone == c.Expected.Zone })
		c.Narrow(clusterview.LabelCapacityType, func(capacityType string) bool { return capacityType == c.Expected.CapacityType })
		c.NarrowTypes(func(string) bool { return false })
		if !s.in.MinValuesBestEffort && !s.keepsMinValues(c) {
			lacking = append(lacking, c.Members...)
		}
	}
	for _, m := range lacking {
		taken = s.withhold(m.Class, m.Pods, outOfTime()) || taken
	}
	return taken
}

// withhold takes pods of a class out of the plan, all of them where pods is nil, and with a pod of a gang the gang. It
// reports whether there were any.
func (s *rounds) withhold(class int, pods []catalog.PodRef, why plan.Reason) bool {
	gang := plan.GangOf(s.in.Classes[class].Pod).Name
	if gang == "" {
		return s.takeClass(class, pods, why)
	}
	taken := false
	for ci := range s.in.Classes {
		if plan.GangOf(s.in.Classes[ci].Pod).Name == gang {
			taken = s.takeClass(ci, nil, why) || taken
		}
	}
	return taken
}

// takeClass takes pods of one class out of the plan, and claims without pods with them.
func (s *rounds) takeClass(class int, pods []catalog.PodRef, why plan.Reason) bool {
	gone := make(map[string]bool, len(pods))
	for _, ref := range pods {
		gone[ref.UID] = true
	}
	var taken []catalog.PodRef
	shorter := func(members []plan.Member) ([]plan.Member, int) {
		var out []plan.Member
		n := 0
		for _, m := range members {
			if m.Class == class {
				kept := slices.DeleteFunc(slices.Clone(m.Pods), func(ref catalog.PodRef) bool {
					goes := pods == nil || gone[ref.UID]
					if goes {
						taken = append(taken, ref)
						n++
					}
					return goes
				})
				m.Pods = kept
			}
			if len(m.Pods) > 0 {
				out = append(out, m)
			}
		}
		return out, n
	}
	var claims []plan.Claim
	for _, c := range s.Plan.Claims {
		var n int
		if c.Members, n = shorter(c.Members); len(c.Members) == 0 {
			s.Plan.CostPerHour -= c.Expected.Price
			continue
		}
		c.Requests = without(c.Requests, s.in.Classes[class].Pod, n)
		claims = append(claims, c)
	}
	var placements []plan.Placement
	for _, p := range s.Plan.Placements {
		if p.Members, _ = shorter(p.Members); len(p.Members) > 0 {
			placements = append(placements, p)
		}
	}
	if len(taken) == 0 {
		return false
	}
	s.Plan.Claims, s.Plan.Placements = claims, placements
	at := slices.IndexFunc(s.Plan.Unplaced, func(u plan.Unplaced) bool { return u.Class == class })
	if at < 0 {
		s.Plan.Unplaced = append(s.Plan.Unplaced, plan.Unplaced{Class: class, Pods: taken, Reasons: []plan.Reason{why}})
		return true
	}
	u := &s.Plan.Unplaced[at]
	u.Pods, u.Reasons = slices.Concat(u.Pods, taken), slices.Concat(u.Reasons, []plan.Reason{why})
	return true
}

// without returns the requests less those of n pods.
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

package provision

import (
	"context"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// maxExtensions is how often rejected pods are tried beside the plan that passed the filters.
const maxExtensions = 8

// extend tries rejected pods once more, class by class, beside the finished plan: a verdict on an earlier plan may not hold for
// the last one. It tries all pods of a class first, then one at a time. After a success it also tries the classes that wait for
// other pods. Verdicts are the filters' rejections so far.
func (s *rounds) extend(ctx context.Context, verdicts []plan.Rejection) error {
	in := s.in
	in.Rejected, in.Classes, in.NewName = verdicts, slices.Clone(s.in.Classes), s.request.newNames()
	for ci, l := range s.out {
		in.Classes[ci].Pods = slices.Concat(s.in.Classes[ci].Pods, l.pods)
	}
	classes := s.filtered()
	for tries := (attempts{maxExtensions}); len(classes) > 0; classes = classes[1:] {
		ci := classes[0]
		if plan.GangOf(in.Classes[ci].Pod).Name != "" {
			continue
		}
		for most := unplaced(&s.Plan, ci); most > 0; most = min(1, unplaced(&s.Plan, ci)) {
			if !tries.next(ctx) {
				return nil
			}
			before := unplaced(&s.Plan, ci)
			said, err := s.extended(ctx, in, ci, most)
			if err != nil {
				return err
			}
			if unplaced(&s.Plan, ci) < before {
				classes = append(classes, s.waiting(classes)...)
				continue // Beside these there may be a place for one more.
			}
			key, seen := in.Classes[ci].Key, knownOf(in.Rejected)
			news := slices.DeleteFunc(said, func(r plan.Rejection) bool {
				return r.ClassKey != key && !slices.Contains(r.With, key) || seen[keyOf(&r)]
			})
			if most == 1 && len(news) == 0 || len(said) == 0 {
				break
			}
			if most == 1 {
				in.Rejected = slices.Concat(in.Rejected, news) // No further attempt uses these offers.
			}
		}
	}
	return nil
}

// attempts counts the attempts that are left.
type attempts struct{ left int }

// next takes one attempt. It reports whether there was one and the context has not ended.
func (a *attempts) next(ctx context.Context) bool {
	a.left--
	return a.left >= 0 && !over(ctx)
}

// filtered returns the classes with unplaced pods of which the filters rejected some, in order. The reason of the unplaced pods
// may be another one: that all other offers are sold out, for example.
func (s *rounds) filtered() []int {
	return s.lacking(func(u *plan.Unplaced) bool {
		key := s.in.Classes[u.Class].Key
		return slices.ContainsFunc(u.Reasons, func(r plan.Reason) bool { return r.Code == "FilterRejected" }) ||
			slices.ContainsFunc(s.in.Rejected, func(r plan.Rejection) bool { return r.ClassKey == key || slices.Contains(r.With, key) })
	})
}

// waiting returns the classes whose unplaced pods depend on where other pods are, in order, without the given ones.
func (s *rounds) waiting(beside []int) []int {
	return s.lacking(func(u *plan.Unplaced) bool {
		return !slices.Contains(beside, u.Class) && slices.ContainsFunc(u.Reasons, amongOthers)
	})
}

// lacking returns the classes with unplaced pods for which the condition holds, in order.
func (s *rounds) lacking(holds func(*plan.Unplaced) bool) []int {
	var classes []int
	for i := range s.Plan.Unplaced {
		if u := &s.Plan.Unplaced[i]; holds(u) {
			classes = append(classes, u.Class)
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// amongOthers reports whether the reason is about where other pods are.
func amongOthers(r plan.Reason) bool {
	return r.Code == "AffinityUnsatisfiable" || r.Code == "SpreadUnsatisfiable"
}

// extended adds at most the given number of pods of the class to the plan, if they fit and the filters agree. If the filters do
// not agree, the plan stays as it was and their rejections are returned.
func (s *rounds) extended(ctx context.Context, in plan.Input, class, most int) ([]plan.Rejection, error) {
	start := time.Now()
	before := s.Plan
	longer := plan.Extend(ctx, in, before, class, most)
	planned := time.Now()
	s.PlanTime += planned.Sub(start)
	if unplaced(&longer, class) == unplaced(&before, class) {
		return nil, nil
	}
	found, err := s.provisioner.verifier.Check(ctx, s.view, in.Classes, longer, in.Catalog)
	s.VerifyTime += time.Since(planned)
	if err != nil {
		return nil, err
	}
	if over(ctx) {
		return nil, nil // Pods that the filters were not asked about are not added.
	}
	was := s.in
	s.in, s.Plan = in, longer
	if len(found.Verdicts) == 0 {
		found.Verdicts = s.trim(found.Bad)
	}
	var said []plan.Rejection
	for _, v := range found.Verdicts {
		said = append(said, v.Rejection)
	}
	if s.in = was; len(said) > 0 {
		s.Plan = before
	}
	return said, nil
}

// unplaced counts the pods of the class without a node.
func unplaced(p *plan.Plan, class int) int {
	n := 0
	for _, u := range p.Unplaced {
		if u.Class == class {
			n += len(u.Pods)
		}
	}
	return n
}

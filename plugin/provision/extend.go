package provision

import (
	"context"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// maxExtensions is how often pods that filters refused are tried beside the plan that the filters let pass.
const maxExtensions = 8

// extend tries what the filters refused once more, class by class, on the finished plan: what the filters said of plans on the
// way need not hold of the last one. All pods of a class are tried, else one; once some have come, so are those that may have waited
// for them. Verdicts are those known before.
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
			key := in.Classes[ci].Key
			news := slices.DeleteFunc(said, func(r plan.Rejection) bool {
				return r.ClassKey != key && !slices.Contains(r.With, key) || known(in.Rejected, r)
			})
			if most == 1 && len(news) == 0 || len(said) == 0 {
				break
			}
			if most == 1 {
				in.Rejected = slices.Concat(in.Rejected, news) // Not there again.
			}
		}
	}
	return nil
}

// attempts is how many more there may be.
type attempts struct{ left int }

// next takes one, and reports whether there was one and time for it.
func (a *attempts) next(ctx context.Context) bool {
	a.left--
	return a.left >= 0 && !over(ctx)
}

// filtered are the classes that lack pods of which filters refused some, in their order. What is said of them may be another thing:
// that the offers are sold out, say, on which the filters refused none.
func (s *rounds) filtered() []int {
	return s.lacking(func(u *plan.Unplaced) bool {
		key := s.in.Classes[u.Class].Key
		return slices.ContainsFunc(u.Reasons, func(r plan.Reason) bool { return r.Code == "FilterRejected" }) ||
			slices.ContainsFunc(s.in.Rejected, func(r plan.Rejection) bool { return r.ClassKey == key || slices.Contains(r.With, key) })
	})
}

// waiting are the classes, beside those given, that lack pods for what other pods have a part in, in their order.
func (s *rounds) waiting(beside []int) []int {
	return s.lacking(func(u *plan.Unplaced) bool {
		return !slices.Contains(beside, u.Class) && slices.ContainsFunc(u.Reasons, amongOthers)
	})
}

// lacking are the classes that lack pods for which the condition holds, in their order.
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

// amongOthers says that the reason is about where other pods are.
func amongOthers(r plan.Reason) bool {
	return r.Code == "AffinityUnsatisfiable" || r.Code == "SpreadUnsatisfiable"
}

// extended takes the plan with more pods of the class, if there are any and the filters agree. If not, it returns what
// they say.
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
		return nil, nil // What was not asked about is not taken.
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

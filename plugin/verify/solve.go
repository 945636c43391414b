package verify

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// maxRounds is how often a batch is planned until the filters agree; what they still reject then is left out.
const maxRounds = 10

// Maker makes a plan of an input: plan.Make, perhaps bounded in time.
type Maker func(context.Context, plan.Input) (plan.Plan, error)

// Solution is a plan that the filters let pass, and how it was found.
type Solution struct {
	// Plan to launch.
	Plan plan.Plan
	// Rounds is how often the batch was planned.
	Rounds int
	// Rejected is what the filters said on the way, oldest first.
	Rejected []plan.Rejection
	// PlanTime and VerifyTime are how long planning and the filters took, all rounds together.
	PlanTime, VerifyTime time.Duration
}

// Solve plans until the filters agree: each rejection goes into the next plan. What they reject in spite of being told,
// or after the last round, is left out with the filter's reason: first the pods where they were rejected, then, if pods
// of the same class are rejected again, the class. The input's Rejected are kept and heeded.
func (v *Verifier) Solve(ctx context.Context, w *World, in plan.Input, makePlan Maker) (Solution, error) {
	if makePlan == nil {
		makePlan = func(ctx context.Context, in plan.Input) (plan.Plan, error) { return plan.Make(ctx, in), nil }
	}
	s := solving{v: v, w: w, in: in, makePlan: makePlan, out: map[int]*left{}}
	var was []int
	s.in.Classes, was = plan.Ordered(in.Classes)
	s.in.Rejected = slices.Clone(in.Rejected)
	for round := 1; ; round++ {
		verdicts, err := s.round(ctx)
		if err != nil {
			return Solution{}, err
		}
		if len(verdicts) == 0 {
			s.Plan, s.Rounds, s.Rejected = s.finished(), round, s.in.Rejected[len(in.Rejected):]
			if err := s.extend(ctx, in.Rejected); err != nil {
				return Solution{}, err
			}
			s.Plan.Restore(was)
			return s.Solution, nil
		}
		news := slices.ContainsFunc(verdicts, func(x verdict) bool { return !told(s.in.Rejected, x.Rejection) })
		klog.FromContext(ctx).V(4).Info("The filters reject parts of the plan", "round", round, "rejections", len(verdicts), "first", verdicts[0].Rejection)
		for _, x := range verdicts {
			if !told(s.in.Rejected, x.Rejection) {
				s.in.Rejected = append(s.in.Rejected, x.Rejection)
			}
		}
		if round >= maxRounds || !news {
			s.leaveOut(verdicts)
		}
	}
}

// solving is a batch between two rounds.
type solving struct {
	Solution
	v        *Verifier
	w        *World
	in       plan.Input
	makePlan Maker
	// out are the pods that are left out, by index of their class.
	out map[int]*left
}

type left struct {
	pods []catalog.PodRef
	why  string
}

// verdict is a rejection and the pods it was about.
type verdict struct {
	plan.Rejection
	class int
	pods  []catalog.PodRef
}

func (s *solving) round(ctx context.Context) ([]verdict, error) {
	var err error
	start := time.Now()
	s.Plan, err = s.makePlan(ctx, s.in)
	planned := time.Now()
	s.PlanTime += planned.Sub(start)
	if err != nil {
		return nil, err
	}
	found, err := s.v.check(ctx, s.w, s.in.Classes, s.Plan, s.in.Catalog)
	s.VerifyTime += time.Since(planned)
	if err == nil {
		err = ctx.Err()
	}
	return append(found.verdicts, s.trim(found.bad)...), err
}

// leaveOut takes the rejected pods out of the input. Where some of their class have been left out before, all go.
func (s *solving) leaveOut(verdicts []verdict) {
	before := map[int]bool{}
	for ci := range s.out {
		before[ci] = true
	}
	for _, x := range verdicts {
		c := &s.in.Classes[x.class]
		gone := x.pods
		if before[x.class] {
			gone = c.Pods
		}
		s.drop(x.class, gone, x.Reason)
		if gang := plan.GangOf(c.Pod).Name; gang != "" {
			// A gang is placed as a whole or not at all.
			for ci := range s.in.Classes {
				if plan.GangOf(s.in.Classes[ci].Pod).Name == gang {
					s.drop(ci, s.in.Classes[ci].Pods, "gang "+gang+": "+x.Reason)
				}
			}
		}
	}
}

// drop takes the pods of one class out of the input.
func (s *solving) drop(ci int, pods []catalog.PodRef, why string) {
	l := s.out[ci]
	if l == nil {
		l = &left{why: why}
		s.out[ci] = l
	}
	gone := make(map[string]bool, len(pods))
	for _, ref := range pods {
		gone[ref.UID] = true
	}
	var kept []catalog.PodRef
	for _, ref := range s.in.Classes[ci].Pods {
		if gone[ref.UID] {
			l.pods = append(l.pods, ref)
		} else {
			kept = append(kept, ref)
		}
	}
	s.in.Classes[ci].Pods = kept
}

// finished is the plan with what was left out among the unplaced.
func (s *solving) finished() plan.Plan {
	out := s.Plan
	for ci := range s.in.Classes {
		l := s.out[ci]
		if l == nil || len(l.pods) == 0 {
			continue
		}
		reason := plan.Reason{Code: "FilterRejected", Message: "the scheduler's filters reject every node that was planned: " + l.why}
		at := slices.IndexFunc(out.Unplaced, func(u plan.Unplaced) bool { return u.Class == ci })
		if at < 0 {
			out.Unplaced = append(out.Unplaced, plan.Unplaced{Class: ci, Pods: l.pods, Reasons: []plan.Reason{reason}})
			continue
		}
		u := &out.Unplaced[at]
		u.Pods, u.Reasons = slices.Concat(u.Pods, l.pods), append(slices.Clone(u.Reasons), reason)
	}
	return out
}

func told(list []plan.Rejection, r plan.Rejection) bool {
	return slices.ContainsFunc(list, func(o plan.Rejection) bool {
		return o.ClassKey == r.ClassKey && o.Node == r.Node && o.NodePool == r.NodePool && o.InstanceType == r.InstanceType &&
			o.Zone == r.Zone && o.CapacityType == r.CapacityType && o.MaxPerNode == r.MaxPerNode && slices.Equal(o.With, r.With)
	})
}

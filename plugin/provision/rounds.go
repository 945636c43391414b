package provision

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// maxRounds is how often a batch is planned until the filters agree. What they still reject then is left out.
const maxRounds = 10

// rounds is the state of a batch between two rounds.
type rounds struct {
	Result
	provisioner *Provisioner
	view        *clusterview.View
	request     Request
	// in is the input of the next round. given are the rejections in the input of the first round.
	in    plan.Input
	given []plan.Rejection
	// out holds the pods that are left out, by index of their class.
	out map[int]*left
	// was maps classes to their indices in the request.
	was []int
}

func newRounds(p *Provisioner, view *clusterview.View, req Request, in plan.Input) *rounds {
	s := &rounds{provisioner: p, view: view, request: req, in: in, given: in.Rejected, out: map[int]*left{}}
	s.in.Classes, s.was = plan.Ordered(in.Classes)
	s.in.Rejected = slices.Clone(in.Rejected)
	return s
}

// run plans until the filters agree: each rejection is input of the next plan. What they reject in spite of that, or after the
// last round, is left out with the filter's reason. First the rejected pods are left out, then, if pods of the same class are
// rejected again, the class. Each such round leaves out at least one pod, so the rounds end.
//
// When the context's time is nearly over, the last plan is reduced to what the filters let pass.
func (s *rounds) run(ctx context.Context) error {
	within, cancel := partOf(ctx, roundsPart)
	defer cancel()
	seen := knownOf(s.in.Rejected)
	for round := 1; ; round++ {
		found, err := s.round(within)
		if err != nil {
			return err
		}
		verdicts := slices.Concat(found.Verdicts, s.trim(found.Bad))
		late := over(within)
		if late {
			if err := s.keepPassed(ctx, found, verdicts); err != nil {
				return err
			}
		}
		if late || len(verdicts) == 0 {
			s.Plan, s.Rounds, s.Rejected = s.finished(), round, s.in.Rejected[len(s.given):]
			if err := s.extend(within, s.given); err != nil {
				return err
			}
			s.Plan.Restore(s.was)
			return nil
		}
		klog.FromContext(ctx).V(4).Info("The filters reject parts of the plan", "round", round, "rejections", len(verdicts), "first", verdicts[0].Rejection)
		news := false
		for _, x := range verdicts {
			if x.ClassKey != "" && seen.add(&x.Rejection) {
				news = true
				s.in.Rejected = append(s.in.Rejected, x.Rejection)
			}
		}
		if round >= maxRounds || !news {
			s.leaveOut(verdicts)
		}
	}
}

type left struct {
	pods []catalog.PodRef
	why  plan.Reason
}

// codeShared is the code of pods that are left out because another one of the plan has their ReadWriteOncePod claim: beside that one no node would do.
const codeShared = "VolumeConflict"

// reasonOf returns why the pods of the verdict are left out. what is the planned nodes that the filters reject.
func reasonOf(x *verify.Verdict, what string) plan.Reason {
	if x.ClassKey == "" { // It is about these pods alone, on whichever node.
		return plan.Reason{Code: codeShared, Message: x.Reason}
	}
	return plan.Reason{Code: "FilterRejected", Message: "the scheduler's filters reject " + what + ": " + x.Reason}
}

// round makes a plan within a part of the time, so that there is time for the filters, and asks them.
func (s *rounds) round(ctx context.Context) (verify.Result, error) {
	start := time.Now()
	s.in.NewName = s.request.newNames()
	within, cancel := partOf(ctx, planPart)
	s.Plan = s.provisioner.make(within, s.in)
	cancel()
	s.PlanTime += time.Since(start)
	return s.check(ctx)
}

// check asks the filters about the plan.
func (s *rounds) check(ctx context.Context) (verify.Result, error) {
	start := time.Now()
	found, err := s.provisioner.verifier.Check(ctx, s.view, s.in.Classes, s.Plan, s.in.Catalog)
	s.VerifyTime += time.Since(start)
	return found, err
}

// leaveOut takes the rejected pods out of the input. If pods of their class were left out before, the whole class is, unless the verdict is about
// these pods alone.
func (s *rounds) leaveOut(verdicts []verify.Verdict) {
	const what = "every node that was planned"
	before := map[int]bool{}
	for ci := range s.out {
		before[ci] = true
	}
	for _, x := range verdicts {
		c := &s.in.Classes[x.Class]
		gone := x.Pods
		if before[x.Class] && x.ClassKey != "" {
			gone = c.Pods
		}
		s.drop(x.Class, gone, reasonOf(&x, what))
		if gang := plan.GangOf(c.Pod).Name; gang != "" {
			x.Reason = "gang " + gang + ": " + x.Reason
			// A gang is placed as a whole or not at all.
			for ci := range s.in.Classes {
				if plan.GangOf(s.in.Classes[ci].Pod).Name == gang {
					s.drop(ci, s.in.Classes[ci].Pods, reasonOf(&x, what))
				}
			}
		}
	}
}

// drop takes the pods of one class out of the input. A reason of the filters stands for all that are left out of the class: they may have a place yet.
func (s *rounds) drop(ci int, pods []catalog.PodRef, why plan.Reason) {
	l := s.out[ci]
	if l == nil {
		l = &left{why: why}
		s.out[ci] = l
	} else if l.why.Code == codeShared {
		l.why = why
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

// finished returns the plan with the pods that were left out among the unplaced ones.
func (s *rounds) finished() plan.Plan {
	out := s.Plan
	for ci := range s.in.Classes {
		l := s.out[ci]
		if l == nil || len(l.pods) == 0 {
			continue
		}
		at := slices.IndexFunc(out.Unplaced, func(u plan.Unplaced) bool { return u.Class == ci })
		if at < 0 {
			out.Unplaced = append(out.Unplaced, plan.Unplaced{Class: ci, Pods: l.pods, Reasons: []plan.Reason{l.why}})
			continue
		}
		u := &out.Unplaced[at]
		u.Pods, u.Reasons = slices.Concat(u.Pods, l.pods), append(slices.Clone(u.Reasons), l.why)
	}
	return out
}

// known are rejections, without their reasons. A verdict on a DaemonSet's neighbors is one for each offering, of which there are thousands.
type known map[rejectionKey]bool

// rejectionKey is equal for rejections of the same pods on the same nodes.
type rejectionKey struct {
	class, node, pool, instanceType, zone, capacityType, with string
	maxPerNode                                                int
}

func keyOf(r *plan.Rejection) rejectionKey {
	return rejectionKey{r.ClassKey, r.Node, r.NodePool, r.InstanceType, r.Zone, r.CapacityType, strings.Join(r.With, "\n"), r.MaxPerNode}
}

func knownOf(list []plan.Rejection) known {
	out := make(known, len(list))
	for i := range list {
		out[keyOf(&list[i])] = true
	}
	return out
}

// add reports whether the rejection was not known.
func (k known) add(r *plan.Rejection) bool {
	key := keyOf(r)
	news := !k[key]
	k[key] = true
	return news
}

package pending

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// A pod that is held waits until it is taken, or planned again.
func TestHeldPods(t *testing.T) {
	p, now := New(), time.Unix(0, 0)
	early, late := named("a", "early"), named("a", "late")
	early.At, late.At, late.Hopeless = now, now.Add(time.Second), true
	p.Hold(late)
	p.Hold(early)
	if !p.Waits(late.Pod.UID, now) || !p.Knows(late.Pod.UID) || p.IsAside(late.Pod.UID, now) || p.Held() != 2 {
		t.Error("the pods are not held")
	}
	if e := p.Take(late.Pod.UID); !e.Hopeless || p.Waits(late.Pod.UID, now) {
		t.Errorf("took %v", e)
	}
	if e := p.Take(late.Pod.UID); e.Pod != nil {
		t.Errorf("took %v for the second time", e)
	}
	p.Hold(late)
	if got := p.Again(func(e intake.Entry) bool { return e.Hopeless }); len(got) != 1 || got[0].Pod != late.Pod || p.Held() != 1 {
		t.Errorf("%d pods are planned again", len(got))
	}
	p.Hold(late)
	if got := p.Again(func(intake.Entry) bool { return true }); len(got) != 2 || got[0].Pod != early.Pod {
		t.Errorf("%d pods are planned again, the first of them %v", len(got), got)
	}
}

// A pod that waits for a moment of its own is planned then, with its gang, and all other held pods stay held: there may be thousands.
func TestHoldUntil(t *testing.T) {
	p, now := New(), time.Unix(0, 0)
	for _, name := range []string{"other", "mate", "late", "due"} {
		e := named("a", name)
		if name == "due" || name == "mate" {
			e.Gang.Name = "a/gang"
		}
		p.Hold(e)
	}
	p.HoldUntil(p.Take("a/due"), now.Add(time.Second))
	p.HoldUntil(p.Take("a/late"), now.Add(time.Minute))
	if p.Due(now.Add(time.Second-1)) != nil {
		t.Error("pods are due before their moment")
	}
	which := p.Due(now.Add(time.Second))
	if which == nil {
		t.Fatal("no pod is due")
	}
	var got []string
	for _, e := range p.Again(which) {
		got = append(got, e.Pod.Name)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"due", "mate"}) {
		t.Errorf("%v are planned, want the one that is due and its gang", got)
	}
	p.Hold(p.Take("a/late")) // A plan found nothing for it since.
	if p.Due(now.Add(time.Hour)) != nil {
		t.Error("a moment counts that is not the pod's any more")
	}
	p.HoldUntil(named("a", "gone"), now.Add(time.Second))
	p.Tidy(now, func(pod *corev1.Pod) bool { return pod.Name == "gone" })
	if p.Due(now.Add(time.Hour)) != nil {
		t.Error("a pod that is gone is due")
	}
	p.HoldUntil(named("a", "due"), now.Add(time.Hour))
	p.PlanBy(now)
	if which := p.Due(now); which == nil || len(p.Again(which)) != 3 || p.Due(now.Add(time.Hour)) != nil {
		t.Error("once all are planned, moments of their own count no more")
	}
}

// Pods that are gone or have a node are forgotten, and those whose time aside is over come back once.
func TestTidyPods(t *testing.T) {
	p, now := New(), time.Unix(0, 0)
	held, failed, gone := named("a", "held"), named("a", "failed"), named("a", "gone")
	p.Hold(held)
	p.Hold(gone)
	p.SetAside(gone, now)
	until := p.SetAside(failed, now)
	isGone := func(pod *corev1.Pod) bool { return pod.Name == "gone" }
	if due := p.Tidy(until.Add(-1), isGone); len(due) != 0 || p.Held() != 1 || p.Knows(gone.Pod.UID) {
		t.Errorf("%d pods are due, %d held", len(due), p.Held())
	}
	if !p.IsAside(failed.Pod.UID, until.Add(-1)) || !p.Waits(failed.Pod.UID, until.Add(-1)) {
		t.Error("the pod is not set aside")
	}
	if due := p.Tidy(until, isGone); len(due) != 1 || due[0].Pod != failed.Pod {
		t.Errorf("%v are due", due)
	}
	if !p.Knows(failed.Pod.UID) || len(p.Tidy(until, isGone)) != 0 {
		t.Error("the pod comes back twice, or its failure is forgotten before it was planned")
	}
	p.Planned([]intake.Entry{failed})
	if p.Knows(failed.Pod.UID) {
		t.Error("the failure of a pod that was planned is remembered")
	}
}

// After a plan that ran out of time planning rests for a multiple of what that took.
func TestPlanAfterRest(t *testing.T) {
	p, now := New(), time.Unix(0, 0)
	for took, want := range map[time.Duration]time.Duration{100 * time.Millisecond: replanFirst, 5 * time.Second: 20 * time.Second} {
		p.PlanAfterRest(took, now)
		if p.Due(now.Add(want-1)) != nil || p.Due(now.Add(want)) == nil {
			t.Errorf("a plan that took %s is not followed by the next after %s", took, want)
		}
	}
}

// A held pod is planned again when it needs something else than before, with its gang. One whose condition is written, that is gone, or that another scheduler
// tries is not.
func TestHeldPodsThatNeedSomethingElse(t *testing.T) {
	for name, c := range map[string]struct {
		gone, adopted bool
		edit          func(*corev1.Pod)
		want          []string
	}{
		"nothing":     {edit: func(*corev1.Pod) {}},
		"a condition": {edit: func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Message: "full"}} }},
		"a toleration": {want: []string{"mate", "web"}, edit: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
		}},
		"the size of its gang": {want: []string{"mate", "web"}, edit: func(p *corev1.Pod) { p.Annotations = map[string]string{plan.KeyGangSize: "2"} }},
		"another gang":         {want: []string{"web"}, edit: func(p *corev1.Pod) { p.Labels[plan.LabelGang] = "other" }},
		"a node":               {edit: func(p *corev1.Pod) { p.Spec.NodeName = "node" }},
		"a pod that is gone":   {gone: true, edit: func(*corev1.Pod) {}},
		"an adopted pod":       {adopted: true, edit: func(p *corev1.Pod) { p.Labels[plan.LabelGang] = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			p := New()
			for _, name := range []string{"web", "mate", "other"} {
				e := named("a", name)
				if name != "other" {
					e.Pod.Labels = map[string]string{plan.LabelGang: "g"}
				}
				e.Class, e.Gang, e.Adopted = plan.ClassKey(e.Pod), plan.GangOf(e.Pod), c.adopted
				p.Hold(e)
			}
			current := func(pod *corev1.Pod) *corev1.Pod {
				switch {
				case pod.Name != "web":
					return pod
				case c.gone:
					return nil
				}
				edited := pod.DeepCopy()
				c.edit(edited)
				return edited
			}
			now := time.Now()
			p.Needs(current, now)
			var got []string
			if which := p.Due(now); which != nil {
				for _, e := range p.Again(which) {
					got = append(got, e.Pod.Name)
				}
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%v are planned again, want %v", got, c.want)
			}
			p.Needs(current, now)
			if p.Due(now) != nil {
				t.Error("pods are planned again for the same edit")
			}
		})
	}
}

// Pods that are edited all the time are planned ever later, with the pods of their gang.
func TestEditsRest(t *testing.T) {
	p, now := New(), time.Now()
	for _, name := range []string{"web", "mate"} {
		e := named("a", name)
		e.Pod.Labels = map[string]string{plan.LabelGang: "g"}
		e.Class, e.Gang = plan.ClassKey(e.Pod), plan.GangOf(e.Pod)
		p.Hold(e)
	}
	var rests []time.Duration
	for i := range 7 {
		name := []string{"web", "mate"}[i%2]
		current := func(pod *corev1.Pod) *corev1.Pod {
			if pod.Name != name {
				return pod
			}
			edited := pod.DeepCopy()
			edited.Labels["edit"] = fmt.Sprint(i)
			return edited
		}
		p.Needs(current, now)
		rest := time.Duration(0)
		for p.Due(now.Add(rest)) == nil && rest < time.Minute {
			rest += time.Second
		}
		for _, e := range p.Again(func(intake.Entry) bool { return true }) {
			p.Hold(e)
		}
		rests, now = append(rests, rest), now.Add(rest)
	}
	if want := []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, replanMost, replanMost}; !slices.Equal(rests, want) {
		t.Errorf("planned again after %v, want %v", rests, want)
	}
}

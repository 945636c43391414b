package plan_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

func TestGangOf(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                plan.Gang
	}{
		"none":             {map[string]string{"app": "a"}, nil, plan.Gang{}},
		"label":            {map[string]string{plan.LabelGang: "g"}, nil, plan.Gang{Name: "default/g"}},
		"size annotated":   {map[string]string{plan.LabelGang: "g"}, map[string]string{plan.KeyGangSize: "4"}, plan.Gang{Name: "default/g", Size: 4}},
		"size labelled":    {map[string]string{plan.LabelGang: "g", plan.KeyGangSize: "5"}, nil, plan.Gang{Name: "default/g", Size: 5}},
		"size no number":   {map[string]string{plan.LabelGang: "g", plan.KeyGangSize: "many"}, nil, plan.Gang{Name: "default/g"}},
		"size negative":    {map[string]string{plan.LabelGang: "g", plan.KeyGangSize: "-1"}, nil, plan.Gang{Name: "default/g"}},
		"pod group":        {map[string]string{plan.LabelPodGroup: "mpi"}, nil, plan.Gang{Name: "default/mpi"}},
		"ours comes first": {map[string]string{plan.LabelPodGroup: "mpi", plan.LabelGang: "g"}, nil, plan.Gang{Name: "default/g"}},
	} {
		pod := podYAML{Name: "a", Labels: c.labels, Annotations: c.annotations}.pod()
		if got := plan.GangOf(pod); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// scarce is a random batch under a limit that is too small for it, of three priorities, about the given share in gangs.
func scarce(t *testing.T, seed uint64, gangs float64) plan.Input {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 23))
	in := world(t, 60, poolYAML{Name: "default", Limits: map[string]string{"cpu": strconv.Itoa(8 + rng.IntN(60))}})
	addPods(&in, 20+rng.IntN(60), 4+rng.IntN(6), seed)
	for i := range in.Classes {
		pod := in.Classes[i].Pod
		if rng.Float64() < gangs {
			pod.Labels[plan.LabelGang] = "gang-" + strconv.Itoa(rng.IntN(3))
		}
		pod.Spec.Priority = new(int32(rng.IntN(3) * 100))
		in.Classes[i].Key = plan.ClassKey(pod)
	}
	return in
}

// TestGangProperties plans random batches with gangs under limits: a gang is whole or not there.
func TestGangProperties(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			in := scarce(t, seed, 0.5)
			p := plan.Make(t.Context(), in)
			check(t, in, p)
			checkGangs(t, in, unplacedPods(p))
		})
	}
}

// TestPriorityProperties plans random batches under limits: pods of a priority and above get no fewer nodes than they
// would if there were no others.
func TestPriorityProperties(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			in := scarce(t, seed, 0)
			p := plan.Make(t.Context(), in)
			check(t, in, p)
			for _, least := range []int32{200, 100} {
				alone := in
				alone.Classes = slices.DeleteFunc(slices.Clone(in.Classes), func(c plan.Class) bool { return *c.Pod.Spec.Priority < least })
				if with, without := placedFrom(in, p, least), placedFrom(alone, plan.Make(t.Context(), alone), least); with < without {
					t.Errorf("%d pods of priority %d and above are placed beside others, %d alone", with, least, without)
				}
			}
		})
	}
}

// TestGangIsCompleteWithTheFinished checks that pods that have had their node count for their gang, and for no other.
func TestGangIsCompleteWithTheFinished(t *testing.T) {
	for name, unplaced := range map[string]int{"default/g": 0, "default/other": 1} {
		in := world(t, 60, poolYAML{Name: "default"})
		add(&in, "last", 1, func(p *corev1.Pod) {
			p.Labels[plan.LabelGang], p.Labels[plan.KeyGangSize] = "g", "8"
			p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": "500m"})
		})
		in.Finished = map[string]int{name: 7}
		p := plan.Make(t.Context(), in)
		if got := unplacedPods(p)[0]; got != unplaced {
			t.Errorf("7 pods of gang %s have finished: %d pods are unplaced, want %d: %+v", name, got, unplaced, p.Unplaced)
		}
	}
}

// placedFrom counts the pods of at least the priority that are placed.
func placedFrom(in plan.Input, p plan.Plan, least int32) int {
	n, left := 0, unplacedPods(p)
	for ci, c := range in.Classes {
		if *c.Pod.Spec.Priority >= least {
			n += len(c.Pods) - left[ci]
		}
	}
	return n
}

func unplacedPods(p plan.Plan) map[int]int {
	left := map[int]int{}
	for _, u := range p.Unplaced {
		left[u.Class] += len(u.Pods)
	}
	return left
}

func checkGangs(t *testing.T, in plan.Input, left map[int]int) {
	t.Helper()
	placed, waiting := map[string]int{}, map[string]int{}
	for ci, c := range in.Classes {
		if g := plan.GangOf(c.Pod); g.Name != "" {
			placed[g.Name] += len(c.Pods) - left[ci]
			waiting[g.Name] += left[ci]
		}
	}
	for name, n := range placed {
		if n > 0 && waiting[name] > 0 {
			t.Errorf("gang %s: %d pods are placed, %d are not", name, n, waiting[name])
		}
	}
}

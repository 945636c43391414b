package walk_test

import (
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// pods is the size of the walk's workload, which needs more than one node. spread is the number of pods of a half-empty
// fleet, each on its own node.
const pods, spread = 6, 2

// state is a state of rest: how many pods run, and how many instances of the standby buffer are stopped.
type state struct{ pods, asleep int }

// flow is one action of slipway, from one state of rest to another.
type flow struct {
	// name is the flow's in testdata/steps.txt.
	name string
	// from is the state of rest before, to the one afterwards.
	from, to state
	// begin starts the flow.
	begin func(*stage)
	// over returns what is still missing; nil means that only from and to count.
	over func(*stage) error
}

// stage is a scene with the walk's workload.
type stage struct {
	*scene
	web *appsv1.Deployment
	// victim is the NodeClaim that a flow removes.
	victim string
	// weight is the NodePool's.
	weight int
	// naps are the pods that wake the instances of the standby buffer, which is there if buffered is set.
	naps     *appsv1.Deployment
	buffered bool
	// starts is how often instances were started before a flow.
	starts int
}

func newStage(s *scene) *stage {
	return &stage{scene: s, web: s.deployment("web", "900m", nil), naps: s.napping()}
}

// flows are walked in this order: each begins in the state in which the one before ended.
func flows() []flow {
	full, half := state{pods: pods}, state{pods: spread}
	return []flow{
		{name: "arrive", to: full, begin: func(s *stage) { s.scale(s.web, pods) }},
		{name: "interrupt", from: full, to: full, begin: (*stage).interrupt, over: (*stage).victimGone},
		{name: "leave", from: full, to: full, begin: (*stage).deleteNode, over: (*stage).victimGone},
		{name: "fail-join", to: full, begin: (*stage).failJoin},
		{name: "drift", from: full, to: full, begin: (*stage).drift, over: (*stage).victimGone},
		{name: "consolidate", from: full, to: half, begin: (*stage).halfEmpty, over: (*stage).oneLeft},
		{name: "reclaim", from: full, begin: func(s *stage) { s.scale(s.web, 0) }},
		{name: "sleep", to: state{asleep: asleep}, begin: func(s *stage) { s.keepAsleep(asleep) }},
		{name: "wake", from: state{asleep: asleep}, to: state{asleep: asleep}, begin: (*stage).wake, over: (*stage).wokenOnce},
		{name: "forget", from: state{asleep: asleep}, begin: func(s *stage) { s.keepAsleep(0) }},
	}
}

// rest scales the stage to n running pods and so many stopped instances, and waits for them.
func (s *stage) rest(at state) {
	s.t.Helper()
	s.policy(karpv1.ConsolidationPolicyWhenEmpty)
	s.scale(s.web, at.pods)
	s.scale(s.naps, 0)
	s.keepAsleep(at.asleep)
	s.settle(fmt.Sprintf("%+v at rest", at), func() error { return errors.Join(s.atRest(at), s.runs("nap", 0), s.nothingElse(at)) })
}

func (s *stage) atRest(at state) error {
	if err := s.runs("web", at.pods); err != nil {
		return err
	}
	if n := len(s.sleepers()); n != at.asleep {
		return fmt.Errorf("%d instances are stopped, want %d", n, at.asleep)
	}
	return nil
}

// nothingElse returns an error if there are nodes beside the stopped instances though no pod runs.
func (s *stage) nothingElse(at state) error {
	if n := len(s.claims()); at.pods == 0 && n > at.asleep {
		return fmt.Errorf("%d NodeClaims are left, want %d", n, at.asleep)
	}
	return nil
}

// runs returns an error unless n pods of an app run.
func (s *scene) runs(app string, n int) error {
	if running := s.running(app); running != n {
		return fmt.Errorf("%d pods of %s run, want %d", running, app, n)
	}
	return nil
}

// failJoin makes one node fail to join. A NodePool is held for a minute when two of its last nodes failed, unless it was
// changed since. So the NodePool is changed first, and failures of earlier cases do not count.
func (s *stage) failJoin() {
	s.weight = s.weight%100 + 1
	s.patchPool(fmt.Sprintf(`{"spec":{"weight":%d}}`, s.weight))
	s.AWS().FailNextJoins(1)
	s.scale(s.web, pods)
}

func (s *stage) interrupt() {
	victim := s.claims()[0]
	s.victim = victim.Object.Name
	if err := s.AWS().Interrupt(instanceOf(victim)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) deleteNode() {
	victim := s.claims()[0]
	s.victim = victim.Object.Name
	for _, n := range s.Recorder.Nodes() {
		if n.Object.Name == victim.Object.Status.NodeName && !n.Deleted.Seen() {
			if err := s.API.Delete(s.t.Context(), n.Object, client.Preconditions{UID: &n.Object.UID}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// drift makes one node differ from what its NodePool asks for.
func (s *stage) drift() {
	victim := s.claims()[0]
	s.victim = victim.Object.Name
	s.annotate(victim.Object, karpv1.NodePoolHashAnnotationKey, "another")
}

// halfEmpty deletes all pods but one on each of two nodes, the larger of which has room for both, and enables consolidation.
func (s *stage) halfEmpty() {
	nodes := map[string]*resource.Quantity{}
	for _, n := range s.Recorder.Nodes() {
		nodes[n.Object.Name] = n.Object.Status.Allocatable.Cpu()
	}
	running := slices.DeleteFunc(s.Recorder.Pods(), func(p observe.Pod) bool {
		return p.Object.Labels["app"] != s.web.Name || p.Deleted.Seen() || p.Terminating.Seen() || p.Object.Status.Phase != corev1.PodRunning
	})
	slices.SortStableFunc(running, func(a, b observe.Pod) int {
		return nodes[b.Object.Spec.NodeName].Cmp(*nodes[a.Object.Spec.NodeName])
	})
	kept := map[string]bool{}
	for _, p := range running {
		if len(kept) < spread && !kept[p.Object.Spec.NodeName] {
			kept[p.Object.Spec.NodeName] = true
			continue
		}
		s.annotate(p.Object, corev1.PodDeletionCost, "-100") // These are the first to go.
	}
	s.scale(s.web, spread)
	s.policy(karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized)
}

func (s *stage) oneLeft() error {
	if claims := len(s.claims()); claims != 1 {
		return fmt.Errorf("there are %d NodeClaims, one has room for all pods", claims)
	}
	return nil
}

func (s *stage) victimGone() error {
	for _, c := range s.claims() {
		if c.Object.Name == s.victim {
			return fmt.Errorf("NodeClaim %s is still there", s.victim)
		}
	}
	return nil
}

// run runs a flow to its end.
func (s *stage) run(f flow) {
	s.t.Helper()
	f.begin(s)
	s.settle("the end of "+f.name, func() error {
		switch err := s.atRest(f.to); {
		case err != nil:
			return err
		case f.over == nil:
			return s.nothingElse(f.to)
		}
		return f.over(s)
	})
}

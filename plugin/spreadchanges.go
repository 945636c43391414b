package plugin

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// mostCame bounds the pods that are kept between two looks of the planner. With more, any held pod may count one of them.
const mostCame = 1000

// spreadChanges are what the topology spread of held pods counts and that has changed since the planner has looked. It is safe for concurrent use.
type spreadChanges struct {
	mu       sync.Mutex
	nodeGone bool
	// came are pods that were bound, one for each controller: the labels of its others differ in numbers at most.
	came map[cameOf]*corev1.Pod
}

// cameOf is whose pods one stands for: those of its controller, or that pod alone.
type cameOf struct {
	controller intake.Controller
	pod        string
}

func newSpreadChanges() *spreadChanges { return &spreadChanges{came: map[cameOf]*corev1.Pod{}} }

// nodeLeft records that a node is gone.
func (s *spreadChanges) nodeLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodeGone = true
}

// podCame records that a pod was bound.
func (s *spreadChanges) podCame(pod *corev1.Pod) {
	of := cameOf{controller: intake.ControllerOf(pod)}
	if of.controller.None() {
		of.pod = string(pod.UID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.came) < mostCame {
		s.came[of] = pod
	} else {
		s.nodeGone = true
	}
}

// take returns whether a node is gone, and the pods that were bound since the last call.
func (s *spreadChanges) take() (nodeGone bool, bound []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodeGone, bound = s.nodeGone, slices.Collect(maps.Values(s.came))
	s.nodeGone = false
	clear(s.came)
	return nodeGone, bound
}

package plugin

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// inbox hands what the receivers get to the goroutines that work on it. Nothing in it is ever dropped, and putting something in
// never blocks: the receivers must not stand still.
type inbox struct {
	questions chan struct{}
	// wake has the planner look at what came.
	wake func()

	mu      sync.Mutex
	updates []link.Update
	asked   []*api.Question
	ends    []terminationRequest
	moves   []*api.Question
	placed  []*corev1.Pod
}

// terminationRequest asks the planner to plan room for the pods of a node that terminates.
type terminationRequest struct {
	question *api.Question
	node     string
	reason   string
}

func newInbox(wake func()) *inbox { return &inbox{questions: make(chan struct{}, 1), wake: wake} }

// update takes a change of the catalog.
func (i *inbox) update(u link.Update) {
	i.mu.Lock()
	i.updates = append(i.updates, u)
	i.mu.Unlock()
	i.wake()
}

// arrive takes a pod that was placed, of an owner for whose pods room is kept.
func (i *inbox) arrive(pod *corev1.Pod) {
	i.mu.Lock()
	i.placed = append(i.placed, pod)
	i.mu.Unlock()
	i.wake()
}

// takePlaced hands those pods over.
func (i *inbox) takePlaced() []*corev1.Pod {
	i.mu.Lock()
	defer i.mu.Unlock()
	placed := i.placed
	i.placed = nil
	return placed
}

// question takes a question of the launcher. Those that need a plan are for the planner, the others for the answerers.
func (i *inbox) question(q *api.Question) {
	i.mu.Lock()
	if g := q.GetNodeGoing(); g != nil {
		i.ends = append(i.ends, terminationRequest{question: q, node: g.GetNodeName(), reason: g.GetReason()})
		i.mu.Unlock()
		i.wake()
		return
	}
	if q.GetMove() != nil || q.GetConsolidate() != nil {
		i.moves = append(i.moves, q)
		i.mu.Unlock()
		i.wake()
		return
	}
	i.asked = append(i.asked, q)
	i.mu.Unlock()
	select {
	case i.questions <- struct{}{}:
	default:
	}
}

// asking reports whether there are questions for the planner.
func (i *inbox) asking() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.ends)+len(i.moves) > 0
}

// takeUpdates hands over the catalog updates.
func (i *inbox) takeUpdates() []link.Update {
	i.mu.Lock()
	defer i.mu.Unlock()
	updates := i.updates
	i.updates = nil
	return updates
}

// takeTerminations hands over the requests for plans.
func (i *inbox) takeTerminations() []terminationRequest {
	i.mu.Lock()
	defer i.mu.Unlock()
	ends := i.ends
	i.ends = nil
	return ends
}

// takeMoves hands over the questions about moves.
func (i *inbox) takeMoves() []*api.Question {
	i.mu.Lock()
	defer i.mu.Unlock()
	moves := i.moves
	i.moves = nil
	return moves
}

// takeQuestion hands over one question, nil if there is none, and reports whether there are more.
func (i *inbox) takeQuestion() (q *api.Question, more bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.asked) == 0 {
		return nil, false
	}
	q, i.asked = i.asked[0], i.asked[1:]
	return q, len(i.asked) > 0
}

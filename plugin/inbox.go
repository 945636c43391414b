package plugin

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// inbox hands what the receivers get to the goroutines that work on it. Nothing in it is dropped that is waited for, and putting something in
// never blocks: the receivers must not stand still.
type inbox struct {
	questions chan struct{}
	// wake has the planner look at what came.
	wake func()

	mu      sync.Mutex
	updates []link.Update
	placed  []*corev1.Pod
	// rooms are questions for room, decisions those about consolidation, buffers those about capacity buffers, asked all others.
	rooms                     []roomQuestion
	decisions, buffers, asked []*api.Question
}

// roomQuestion is a question for room with the time at which it came.
type roomQuestion struct {
	question *api.Question
	at       time.Time
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
	if i.put(q) {
		i.wake()
		return
	}
	select {
	case i.questions <- struct{}{}:
	default:
	}
}

// put keeps a question, and reports whether it is for the planner.
func (i *inbox) put(q *api.Question) (planner bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case q.GetMakeRoom() != nil:
		i.rooms = append(i.rooms, roomQuestion{question: q, at: time.Now()})
	case q.GetConsolidate() != nil:
		i.decisions = append(i.decisions, q)
	case q.GetPlaceBuffers() != nil:
		i.buffers = append(i.buffers, q)
	default:
		i.asked = append(i.asked, q)
		return false
	}
	return true
}

// asking reports whether there are questions for the planner.
func (i *inbox) asking() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.rooms)+len(i.decisions) > 0
}

// takeUpdates hands over the catalog updates.
func (i *inbox) takeUpdates() []link.Update {
	i.mu.Lock()
	defer i.mu.Unlock()
	updates := i.updates
	i.updates = nil
	return updates
}

// takePlans hands over questions for the planner: all for room about terminations, the first of those about moves, and those about consolidation. The other
// moves stay, so that pods and terminations wait for one at most. Questions that are not waited for any more are dropped: to plan for them would make the
// others too late as well, and launch nodes that no move uses.
func (i *inbox) takePlans(now time.Time) (rooms, decisions []*api.Question) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var left []roomQuestion
	moves := 0
	for _, r := range i.rooms {
		move := r.question.GetMakeRoom().GetPurpose() == api.Purpose_PURPOSE_MOVE
		switch {
		case now.Sub(r.at) >= api.AnswerWithin:
		case move && moves > 0:
			left = append(left, r)
		default:
			rooms = append(rooms, r.question)
			if move {
				moves++
			}
		}
	}
	decisions = i.decisions
	i.rooms, i.decisions = left, nil
	return rooms, decisions
}

// takeBuffers hands over the questions about capacity buffers.
func (i *inbox) takeBuffers() []*api.Question {
	i.mu.Lock()
	defer i.mu.Unlock()
	buffers := i.buffers
	i.buffers = nil
	return buffers
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

package plugin

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// Questions about terminations are handed over at once, of those about moves one at a time, and none that is not waited for any more.
func TestRoomQuestionsInTurns(t *testing.T) {
	woken := 0
	i := newInbox(func() { woken++ })
	for id, purpose := range map[string]api.Purpose{"a": api.Purpose_PURPOSE_MOVE, "b": api.Purpose_PURPOSE_MOVE, "c": api.Purpose_PURPOSE_TERMINATION, "d": api.Purpose_PURPOSE_TERMINATION} {
		i.question(&api.Question{Id: id, Kind: &api.Question_MakeRoom{MakeRoom: &api.MakeRoom{Purpose: purpose}}})
	}
	i.question(&api.Question{Id: "e", Kind: &api.Question_Consolidate{Consolidate: &api.Consolidate{}}})
	take := func(now time.Time) (moves, terminations int) {
		rooms, _ := i.takePlans(now)
		for _, q := range rooms {
			if q.GetMakeRoom().GetPurpose() == api.Purpose_PURPOSE_MOVE {
				moves++
			} else {
				terminations++
			}
		}
		return moves, terminations
	}
	if moves, terminations := take(time.Now()); moves != 1 || terminations != 2 || !i.asking() || woken != 5 {
		t.Errorf("first %d moves and %d terminations, asking %t", moves, terminations, i.asking())
	}
	if moves, terminations := take(time.Now()); moves != 1 || terminations != 0 || i.asking() {
		t.Errorf("then %d moves and %d terminations, asking %t", moves, terminations, i.asking())
	}
	i.question(&api.Question{Id: "late", Kind: &api.Question_MakeRoom{MakeRoom: &api.MakeRoom{Purpose: api.Purpose_PURPOSE_MOVE}}})
	if rooms, _ := i.takePlans(time.Now().Add(api.AnswerWithin)); len(rooms) != 0 || i.asking() {
		t.Errorf("questions that are not waited for: %v, asking %t", rooms, i.asking())
	}
}

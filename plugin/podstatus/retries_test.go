package podstatus

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A note that writes no condition leaves those to be written that wait: after a failure, or for their turn to be refreshed.
func TestNotesWithoutAMessage(t *testing.T) {
	t.Run("failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newReporter(t, pending())
			fails := true
			w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				defer func() { fails = false }()
				return fails, nil, errors.New("connection reset by peer")
			})
			w.says("a", "0/1 nodes are available.")
			w.Report(Note{Pod: catalog.PodRefOf(w.pod), NotNominated: "n"})
			time.Sleep(time.Minute)
			if !strings.Contains(w.condition(), "NodePool a: full") {
				t.Errorf("condition %q, want what was not written at first", w.condition())
			}
		})
	})
	t.Run("stale", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, 2*refreshBurst)
			c.refuse("LimitExceeded", "0/1 nodes are available.")
			time.Sleep(time.Second)
			c.refuse("LimitExceeded", "0/2 nodes are available.")
			synctest.Wait()
			for _, pod := range c.pods {
				c.Report(Note{Pod: catalog.PodRefOf(pod), NotNominated: "n"})
			}
			time.Sleep(time.Minute)
			if got := c.showing("0/2 nodes"); got != len(c.pods) {
				t.Errorf("%d of %d pods show the newest figures", got, len(c.pods))
			}
		})
	})
}

// The Event of a note that waits is not lost with a note that has neither message nor Event.
func TestEventOfAWaitingNoteIsKept(t *testing.T) {
	w := New(Config{})
	ref := catalog.PodRefOf(pending())
	w.Report(Note{Pod: ref, Message: full("why", ""), EventReason: "FailedScheduling", Warning: true})
	w.Report(Note{Pod: ref, NotNominated: "n"})
	if got := w.notes[ref.UID]; got.EventReason != "FailedScheduling" || !got.Warning || got.Message.IsZero() || got.NotNominated != "n" {
		t.Errorf("the note became %+v", got)
	}
}

// A note whose write failed replaces none that came meanwhile, and gives its message to one that has none.
func TestRepeatedNotesReplaceNoNewerOne(t *testing.T) {
	ref := catalog.PodRefOf(pending())
	for range 10 {
		w := New(Config{})
		var both sync.WaitGroup
		// Whichever waits for a lock for long gets it in its turn, between any two steps of the other.
		w.mu.Lock()
		both.Go(func() { w.again(Note{Pod: ref, Message: full("old", ""), tries: 1}) })
		time.Sleep(2 * time.Millisecond)
		both.Go(func() { w.Report(Note{Pod: ref, Message: full("new", "")}) })
		time.Sleep(2 * time.Millisecond)
		w.mu.Unlock()
		w.mu.Lock()
		time.Sleep(2 * time.Millisecond)
		w.mu.Unlock()
		both.Wait()
		if n, _ := w.pop(); !strings.Contains(n.Message.String(), "NodePool new") {
			t.Fatalf("the note that is written says %q", n.Message.String())
		}
	}
	w := New(Config{})
	w.Report(Note{Pod: ref, NotNominated: "n"})
	w.again(Note{Pod: ref, Message: full("old", ""), tries: 1})
	if n, _ := w.pop(); n.NotNominated != "n" || !strings.Contains(n.Message.String(), "NodePool old") || n.tries != 1 {
		t.Errorf("note %+v, want both", n)
	}
}

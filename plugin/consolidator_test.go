package plugin

import (
	"strings"
	"testing"
	"time"
)

// Decisions rest after much planning: a question that comes meanwhile is answered without any.
func TestDecisionsRest(t *testing.T) {
	c := &consolidator{rest: time.Now().Add(time.Hour)}
	if got := c.safe(t.Context(), decision{}); !strings.Contains(got.GetMessage(), "the last decision took much planning") {
		t.Errorf("answer %v: want it to say that decisions rest", got)
	}
}

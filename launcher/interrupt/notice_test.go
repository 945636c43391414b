package interrupt_test

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// A termination has the time of EC2's message, also where it is read late and where the first attempt fails.
func TestNoticesKeepTheirTime(t *testing.T) {
	amid(t, idle, func(s *scene, _ *looks) {
		s.addClaim("default-1", map[string]string{"instance": "i-1"})
		s.fail.Store(1)
		sent := time.Now().Add(-50 * time.Second)
		s.queue.Send(cloud.Message{Kind: cloud.SpotInterrupted, InstanceIDs: []string{"i-1"}, Time: sent})
		rest(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.noticed) != 2 || !s.noticed[0].Equal(sent) || !s.noticed[1].Equal(sent) || s.queue.Queued() != 0 {
			t.Errorf("times %v, want that of the message twice, %s; %d messages are left", s.noticed, sent, s.queue.Queued())
		}
	})
}

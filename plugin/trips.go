package plugin

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
)

// trips counts and reports parts of slipway inside of the scheduler that failed and are off for a while.
type trips struct {
	metrics *metrics
	// events is nil before Install: then they are only counted.
	events atomic.Pointer[tripEvents]
}

// tripEvents is where trips writes its Events.
type tripEvents struct {
	recorder announce.EventRecorder
	// lease is that of the scheduler, which the Events are about.
	lease *corev1.ObjectReference
}

// Tripped counts and reports a part that is switched off.
func (t *trips) Tripped(part string, cause any) {
	t.metrics.trips.WithLabelValues(part).Inc()
	if to := t.events.Load(); to != nil {
		to.recorder.Eventf(to.lease, corev1.EventTypeWarning, "HookTripped",
			"slipway's part in %s failed (%v) and is off for ten minutes; scheduling goes on", part, cause)
	}
}

package window

import (
	"errors"
	"strings"
	"time"
)

// SleepAnnotation of a Namespace holds the windows in which it sleeps, as a YAML list.
const SleepAnnotation = "slipway.dev/sleep"

const (
	// mostLead is the longest time before the end of a sleep at which pods wake, and from which on no pod is evicted.
	mostLead = 10 * time.Minute
	// mostJoined is how many windows are followed that open before the one before has closed.
	mostJoined = 20
)

// ReadSleep reads the windows in which a namespace sleeps from its annotations. The error names each field and what is wrong with it. Windows
// without a mistake are returned with it.
func ReadSleep(namespace string, annotations map[string]string) (Windows, error) {
	if strings.TrimSpace(annotations[SleepAnnotation]) == "" {
		return nil, nil
	}
	if namespace == "kube-system" {
		return nil, errors.New("metadata.annotations[" + SleepAnnotation + "]: the namespace kube-system does not sleep")
	}
	return read(annotations, SleepAnnotation, func(w Window) error {
		if w.Replicas != nil || w.Percentage != nil || w.Limits != nil {
			return errors.New("a sleep has schedule, timeZone and duration alone")
		}
		return nil
	})
}

// Span is a time in which windows are open without a gap.
type Span struct {
	// Since is when it began, and Until when it ends.
	Since, Until time.Time
}

// Span returns the one that now is in; ok is false where no window is open. Windows that go on and on end within about twenty of them.
func (w Windows) Span(now time.Time) (span Span, ok bool) {
	for i := range w {
		if at, open := w[i].opened(now); open && (span.Since.IsZero() || at.Before(span.Since)) {
			span.Since = at
		}
	}
	if span.Since.IsZero() {
		return span, false
	}
	span.Until = now
	for range mostJoined {
		end := span.Until
		for i := range w {
			if at, open := w[i].reopened(end); open && at.After(end) {
				end = at
			}
		}
		if !end.After(span.Until) {
			return span, true
		}
		span.Until = end
	}
	return span, true
}

// reopened returns the latest end of the window's openings that are not over at t.
func (w *Window) reopened(t time.Time) (end time.Time, ok bool) {
	at, open := w.opened(t)
	if !open {
		return time.Time{}, false
	}
	for range mostJoined { // It may open again before it closes.
		next := w.schedule.Next(at)
		if next.IsZero() || next.After(t) {
			break
		}
		at = next
	}
	return at.Add(w.Duration.Duration), true
}

// Wakes returns from when on pods are scheduled, if they need so long to run: before the end, and not in the first half of the sleep.
func (s Span) Wakes(lead time.Duration) time.Time { return s.Until.Add(-min(lead, mostLead, s.half())) }

// Evicts reports whether pods are evicted: not for long before the end, as those that have woken must not be.
func (s Span) Evicts(now time.Time) bool { return now.Before(s.Until.Add(-min(mostLead, s.half()))) }

func (s Span) half() time.Duration { return s.Until.Sub(s.Since) / 2 }

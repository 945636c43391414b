package calm

import (
	"maps"
	"slices"
	"time"
)

const (
	// EventEvery is the least time between two equal Events on one object, as in Karpenter.
	EventEvery = 15 * time.Minute
	// eventTexts is how many Events of one reason with different messages one object gets in that time: why a node stays may have changed, and a busy cluster
	// changes it all the time.
	eventTexts = 3
	// repeatEvery is when the last message is recorded again although it still holds: shortly before the API server forgets its Event, which it does after
	// an hour (kube-apiserver's --event-ttl). Karpenter repeats it four times in that time: eleven writes a second with 5,000 nodes.
	repeatEvery = 55 * time.Minute
)

// recorded are the Events of one reason about one object.
type recorded struct {
	// at is when the first of texts was recorded, which are all of EventEvery, and said when the last one was.
	at, said time.Time
	texts    []string
}

// Events are those that were recorded, by their reason and object.
type Events map[string]recorded

// IsNew reports whether a message about an object is to be recorded with the Event, and remembers it: not if it is the last one that was recorded, until
// repeatEvery has passed, nor if it is another one of the last EventEvery, or if there were eventTexts in that time.
func (e Events) IsNew(event, object, message string, now time.Time) bool {
	key := event + "/" + object
	r, known := e[key]
	if known && message == r.texts[len(r.texts)-1] && now.Sub(r.said) < repeatEvery {
		return false
	}
	if now.Sub(r.at) >= EventEvery {
		r.at, r.texts = now, nil
	}
	if len(r.texts) >= eventTexts || slices.Contains(r.texts, message) {
		return false
	}
	r.texts, r.said = append(r.texts, message), now
	e[key] = r
	return true
}

// Forget forgets those that are recorded again in any case.
func (e Events) Forget(now time.Time) {
	maps.DeleteFunc(e, func(_ string, r recorded) bool { return now.Sub(r.said) > repeatEvery })
}

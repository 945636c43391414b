// Package progress reports work that takes more than two seconds while it goes on: what it is, and for how long. Work that is done sooner reports
// nothing.
package progress

import (
	"fmt"
	"sync"
	"time"
)

const (
	// first is how long work goes on before it is reported.
	first = 2 * time.Second
	// most is the longest time between two reports.
	most = 30 * time.Second
)

// During runs do and returns its result. Meanwhile it calls say with a line such as "planning 300 pods: 4s", after two seconds, and then after twice
// as long each time, at most after 30 seconds. say is called by another goroutine, and not after During has returned.
func During[T any](say func(line string), what string, do func() (T, error)) (T, error) {
	done, begin := make(chan struct{}), time.Now()
	var reporter sync.WaitGroup
	reporter.Go(func() {
		for wait := first; ; wait = min(2*wait, most) {
			select {
			case <-done:
				return
			case <-time.After(wait):
				say(fmt.Sprintf("%s: %s", what, time.Since(begin).Round(time.Second)))
			}
		}
	})
	defer reporter.Wait()
	defer close(done)
	return do()
}

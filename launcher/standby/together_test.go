package standby

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What comes within a moment is one call, and no call is larger than what EC2 is asked at once. Each instance has its own answer. After the end of leadership no call is
// made, neither for the first instance of a round nor for those that have joined it.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("no capacity")
		var mu sync.Mutex // Two calls may be made beside each other.
		var calls []int
		power := &together[string]{id: func(id string) string { return id }, call: func(_ context.Context, ids []string) map[string]error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, len(ids))
			return map[string]error{"i-7": refused}
		}}
		begin := func(n int) {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					if err := power.do(t.Context(), fmt.Sprintf("i-%d", i)); (i == 7) != errors.Is(err, refused) {
						t.Errorf("instance %d: %v", i, err)
					}
				})
			}
			all.Wait()
		}
		begin(20)
		begin(1)
		begin(70)
		if fmt.Sprint(calls) != "[20 1 50 20]" && fmt.Sprint(calls) != "[20 1 20 50]" {
			t.Errorf("calls of %v instances", calls)
		}
		start := time.Now()
		if begin(1); time.Since(start) != moment {
			t.Errorf("one alone waited %s", time.Since(start))
		}
		made := len(calls)
		leads, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := power.do(leads, "i-1"); !errors.Is(err, context.Canceled) {
					t.Errorf("while leadership ends: %v", err)
				}
			})
		}
		synctest.Wait()
		end()
		all.Wait()
		if err := power.do(leads, "i-1"); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of leadership: %v", err)
		}
		if len(calls) != made {
			t.Errorf("%d calls were made after the end of leadership", len(calls)-made)
		}
	})
}

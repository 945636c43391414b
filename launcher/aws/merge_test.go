package aws

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Requests within the window share a call; a later request has its own.
func TestMergerSharesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int
		m := newMerger(gather, func(_ context.Context, requests []int) (int, error) {
			calls = append(calls, slices.Sorted(slices.Values(requests)))
			return len(requests), nil
		})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%2) * gather / 2)
				if n, err := m.do(t.Context(), i); n != 100 || err != nil {
					t.Errorf("request %d: %d, %v", i, n, err)
				}
			})
		}
		wg.Wait()
		if n, err := m.do(t.Context(), 7); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if len(calls) != 2 || len(calls[0]) != 100 {
			t.Errorf("calls %v", calls)
		}
	})
}

// A caller that gives up does not end the call for others; when all have given up, the call ends too.
func TestMergerOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		m := newMerger(gather, func(ctx context.Context, requests []int) (int, error) {
			select {
			case <-ctx.Done():
				ended++
				return 0, ctx.Err()
			case <-time.After(time.Second):
				return len(requests), nil
			}
		})
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := m.do(first, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("the first caller: %v", err)
			}
		})
		wg.Go(func() {
			if n, err := m.do(t.Context(), 2); n != 2 || err != nil {
				t.Errorf("the second caller: %d, %v", n, err)
			}
		})
		time.Sleep(gather / 2)
		cancel()
		wg.Wait()
		alone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := m.do(alone, 3); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		if ended != 1 {
			t.Errorf("%d calls were ended, want the last", ended)
		}
		// No request joins a call that was given up.
		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(gather/2, cancel)
		_, _ = m.do(gone, 4)
		if n, err := m.do(t.Context(), 5); n != 1 || err != nil {
			t.Errorf("after one that was given up: %d, %v", n, err)
		}
	})
}

// The launcher stays inside EC2's buckets, each for itself.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[string]int{}
		limits := newThrottle(func(action string, _ time.Duration) { waits[action]++ })
		began := time.Now()
		for range 45 {
			if err := limits.wait(t.Context(), "CreateFleet"); err != nil {
				t.Fatal(err)
			}
		}
		if waits["CreateFleet"] != 0 {
			t.Error("the burst had to wait")
		}
		for range 45 {
			if err := limits.wait(t.Context(), "CreateFleet"); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d < 9*time.Second || d > 11*time.Second || waits["CreateFleet"] != 45 {
			t.Errorf("90 calls took %s with %d waits, EC2 gives 50 and 5 a second", d, waits["CreateFleet"])
		}
		if err := limits.wait(t.Context(), "DescribeInstances"); err != nil || waits["DescribeInstances"] != 0 {
			t.Error("one action waits for another")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := limits.wait(ctx, "CreateFleet"); err == nil {
			t.Error("a call whose time is over does not end")
		}
	})
}

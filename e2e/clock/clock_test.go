package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/e2e/clock"
)

func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		speed      float64
		want, back time.Duration
	}{
		{10, 3 * time.Second, 300 * time.Second},
		{1, 30 * time.Second, 30 * time.Second},
		{0, 30 * time.Second, 30 * time.Second},
		{-2, 30 * time.Second, 30 * time.Second},
		{0.5, time.Minute, 15 * time.Second},
	} {
		if got := clock.New(c.speed).Scale(30 * time.Second); got != c.want {
			t.Errorf("at speed %v 30 s take %v, want %v", c.speed, got, c.want)
		}
		if got := clock.New(c.speed).Elapsed(30 * time.Second); got != c.back {
			t.Errorf("at speed %v 30 real seconds are %v, want %v", c.speed, got, c.back)
		}
	}
}

func TestSleepAndAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := clock.New(10), time.Now()
		if err := c.Sleep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		<-c.After(time.Minute)
		if got := time.Since(start); got != 12*time.Second {
			t.Errorf("two simulated minutes took %v, want 12 s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep returned %v when its context ended", err)
		}
	})
}

package leadership

import (
	"context"
	"errors"
	"time"
)

// Every calls do at once and then in every period until ctx ends, waiting for leadership first each time. failed is called with the first
// error of a series; the end of leadership or ctx is not an error.
func Every(ctx context.Context, g Guard, period time.Duration, failed func(error), do func(context.Context) error) {
	for failing := false; ; {
		err := whileLeading(ctx, g, do)
		switch {
		case ctx.Err() != nil, errors.Is(err, ErrLost):
		case err != nil && !failing:
			failed(err)
			failing = true
		case err == nil:
			failing = false
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
	}
}

// whileLeading calls do once. If its context ended, it returns that as the error.
func whileLeading(ctx context.Context, g Guard, do func(context.Context) error) error {
	ctx, cancel, err := g.Wait(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := do(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

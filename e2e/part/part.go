// Package part runs the servers that a sandbox is made of, each in a goroutine of its own, so that one that ends by itself,
// fails or panics is noticed, and each can be stopped and waited for on its own.
package part

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// stopTimeout bounds how long one part may take to end.
const stopTimeout = 2 * time.Minute

// errEnded is the error of a part that ended by itself without one.
var errEnded = errors.New("the part was not stopped")

// Part is a server that runs until Stop.
type Part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// Start calls run in a goroutine; its context ends with Stop and carries the values of ctx, but not its end. Where run
// returns or panics before Stop, failed is called with an error that names the part.
func Start(ctx context.Context, name string, run func(context.Context) error, failed func(error)) *Part {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Part{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := recovered(running, run); running.Err() == nil {
			if err == nil {
				err = errEnded
			}
			failed(fmt.Errorf("%s ended: %w", name, err))
		}
	}()
	return p
}

func recovered(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	return run(ctx)
}

// Stop ends the part and waits for it; an error says that it did not end in time. It may be called more than once.
func (p *Part) Stop() error {
	p.cancel()
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("%s did not end within %s", p.name, stopTimeout)
	}
}

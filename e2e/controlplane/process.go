package controlplane

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// stopTimeout bounds how long one server may take to end.
const stopTimeout = 20 * time.Second

// process is a server that runs in a goroutine until its context ends.
type process struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// startProcess runs a server; ended is called when it ends before stop, with its error or, where it has none or
// panicked, with one that says so.
func startProcess(name string, run func(context.Context) error, ended func(error)) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = recovered(ctx, run)
		if ctx.Err() == nil {
			ended(fmt.Errorf("%s ended: %w", name, errors.Join(p.err, errEnded)))
		}
	}()
	return p
}

var errEnded = errors.New("the server was not told to stop")

func recovered(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	return run(ctx)
}

// stop ends the server and waits for it.
func (p *process) stop() error {
	p.cancel()
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("%s did not end within %s", p.name, stopTimeout)
	}
}

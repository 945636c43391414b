package plugin

import (
	"context"
	"sync"
	"time"
)

// together runs each of the loops in a goroutine of its own, and returns when all have.
func together(ctx context.Context, loops ...func(context.Context)) {
	var all sync.WaitGroup
	for _, loop := range loops {
		all.Go(func() { loop(ctx) })
	}
	all.Wait()
}

// meanwhile makes a call that may take long in a goroutine of its own, and calls read for each value of wake until the call is over.
// A panic of the call is its own.
func meanwhile(call func(), wake <-chan struct{}, read func(now time.Time)) {
	over := make(chan any, 1)
	go func() {
		defer func() { over <- recover() }()
		call()
	}()
	for {
		select {
		case cause := <-over:
			if cause != nil {
				panic(cause)
			}
			return
		case <-wake:
			read(time.Now())
		}
	}
}

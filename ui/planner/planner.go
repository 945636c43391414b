package planner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
	"github.com/slipway-k8s/slipway/ui/reply"
)

const (
	// Path is below which questions are answered.
	Path = "/local/v1/"
	// within bounds a question, reading the cluster included.
	within = 50 * time.Second
	// mostBody bounds the size of a question, in bytes.
	mostBody = 256 << 10
	// fresh is how long objects and edits are used again at least, and rests how many times as long as they took to get.
	fresh, rests = 5 * time.Second, 10
	// boundFresh and boundRests are those of the lower bound, which takes as long as planning all pods.
	boundFresh, boundRests = 30 * time.Second, 100
	// marketFresh is how long prices, and what EC2 refuses, are used again at least.
	marketFresh = 10 * time.Second
)

// Config is what a Server needs. All fields but Options are required.
type Config struct {
	// Objects reads the cluster.
	Objects func(ctx context.Context) ([]runtime.Object, error)
	// Market returns what can be bought now.
	Market func(ctx context.Context) (*market.Market, error)
	// Buffers returns what buffers would have cost and saved in the last day.
	Buffers func(ctx context.Context) (view.BufferReport, error)
	// Options of the planner.
	Options simulate.Options
}

// Server answers questions.
type Server struct {
	config  Config
	running *semaphore.Weighted

	// The following are used while running is held.
	objects kept[[]runtime.Object]
	market  kept[*market.Market]
	edits   kept[Edits]
	bound   kept[Bound]
	buffers kept[view.BufferReport]
}

// New returns a Server.
func New(c Config) (*Server, error) {
	if c.Objects == nil || c.Market == nil || c.Buffers == nil {
		return nil, errors.New("planner: Objects, Market and Buffers are required")
	}
	return &Server{config: c, running: semaphore.NewWeighted(1)}, nil
}

// Register adds the paths to a mux.
func (s *Server) Register(mux *http.ServeMux) {
	mux.Handle("GET "+Path+"edits", s.answering(func(ctx context.Context, _ *http.Request) (any, error) { return s.findEdits(ctx) }))
	mux.Handle("GET "+Path+"bound", s.answering(func(ctx context.Context, _ *http.Request) (any, error) { return s.lowerBound(ctx) }))
	mux.Handle("GET "+Path+"buffers", s.answering(s.bufferReport))
	mux.Handle("GET "+Path+"object", s.answering(s.object))
	mux.Handle("POST "+Path+"whatif", s.answering(s.whatIf))
}

// answering answers with what a function returns, one question at a time.
func (s *Server) answering(answer func(context.Context, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		if err := s.running.Acquire(ctx, 1); err != nil {
			reply.Refuse(w, apierrors.NewTooManyRequests("another question is being planned", 5))
			return
		}
		defer s.running.Release(1)
		out, err := answer(ctx, r)
		if errors.Is(err, context.DeadlineExceeded) {
			err = apierrors.NewTimeoutError(fmt.Sprintf("the cluster could not be read and planned within %s: slipway simulate --from-cluster has no such limit", within), 60)
		}
		if err != nil {
			reply.Refuse(w, err)
			return
		}
		reply.JSON(w, r, out)
	})
}

// kept is an answer that is used again for a while.
type kept[T any] struct {
	value T
	// begun is when the value was asked for.
	begun time.Time
	until time.Time
}

// get returns what is kept, or makes it. It is used again for least, or rests times as long as it took.
func (k *kept[T]) get(least time.Duration, rests int, compute func() (T, error)) (T, error) {
	begin := time.Now()
	if begin.Before(k.until) {
		return k.value, nil
	}
	value, err := compute()
	if err != nil {
		return value, err
	}
	end := time.Now()
	k.value, k.begun, k.until = value, begin, end.Add(max(least, time.Duration(rests)*end.Sub(begin)))
	return value, nil
}

// read returns the cluster's objects as they are now, or were a short time ago.
func (s *Server) read(ctx context.Context) ([]runtime.Object, error) {
	return s.objects.get(fresh, rests, func() ([]runtime.Object, error) { return s.config.Objects(ctx) })
}

// inputs are what worlds are made of: those of one question are made of the same.
type inputs struct {
	objects []runtime.Object
	prices  *market.Market
	now     time.Time
}

// inputs returns the cluster's objects and the prices of now, or of a short time ago.
func (s *Server) inputs(ctx context.Context) (inputs, error) {
	objects, err := s.read(ctx)
	if err != nil {
		return inputs{}, err
	}
	prices, err := s.market.get(marketFresh, rests, func() (*market.Market, error) { return s.config.Market(ctx) })
	return inputs{objects: objects, prices: prices, now: time.Now()}, err
}

// world returns the inputs for the planner, with the text's objects in the place of theirs.
func (in inputs) world(options simulate.Options, text string) (edits.World, error) {
	r := input.NewReader()
	for _, o := range in.objects {
		r.Add(o)
	}
	if err := input.Edit(r, "edit", []byte(text)); err != nil {
		return edits.World{}, apierrors.NewBadRequest("reading the edit: " + err.Error())
	}
	out := edits.World{Objects: r.Finish(), Options: options}
	out.Options.Now = in.now
	m := *in.prices.AtLaunch(out.Objects, in.now) // A simulation notes what it assumes.
	out.Market = &m
	return out, nil
}

// world returns the cluster for the planner.
func (s *Server) world(ctx context.Context) (edits.World, error) {
	in, err := s.inputs(ctx)
	if err != nil {
		return edits.World{}, err
	}
	return in.world(s.config.Options, "")
}

// bufferReport returns what buffers would have cost and saved.
func (s *Server) bufferReport(ctx context.Context, _ *http.Request) (any, error) {
	return s.buffers.get(fresh, rests, func() (view.BufferReport, error) { return s.config.Buffers(ctx) })
}

// notes returns what the planner assumed, each once.
func notes(o *simulate.Outcome) []string {
	out, seen := []string{}, map[string]bool{}
	for _, n := range o.Notes {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

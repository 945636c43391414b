package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// ErrNoAnswer means that the scheduler did not answer a question, which counts as a negative answer.
var ErrNoAnswer = errors.New("the scheduler did not answer")

// decideWithin is what api.AnswerWithin is for other questions, for a decision about all nodes of a cluster, and for capacity buffers, which have the lowest priority.
const decideWithin = time.Minute

// asks sends questions to the scheduler that has the stream open.
type asks struct {
	mu sync.Mutex
	// questions are those of the open stream; nil while there is none.
	questions chan *api.Question
	// streams counts the streams that were opened.
	streams uint64
	pending map[string]chan *api.Answer
}

func newAsks() *asks { return &asks{pending: map[string]chan *api.Answer{}} }

// Ask implements api.LauncherServer. Of several streams the one opened last gets the questions.
func (s *Server) Ask(stream api.Launcher_AskServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if err := s.config.Peer.check(stream.Context(), first.GetVersion()); err != nil {
		return err
	}
	if err := stream.Send(&api.Question{Version: api.OwnVersion()}); err != nil {
		return err
	}
	questions := s.asks.open()
	defer s.asks.close(questions)
	received := make(chan error, 1)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			s.asks.answer(answer)
		}
	}()
	for {
		select {
		case q := <-questions:
			if err := stream.Send(q); err != nil {
				return err
			}
		case err := <-received:
			if errors.Is(err, io.EOF) {
				return nil // The scheduler has closed its side.
			}
			return err
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (a *asks) open() chan *api.Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.questions = make(chan *api.Question, 64)
	a.streams++
	return a.questions
}

func (a *asks) close(questions chan *api.Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.questions == questions {
		a.questions = nil
	}
}

func (a *asks) answer(answer *api.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if waiting, ok := a.pending[answer.GetId()]; ok {
		delete(a.pending, answer.GetId())
		waiting <- answer
	}
}

// ask sends one question and waits for its answer.
func (a *asks) ask(ctx context.Context, q *api.Question) (*api.Answer, error) {
	within := api.AnswerWithin
	if q.GetConsolidate() != nil || q.GetPlaceBuffers() != nil {
		within = decideWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	q.Id = uuid.NewString()
	answer := make(chan *api.Answer, 1)
	a.mu.Lock()
	questions := a.questions
	a.pending[q.GetId()] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.pending, q.GetId())
	}()
	if questions == nil {
		return nil, ErrNoAnswer
	}
	select {
	case questions <- q:
	case <-ctx.Done():
		return nil, ErrNoAnswer
	}
	select {
	case got := <-answer:
		return got, nil
	case <-ctx.Done():
		return nil, ErrNoAnswer
	}
}

// MakeRoom requests room for pods of terminating nodes; nodes that will terminate soon are added to those that the question avoids. An error
// means that there was no answer.
func (s *Server) MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	q = proto.CloneOf(q)
	q.Avoid = append(q.Avoid, s.config.Leaving(ctx)...)
	answer, err := s.asks.ask(ctx, &api.Question{Kind: &api.Question_MakeRoom{MakeRoom: q}})
	if err != nil {
		return nil, err
	}
	if got := answer.GetMakeRoom(); got != nil {
		return got, nil
	}
	return nil, ErrNoAnswer
}

// Busy asks whether the scheduler has anything on a cordoned node. An error means that there was no answer.
func (s *Server) Busy(ctx context.Context, q *api.NodeBusy) (busy bool, reason string, err error) {
	answer, err := s.asks.ask(ctx, &api.Question{Kind: &api.Question_NodeBusy{NodeBusy: q}})
	if err != nil {
		return false, "", err
	}
	got := answer.GetNodeBusy()
	if got == nil {
		return false, "", ErrNoAnswer
	}
	return got.GetBusy(), got.GetReason(), nil
}

// Consolidate asks which nodes are worth removing; nodes that will terminate soon are added to those that the question avoids. An error
// means that there was no answer.
func (s *Server) Consolidate(ctx context.Context, q *api.Consolidate) (*api.ConsolidateAnswer, error) {
	q = proto.CloneOf(q)
	q.Avoid = append(q.Avoid, s.config.Leaving(ctx)...)
	answer, err := s.asks.ask(ctx, &api.Question{Kind: &api.Question_Consolidate{Consolidate: q}})
	if err != nil {
		return nil, err
	}
	if got := answer.GetConsolidate(); got != nil {
		return got, nil
	}
	return nil, ErrNoAnswer
}

// BufferAsker asks the scheduler about capacity buffers.
type BufferAsker struct{ asks *asks }

// NewBufferAsker returns a BufferAsker that asks over the server's stream.
func NewBufferAsker(s *Server) BufferAsker { return BufferAsker{asks: s.asks} }

// PlaceBuffers asks for room for the pods of the capacity buffers of a namespace. An error means that there was no answer.
func (b BufferAsker) PlaceBuffers(ctx context.Context, q *api.PlaceBuffers) (*api.PlaceBuffersAnswer, error) {
	answer, err := b.asks.ask(ctx, &api.Question{Kind: &api.Question_PlaceBuffers{PlaceBuffers: q}})
	if err != nil {
		return nil, err
	}
	if got := answer.GetPlaceBuffers(); got != nil {
		return got, nil
	}
	return nil, ErrNoAnswer
}

// Stream numbers the stream that questions go to: another one may be that of a scheduler that has just started.
func (b BufferAsker) Stream() uint64 {
	b.asks.mu.Lock()
	defer b.asks.mu.Unlock()
	return b.asks.streams
}

package plugin

import (
	"context"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// answerers is how many of the launcher's questions about nodes are answered at a time: each may wait some seconds.
const answerers = 8

// answerer answers what the launcher asks about nodes. It is safe for concurrent use.
type answerer struct {
	inbox *inbox
	busy  *busyView
	link  *link.Link
}

// run answers one question after the other until the context ends.
func (a *answerer) run(ctx context.Context) {
	for {
		q, more := a.inbox.takeQuestion()
		if more {
			// Another answerer may start with it.
			select {
			case a.inbox.questions <- struct{}{}:
			default:
			}
		}
		if q == nil {
			select {
			case <-ctx.Done():
				return
			case <-a.inbox.questions:
			}
			continue
		}
		answer := &api.Answer{Id: q.GetId()}
		if b := q.GetNodeBusy(); b != nil {
			answer.Kind = &api.Answer_NodeBusy{NodeBusy: a.busy.safe(ctx, b)}
		}
		// A question that only a newer launcher asks has no answer, which the launcher need not wait for.
		reply(ctx, a.link, answer)
	}
}

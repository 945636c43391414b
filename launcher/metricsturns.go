package launcher

import (
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// metricsPath is where controller-runtime serves metrics.
	metricsPath = "/metrics"
	// metricsWithin is how long the answer to one request may take. Prometheus waits ten seconds by default.
	metricsWithin = time.Minute
)

// inTurns returns a FilterProvider that has one request for metrics answered at a time. Requests pass the filter of another provider first; nil for none.
// A cluster of 5,000 nodes has 200,000 time series of nodes and pods. Requests whose clients gave up would be answered beside each other otherwise, each
// with hundreds of megabytes. A request whose client gives up before its turn costs nothing.
func inTurns(before func(*rest.Config, *http.Client) (server.Filter, error)) func(*rest.Config, *http.Client) (server.Filter, error) {
	return func(config *rest.Config, httpClient *http.Client) (server.Filter, error) {
		filter := server.Filter(func(_ logr.Logger, next http.Handler) (http.Handler, error) { return next, nil })
		if before != nil {
			var err error
			if filter, err = before(config, httpClient); err != nil {
				return nil, err
			}
		}
		turn := make(chan struct{}, 1)
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			return filter(log, oneByOne(turn, next))
		}, nil
	}
}

// oneByOne serves requests for metrics while it holds the turn, and all others at once.
func oneByOne(turn chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == metricsPath {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
				// A client that reads nothing does not keep the turn. A test's writer has no deadline.
				_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(metricsWithin))
			case <-r.Context().Done():
				http.Error(w, "the client gave up before its turn", http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Package evict makes refused evictions return at once.
//
// The API server adds Retry-After to its answer while a PodDisruptionBudget's status is older than its spec, which never ends for budgets with
// maxUnavailable or a percentage whose pods' controller has no scale subresource. client-go then waits and repeats such a request ten times by itself,
// for up to 100 s in which one pod holds up all others of its node.
package evict

import (
	"net/http"
	"strings"
)

// Transport wraps the transport of a Kubernetes client: give it to rest.Config.Wrap. It removes Retry-After from the answers to evictions, and nothing
// else: callers recognize a refusal as before, and repeat it when they choose.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/pods/") && strings.HasSuffix(r.URL.Path, "/eviction") {
		resp.Header.Del("Retry-After")
	}
	return resp, err
}

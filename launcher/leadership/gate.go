package leadership

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// ErrClosed is wrapped by the error of a request that a Gate did not send.
var ErrClosed = errors.New("not leading")

// Gate is the last check of an outgoing request. It sends a changing request only while a Leadership allows it at that moment, by the clock
// and not by a timer: a process that was stopped for a minute and resumes within a request sends nothing more. Reading requests always pass.
// The zero value blocks every changing request.
type Gate struct{ leader atomic.Pointer[Leadership] }

// Follow opens the gate while l leads.
func (g *Gate) Follow(l *Leadership) { g.leader.Store(l) }

// Open reports whether effects pass now.
func (g *Gate) Open() bool {
	l := g.leader.Load()
	return l != nil && l.Leading()
}

// Kubernetes returns a transport to an API server that passes through the gate. Events always pass: they report what was done, and change
// nothing.
func (g *Gate) Kubernetes(next http.RoundTripper) http.RoundTripper {
	return &gatedTransport{gate: g, next: next}
}

type gatedTransport struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *gatedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if changesKubernetes(r) && !t.gate.Open() {
		return nil, refused(r)
	}
	return t.next.RoundTrip(r)
}

func changesKubernetes(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	group, resource := resourceOf(r.URL.Path)
	return resource != "events" && group != "authentication.k8s.io" && group != "authorization.k8s.io"
}

// resourceOf returns the API group and the resource of a path: /api/VERSION/... or /apis/GROUP/VERSION/..., perhaps after a prefix, and
// then the namespace if there is one. Both are empty for other paths, the group for that of the core.
func resourceOf(path string) (group, resource string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	root := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })
	if root < 0 {
		return "", ""
	}
	grouped := parts[root] == "apis"
	parts = parts[root+1:]
	if grouped && len(parts) > 0 {
		group, parts = parts[0], parts[1:]
	}
	if len(parts) > 3 && parts[1] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) < 2 {
		return group, ""
	}
	return group, parts[1]
}

// Doer sends HTTP requests, as the AWS SDK expects.
type Doer interface {
	// Do sends one request.
	Do(r *http.Request) (*http.Response, error)
}

// AWS returns an HTTP client for AWS that passes through the gate.
func (g *Gate) AWS(next Doer) Doer { return &gatedDoer{gate: g, next: next} }

type gatedDoer struct {
	gate *Gate
	next Doer
}

// Do implements Doer.
func (d *gatedDoer) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || d.gate.Open() {
		return d.next.Do(r)
	}
	action, same, err := actionOf(r)
	if err != nil {
		return nil, err
	}
	if changesAWS(action) {
		return nil, refused(r)
	}
	return d.next.Do(same)
}

// changesAWS reports whether an action changes something: in AWS's APIs, names with these prefixes only read.
func changesAWS(action string) bool {
	return !slices.ContainsFunc([]string{"Describe", "Get", "List", "Receive", "Assume"}, func(prefix string) bool {
		return strings.HasPrefix(action, prefix)
	})
}

// actionOf returns the action from the header, the path (as AWS Savings Plans has it) or the body, and the same request with its body unread.
func actionOf(r *http.Request) (action string, same *http.Request, err error) {
	if _, action, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok || r.Body == nil {
		return action, r, nil
	}
	if name := strings.TrimPrefix(r.URL.Path, "/"); strings.HasPrefix(name, "Describe") {
		return name, r, nil
	}
	data, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return "", nil, err
	}
	same = r.Clone(r.Context())
	same.Body = io.NopCloser(bytes.NewReader(data))
	// A body that is not a form has no action; the parsed part is used.
	form, _ := url.ParseQuery(string(data))
	return form.Get("Action"), same, nil
}

func refused(r *http.Request) error {
	if r.Body != nil {
		_ = r.Body.Close() // The interface requires it; the error is irrelevant.
	}
	return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrClosed)
}

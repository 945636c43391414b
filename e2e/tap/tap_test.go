package tap_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/slipway-k8s/slipway/e2e/tap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a server behind a tap.
type line struct {
	*tap.Tap
	journal *tap.Journal
	// done counts the effects that reached the server.
	done atomic.Int32
	// watching is told of each read that hangs.
	watching chan struct{}
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{journal: tap.NewJournal(), watching: make(chan struct{}, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			l.watching <- struct{}{}
			<-r.Context().Done()
			return
		}
		if r.Method != http.MethodGet {
			l.done.Add(1)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	}))
	transport := &http.Transport{}
	var err error
	l.Tap, err = tap.New(tap.Config{Process: "launcher", Server: server.URL, Transport: transport, Read: tap.Kubernetes, Journal: l.journal})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return l
}

func (l *line) send(t *testing.T, method, path, body string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, l.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

const nodes = "/api/v1/nodes"

// Effects are recorded in order with their answers; reads are not.
func TestPassesOnAndRecords(t *testing.T) {
	l := newLine(t)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if answer, err := l.send(t, method, nodes, "hello"); err != nil || answer != "hello" {
			t.Errorf("%s: %q, %v", method, answer, err)
		}
	}
	effects := l.journal.Since(0)
	if len(effects) != 1 || effects[0].Name != "create nodes" || !effects[0].Done() || effects[0].Process != "launcher" {
		t.Errorf("effects: %+v", effects)
	}
	if rest := l.journal.Since(l.journal.Last()); len(rest) != 0 {
		t.Errorf("after the last one: %+v", rest)
	}
}

// A request that is lost was not done; one whose answer is lost was.
func TestLosesRequestsAndAnswers(t *testing.T) {
	l := newLine(t)
	for i, moment := range []tap.Moment{tap.Before, tap.After} {
		l.journal.SetHook(func(_ tap.Effect, m tap.Moment) bool { return m == moment })
		// net/http sends a DELETE again by itself, a POST it does not.
		if _, err := l.send(t, http.MethodPost, nodes, ""); err == nil {
			t.Errorf("lost %s: no error", moment)
		}
		if done := int(l.done.Load()); done != i {
			t.Errorf("lost %s: %d effects reached the server", moment, done)
		}
	}
	effects := l.journal.Since(0)
	if len(effects) != 2 || effects[0].Done() || !effects[1].Done() {
		t.Errorf("effects: %+v", effects)
	}
}

// A line that is cut ends what hangs on it and takes nothing more, until it is mended.
func TestCut(t *testing.T) {
	l := newLine(t)
	ended := make(chan error)
	go func() {
		_, err := l.send(t, http.MethodGet, nodes+"?watch=true", "")
		ended <- err
	}()
	<-l.watching
	l.Cut()
	if err := <-ended; err == nil {
		t.Error("the watch ended without an error")
	}
	if _, err := l.send(t, http.MethodPost, nodes, ""); err == nil || l.done.Load() != 0 {
		t.Errorf("cut: %v, %d effects done", err, l.done.Load())
	}
	l.Restore()
	if _, err := l.send(t, http.MethodPost, nodes, ""); err != nil || l.done.Load() != 1 {
		t.Errorf("mended: %v, %d effects done", err, l.done.Load())
	}
}

func TestReadKubernetes(t *testing.T) {
	for _, c := range []struct{ method, path, body, name, object, holder string }{
		{method: "GET", path: nodes},
		{method: "POST", path: "/apis/authorization.k8s.io/v1/subjectaccessreviews"},
		{method: "POST", path: nodes, body: `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}`, name: "create nodes", object: "a"},
		{method: "PATCH", path: "/apis/karpenter.sh/v1/nodeclaims/a/status", name: "patch nodeclaims/status", object: "a"},
		{method: "POST", path: "/api/v1/namespaces/a/pods/b/eviction", name: "create pods/eviction", object: "a/b"},
		{method: "DELETE", path: "/api/v1/namespaces/a", name: "delete namespaces", object: "a"},
		{
			method: "PUT", path: "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", name: "update leases", object: "a/b", holder: "me",
			body: `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"holderIdentity":"me"}}`,
		},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		e, ok := tap.Kubernetes(r, []byte(c.body))
		if ok != (c.name != "") || e.Name != c.name || e.Object != c.object || e.Holder != c.holder {
			t.Errorf("%s %s: %+v, %t", c.method, c.path, e, ok)
		}
	}
}

func TestReadAWS(t *testing.T) {
	for _, c := range []struct{ target, body, name string }{
		{body: "Action=CreateFleet&Version=2016-11-15", name: "EC2 CreateFleet"},
		{body: "Action=DescribeInstances"},
		{target: "AmazonSQS.DeleteMessageBatch", body: "{}", name: "SQS DeleteMessageBatch"},
		{target: "AmazonSQS.ReceiveMessage", body: "{}"},
		{body: "%"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host")
		if c.target != "" {
			r.Header.Set("X-Amz-Target", c.target)
		}
		if e, ok := tap.AWS(r, []byte(c.body)); ok != (c.name != "") || e.Name != c.name {
			t.Errorf("%s %s: %+v, %t", c.target, c.body, e, ok)
		}
	}
}

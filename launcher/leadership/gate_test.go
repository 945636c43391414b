package leadership_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// sent is a transport and a Doer that notes what reaches it.
type sent struct{ bodies []string }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(data)
	}
	s.bodies = append(s.bodies, body)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (s *sent) Do(r *http.Request) (*http.Response, error) { return s.RoundTrip(r) }

// What a request would change decides whether it passes a gate that is closed; all pass one that is open.
func TestGate(t *testing.T) {
	for _, c := range []gateCase{
		{name: "a read", method: "GET", path: "/api/v1/nodes", question: true},
		{name: "a Node", method: "POST", path: "/api/v1/nodes"},
		{name: "a NodeClaim's status", method: "PATCH", path: "/apis/karpenter.sh/v1/nodeclaims/a/status"},
		{name: "an eviction", method: "POST", path: "/api/v1/namespaces/a/pods/b/eviction"},
		{name: "a deletion", method: "DELETE", path: "/api/v1/nodes/a"},
		{name: "an Event", method: "POST", path: "/api/v1/namespaces/a/events", question: true},
		{name: "an Event is patched", method: "PATCH", path: "/apis/events.k8s.io/v1/namespaces/a/events/b", question: true},
		{name: "an Event behind a proxy", method: "POST", path: "/k8s/clusters/c/api/v1/namespaces/a/events", question: true},
		{name: "an eviction in a namespace named events", method: "POST", path: "/api/v1/namespaces/events/pods/b/eviction"},
		{name: "a pod named events", method: "DELETE", path: "/api/v1/namespaces/a/pods/events"},
		{name: "a Node named events", method: "PATCH", path: "/api/v1/nodes/events"},
		{name: "a namespace named events", method: "PATCH", path: "/api/v1/namespaces/events"},
		{name: "a NodeClaim with the name of a group", method: "DELETE", path: "/apis/karpenter.sh/v1/nodeclaims/authentication.k8s.io"},
		{name: "no API path", method: "POST", path: "/events"},
		{name: "whose token is this", method: "POST", path: "/apis/authentication.k8s.io/v1/tokenreviews", question: true},
		{name: "CreateFleet", aws: true, method: "POST", path: "/", body: "Action=CreateFleet&Version=2016-11-15"},
		{name: "DescribeInstances", aws: true, method: "POST", path: "/", body: "Action=DescribeInstances&Version=2016-11-15", question: true},
		{name: "a message is deleted", aws: true, method: "POST", path: "/", target: "AmazonSQS.DeleteMessageBatch", body: "{}"},
		{name: "Savings Plans are read", aws: true, method: "POST", path: "/DescribeSavingsPlans", body: "{}", question: true},
		{name: "a Savings Plan is bought", aws: true, method: "POST", path: "/CreateSavingsPlan", body: "{}"},
		{name: "messages are received", aws: true, method: "POST", path: "/", target: "AmazonSQS.ReceiveMessage", body: "{}", question: true},
		{name: "the EKS cluster", aws: true, method: "GET", path: "/clusters/a", question: true},
		{name: "something unheard of", aws: true, method: "POST", path: "/", body: "%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t) })
		})
	}
}

// gateCase is a request, and whether it only asks.
type gateCase struct {
	name, method, path, target, body string
	aws, question                    bool
}

func (c gateCase) run(t *testing.T) {
	t.Helper()
	s, gate, end := newScene(t), &leadership.Gate{}, &sent{}
	send := gate.Kubernetes(end).RoundTrip
	if c.aws {
		send = gate.AWS(end).Do
	}
	try := func() error {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://server"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.target != "" {
			r.Header.Set("X-Amz-Target", c.target)
		}
		response, err := send(r)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate.Follow(s.subject)
	if err := try(); c.question != (err == nil) || (err != nil && !errors.Is(err, leadership.ErrClosed)) {
		t.Errorf("closed: %v", err)
	}
	go func() { _ = s.subject.Run(ctx) }()
	if err := s.subject.Lead("me", namespace, name); err != nil {
		t.Fatal(err)
	}
	s.renew("me", 0)
	time.Sleep(time.Second)
	if err := try(); err != nil {
		t.Errorf("open: %v", err)
	}
	for _, got := range end.bodies {
		if got != c.body {
			t.Errorf("body %q arrived, %q was sent", got, c.body)
		}
	}
	cancel()
	synctest.Wait()
	if err := try(); c.question != (err == nil) {
		t.Errorf("closed again: %v", err)
	}
}

package readable

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// Transport wraps the transport of a Kubernetes client: give it to rest.Config.Wrap.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	k, ours := kindOf(r.URL.Path)
	if err != nil || !ours || resp.StatusCode >= 300 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return resp, err
	}
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		resp.Body = &events{kind: k, upstream: resp.Body, decoder: json.NewDecoder(resp.Body)}
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	if closing := resp.Body.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	body = k.answer(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return resp, nil
}

// kindOf returns the kind by the path in the API server.
func kindOf(path string) (kind, bool) {
	switch {
	case strings.Contains(path, "/apis/karpenter.sh/v1/nodepools"):
		return kindWith[karpv1.NodePoolSpec](), true
	case strings.Contains(path, "/apis/karpenter.sh/v1/nodeclaims"):
		return kindWith[karpv1.NodeClaimSpec](), true
	case strings.Contains(path, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"):
		return kindWith[awsv1.EC2NodeClassSpec](), true
	case strings.Contains(path, "/apis/autoscaling.x-k8s.io/v1beta1/") && strings.Contains(path, "/capacitybuffers"):
		return kindWith[autoscalingv1beta1.CapacityBufferSpec](), true
	case strings.Contains(path, "/apis/karpenter.sh/v1alpha1/nodeoverlays"):
		return kindWith[v1alpha1.NodeOverlaySpec](), true
	}
	return kind{}, false
}

// events is the body of a watch: a sequence of JSON objects.
type events struct {
	kind
	upstream io.ReadCloser
	decoder  *json.Decoder
	pending  []byte
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	if len(e.pending) == 0 {
		var raw json.RawMessage
		if err := e.decoder.Decode(&raw); err != nil {
			return 0, err
		}
		e.pending = append(e.event(raw), '\n')
	}
	n := copy(p, e.pending)
	e.pending = e.pending[n:]
	return n, nil
}

// event returns an event with a readable object.
func (e *events) event(raw []byte) []byte {
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(raw, &event) != nil || !slices.Contains([]string{"ADDED", "MODIFIED", "DELETED"}, event.Type) {
		return raw
	}
	repaired := e.repair(event.Object)
	if bytes.Equal(repaired, event.Object) {
		return raw
	}
	event.Object = repaired
	return marshal(event, raw)
}

// Close implements io.Closer.
func (e *events) Close() error { return e.upstream.Close() }

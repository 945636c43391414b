package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// version is the resource version of all objects.
const version = "1"

// Resource holds the objects of one kind.
type Resource struct {
	// Kind of the objects.
	Kind schema.GroupVersionKind
	// Objects in JSON, each with its apiVersion, kind and resourceVersion.
	Objects []json.RawMessage
}

// NewResource encodes the objects. Their type and resource version are set.
func NewResource[T interface {
	runtime.Object
	SetResourceVersion(string)
}](kind schema.GroupVersionKind, objects []T,
) (Resource, error) {
	out := Resource{Kind: kind}
	for _, o := range objects {
		o.GetObjectKind().SetGroupVersionKind(kind)
		o.SetResourceVersion(version)
		text, err := json.Marshal(o)
		if err != nil {
			return out, fmt.Errorf("%s: %w", kind.Kind, err)
		}
		out.Objects = append(out.Objects, text)
	}
	return out, nil
}

// NewClient returns a client that finds the resources by their plural names, such as persistentvolumeclaims. All others exist and
// have no objects.
func NewClient(resources map[string]Resource) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: "http://simulation.invalid", Transport: transport(resources), QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	})
}

// transport answers requests.
type transport map[string]Resource

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"MethodNotAllowed","code":405}`
		return answer(r, http.StatusMethodNotAllowed, io.NopCloser(strings.NewReader(refusal))), nil
	}
	name := path.Base(r.URL.Path)
	found, ok := t[name]
	if !ok {
		groupVersion := strings.TrimPrefix(strings.TrimPrefix(path.Dir(r.URL.Path), "/apis/"), "/api/")
		found.Kind = schema.FromAPIVersionAndKind(groupVersion, kindOf(name))
	}
	query := r.URL.Query()
	switch {
	case query.Get("watch") == "":
		return answer(r, http.StatusOK, io.NopCloser(bytes.NewReader(found.list()))), nil
	case query.Get("sendInitialEvents") == "true":
		return answer(r, http.StatusOK, newWatch(r.Context(), found.events())), nil
	}
	return answer(r, http.StatusOK, newWatch(r.Context(), nil)), nil
}

func (res Resource) list() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":%q},"items":[`, res.Kind.Kind, res.Kind.GroupVersion().String(), version)
	out.Write(bytes.Join(raw(res.Objects), []byte(",")))
	out.WriteString("]}")
	return out.Bytes()
}

func raw(in []json.RawMessage) [][]byte {
	out := make([][]byte, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

// events returns the objects as events of a watch with initial events, up to the bookmark that ends them.
func (res Resource) events() []byte {
	var out bytes.Buffer
	for _, o := range res.Objects {
		fmt.Fprintf(&out, `{"type":"ADDED","object":%s}`+"\n", o)
	}
	fmt.Fprintf(&out, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":%q,"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n",
		res.Kind.Kind, res.Kind.GroupVersion().String(), version)
	return out.Bytes()
}

// kindOf returns the kind of a resource that is requested and has no objects.
func kindOf(resource string) string {
	for _, kind := range []string{
		"Pod", "Node", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim", "ReplicationController", "ReplicaSet",
		"StatefulSet", "DaemonSet", "PodDisruptionBudget", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "ResourceClaim",
	} {
		if strings.EqualFold(kind+"s", resource) || strings.EqualFold(strings.TrimSuffix(kind, "y")+"ies", resource) {
			return kind
		}
	}
	return "StorageClass"
}

func answer(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, ContentLength: -1, Body: body,
	}
}

// watch is a body that returns the events it has and then blocks until it is closed or its request ends.
type watch struct {
	said *bytes.Reader
	over <-chan struct{}

	closing sync.Once
	closed  chan struct{}
}

func newWatch(ctx context.Context, text []byte) *watch {
	return &watch{said: bytes.NewReader(text), over: ctx.Done(), closed: make(chan struct{})}
}

// Read implements io.Reader.
func (w *watch) Read(p []byte) (int, error) {
	if w.said.Len() > 0 {
		return w.said.Read(p)
	}
	select {
	case <-w.over:
	case <-w.closed:
	}
	return 0, io.EOF
}

// Close implements io.Closer.
func (w *watch) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return nil
}

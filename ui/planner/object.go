package planner

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// Object is the answer of /local/v1/object.
type Object struct {
	// YAML is the object as a user would write it: without its status and what the API server adds. A pod is not bound.
	YAML string `json:"yaml"`
}

// object returns one of the objects that the planner reads, by the parameters kind, namespace and name.
func (s *Server) object(ctx context.Context, r *http.Request) (any, error) {
	objects, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	kind, namespace, name := q.Get("kind"), q.Get("namespace"), q.Get("name")
	for _, o := range objects {
		named, ok := o.(metav1.Object)
		if !ok || named.GetName() != name || named.GetNamespace() != namespace {
			continue
		}
		gvk, err := apiutil.GVKForObject(o, scheme.Scheme)
		if err != nil || gvk.Kind != kind {
			continue
		}
		text, err := written(o, gvk)
		return Object{YAML: text}, err
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// written returns an object as a user would write it.
func written(o runtime.Object, gvk schema.GroupVersionKind) (string, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		free := *pod
		free.Spec.NodeName = ""
		o = &free
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return "", err
	}
	delete(fields, "status")
	fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if meta, ok := fields["metadata"].(map[string]any); ok {
		for _, name := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
			delete(meta, name)
		}
	}
	text, err := yaml.Marshal(fields)
	return string(text), err
}

package tap

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
)

// verbOf returns the verb of a method that changes something.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return ""
	}
}

// Kubernetes reads a request to an API server. Reviews, which are sent with POST, are no effects.
func Kubernetes(r *http.Request, body []byte) (Effect, bool) {
	verb := verbOf(r.Method)
	if verb == "" {
		return Effect{}, false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		if parts[1] == "authentication.k8s.io" || parts[1] == "authorization.k8s.io" {
			return Effect{}, false
		}
		parts = parts[3:]
	default:
		return Effect{}, false
	}
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		namespace, parts = parts[1]+"/", parts[2:]
	}
	e := Effect{Name: verb + " " + parts[0]}
	if len(parts) > 2 {
		e.Name += "/" + parts[2]
	}
	if len(parts) > 1 {
		e.Object = namespace + parts[1]
	}
	readBody(&e, namespace, body)
	return e, true
}

// readBody reads from the body what the path does not contain.
func readBody(e *Effect, namespace string, body []byte) {
	if e.Object != "" && !strings.HasSuffix(e.Name, " leases") {
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return // The body is a patch, or of a kind that is not registered here.
	}
	if lease, ok := object.(*coordinationv1.Lease); ok && lease.Spec.HolderIdentity != nil {
		e.Holder = *lease.Spec.HolderIdentity
	}
	if accessor, err := meta.Accessor(object); err == nil && e.Object == "" {
		e.Object = namespace + accessor.GetName()
	}
}

// AWS reads a request of an AWS SDK. Describe, Get, List and Receive calls change nothing.
func AWS(r *http.Request, body []byte) (Effect, bool) {
	action := r.Header.Get("X-Amz-Target")
	service, name, ok := strings.Cut(action, ".")
	if ok {
		service = strings.TrimPrefix(service, "Amazon")
	} else {
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("Action") == "" {
			return Effect{}, false
		}
		service, name = serviceOf(r), form.Get("Action")
	}
	reads := []string{"Describe", "Get", "List", "Receive", "Assume"}
	if slices.ContainsFunc(reads, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return Effect{}, false
	}
	return Effect{Name: service + " " + name}, true
}

// serviceOf returns the service for which a request is signed.
func serviceOf(r *http.Request) string {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if parts := strings.Split(scope, "/"); len(parts) > 3 {
		return strings.ToUpper(parts[3])
	}
	return "AWS"
}

package plugin

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/admission"
)

// bufferTemplates are the pod templates of buffers as the API server's admission completes them. The planner's goroutine alone uses it.
type bufferTemplates struct {
	rules *admissionRules
	// known are those of the last question about each namespace, by the buffer's UID.
	known map[string]map[string]bufferTemplate
}

// bufferTemplate is the completed template of one buffer.
type bufferTemplate struct {
	// from is the template as the launcher sent it, version that of the rules.
	from    []byte
	version int64
	out     corev1.PodTemplateSpec
	// why says why no pod can be made from it; empty where one can.
	why string
}

// of returns the templates of the buffers that the question is about. What has not changed since the last one is not completed again.
func (t *bufferTemplates) of(asked *api.PlaceBuffers) (map[string]bufferTemplate, error) {
	maps.DeleteFunc(t.known, func(namespace string, _ map[string]bufferTemplate) bool {
		return namespace != asked.GetNamespace() && !slices.Contains(asked.GetNamespaces(), namespace)
	})
	have, version := t.known[asked.GetNamespace()], t.rules.version()
	out := make(map[string]bufferTemplate, len(asked.GetBuffers()))
	var rules *admission.Rules
	for _, b := range asked.GetBuffers() {
		is, ok := have[b.GetUid()]
		if !ok || is.version != version || !bytes.Equal(is.from, b.GetTemplate()) {
			if rules == nil {
				var err error
				if rules, err = t.rules.read(); err != nil {
					return nil, err
				}
			}
			is = completeTemplate(rules, asked.GetNamespace(), b.GetTemplate())
			is.version = version
		}
		out[b.GetUid()] = is
	}
	t.known[asked.GetNamespace()] = out
	return out, nil
}

// completeTemplate reads a template, and adds to its spec what admission adds to the pods of the namespace.
func completeTemplate(rules *admission.Rules, namespace string, from []byte) bufferTemplate {
	is := bufferTemplate{from: from}
	if err := is.out.Unmarshal(from); err != nil {
		is.why = fmt.Sprintf("reading the template: %v", err)
		return is
	}
	spec, err := rules.Pod(namespace, &is.out.Spec)
	if err != nil {
		is.why = fmt.Sprintf("the API server refuses pods of the template: %v", err)
		return is
	}
	is.out.Spec = spec
	return is
}

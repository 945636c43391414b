package record

import (
	"encoding/json"
	"fmt"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Bindings are promised pods that one rule binds at one moment: an entry of catalog.BindingsAnnotation.
type Bindings struct {
	// At is the moment: launch, ready or scheduler.
	At string `json:"at"`
	// Rule is the code of the rule that decided.
	Rule string `json:"rule"`
	// Why is its reason, for people.
	Why string `json:"why"`
	// Pods are the names of the pods, with their namespaces.
	Pods []string `json:"pods"`
}

// FormatBindings returns the value of catalog.BindingsAnnotation.
func FormatBindings(list []Bindings) string {
	text, err := json.Marshal(list)
	if err != nil {
		return "[]" // Strings always marshal.
	}
	return string(text)
}

// BindingOf returns when a promised pod is bound, and why; ok is false if the NodeClaim does not have it. It returns an error if the
// annotation is not such a list.
func BindingOf(claim *karpv1.NodeClaim, namespace, name string) (b Bindings, ok bool, err error) {
	text := claim.Annotations[catalog.BindingsAnnotation]
	if text == "" {
		return Bindings{}, false, nil
	}
	var list []Bindings
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return Bindings{}, false, fmt.Errorf("NodeClaim %s: annotation %s: %w", claim.Name, catalog.BindingsAnnotation, err)
	}
	i := slices.IndexFunc(list, func(b Bindings) bool { return slices.Contains(b.Pods, namespace+"/"+name) })
	if i < 0 {
		return Bindings{}, false, nil
	}
	return list[i], true, nil
}

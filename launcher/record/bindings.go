package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/clip"
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
	// UIDs are those of the pods.
	UIDs []string `json:"uids"`
}

const (
	// reasonsPerRule is how many reasons of one rule are recorded. A reason may have the name of a pod's volume in it, so that there may be
	// as many as there are pods: those of all further pods are recorded as the last one.
	reasonsPerRule = 4
	// reasonBytes is the length of a recorded reason.
	reasonBytes = 512
)

// AddBinding adds a pod to the entry of the moment, the rule and its reason.
func AddBinding(list []Bindings, b Bindings, uid string) []Bindings {
	b.Why = clip.Within(b.Why, reasonBytes)
	last, reasons := -1, 0
	for i, have := range list {
		if have.At != b.At || have.Rule != b.Rule {
			continue
		}
		last = i
		if reasons++; have.Why == b.Why {
			break
		}
	}
	if last < 0 || list[last].Why != b.Why && reasons < reasonsPerRule {
		return append(list, Bindings{At: b.At, Rule: b.Rule, Why: b.Why, UIDs: []string{uid}})
	}
	list[last].UIDs = append(list[last].UIDs, uid)
	return list
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
func BindingOf(claim *karpv1.NodeClaim, uid types.UID) (b Bindings, ok bool, err error) {
	text := claim.Annotations[catalog.BindingsAnnotation]
	if text == "" {
		return Bindings{}, false, nil
	}
	var list []Bindings
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return Bindings{}, false, fmt.Errorf("NodeClaim %s: annotation %s: %w", claim.Name, catalog.BindingsAnnotation, err)
	}
	i := slices.IndexFunc(list, func(b Bindings) bool { return slices.Contains(b.UIDs, string(uid)) })
	if i < 0 {
		return Bindings{}, false, nil
	}
	return list[i], true, nil
}

package readable

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// kind creates empty objects of one kind, of which only the spec is decoded: the API server checks metadata, and the launcher writes status.
type kind struct{ object, list func() any }

// kindWith returns the kind whose objects have such a spec.
func kindWith[Spec any]() kind {
	type object struct {
		Spec Spec `json:"spec"`
	}
	return kind{object: func() any { return &object{} }, list: func() any {
		return &struct {
			Items []object `json:"items"`
		}{}
	}}
}

// answer returns a whole answer, an object or a list, without unreadable fields. A readable answer is returned unchanged.
func (k kind) answer(body []byte) []byte {
	var head struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(body, &head) != nil {
		return body
	}
	if !strings.HasSuffix(head.Kind, "List") {
		return k.repair(body)
	}
	if utiljson.Unmarshal(body, k.list()) == nil {
		return body
	}
	var list map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(body, &list) != nil || json.Unmarshal(list["items"], &items) != nil {
		return body
	}
	for i := range items {
		items[i] = k.repair(items[i])
	}
	list["items"] = marshal(items, list["items"])
	return marshal(list, body)
}

// repair removes the unreadable fields from one object's spec.
func (k kind) repair(raw []byte) []byte {
	if utiljson.Unmarshal(raw, k.object()) == nil {
		return raw
	}
	var object map[string]any
	if utiljson.Unmarshal(raw, &object) != nil {
		return raw
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return raw
	}
	var problems []string
	try := func(spec any) error {
		return utiljson.Unmarshal(marshal(map[string]any{"spec": spec}, nil), k.object())
	}
	spec, _ := prune("spec", object["spec"], try, &problems)
	if s, ok := spec.(map[string]any); ok {
		delete(s, "disruption") // A part of it may allow what the whole forbids: without the section no node is disrupted.
	}
	object["spec"] = spec
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[catalog.UnreadableAnnotation] = strings.Join(problems, "; ")
	return marshal(object, raw)
}

// prune returns the readable part of a value, and false if there is none. try decodes the value in its place.
func prune(path string, value any, try func(any) error, problems *[]string) (any, bool) {
	err := try(value)
	if err == nil {
		return value, true
	}
	if list, ok := value.([]any); ok {
		out := []any{}
		for i, v := range list {
			if kept, ok := prune(fmt.Sprintf("%s[%d]", path, i), v, func(v any) error { return try([]any{v}) }, problems); ok {
				out = append(out, kept)
			}
		}
		return out, true
	}
	if fields, ok := value.(map[string]any); ok {
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if kept, ok := prune(path+"."+key, fields[key], func(v any) error { return try(map[string]any{key: v}) }, problems); ok {
				out[key] = kept
			}
		}
		return out, true
	}
	*problems = append(*problems, fmt.Sprintf("%s: %v cannot be read: %v", path, value, err))
	return nil, false
}

func marshal(value any, otherwise []byte) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		return otherwise
	}
	return out
}

package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// general returns a path with N in place of the numbers of list members.
func general(path []string) string {
	out := slices.Clone(path)
	for i, part := range out {
		if _, err := strconv.Atoi(part); err == nil {
			out[i] = "N"
		}
	}
	return strings.Join(out, ".")
}

// leavesOf returns the parameters of a request, without those of the protocol and of a signature in the query string.
func leavesOf(r wire.Request) ([]leaf, error) {
	if r.Protocol == wire.Query {
		var out []leaf
		for name, value := range r.Params.All() {
			if name != "Action" && name != "Version" && !strings.HasPrefix(name, "X-Amz-") {
				out = append(out, leaf{path: strings.Split(name, "."), text: value})
			}
		}
		return out, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(r.Body))
	decoder.UseNumber()
	if len(r.Body) == 0 {
		return nil, nil
	}
	if err := decoder.Decode(&value); err != nil {
		return nil, wire.Errorf("SerializationException", "The request cannot be read: %v", err)
	}
	return jsonLeaves(nil, nil, value), nil
}

func jsonLeaves(out []leaf, path []string, value any) []leaf {
	below := func(name string, v any) { out = jsonLeaves(out, append(slices.Clone(path), name), v) }
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below(name, v[name])
		}
		if len(v) == 0 && len(path) > 0 {
			out = append(out, leaf{path: path, empty: true})
		}
	case []any:
		for i, member := range v {
			below(strconv.Itoa(i+1), member)
		}
		if len(v) == 0 {
			out = append(out, leaf{path: path, empty: true})
		}
	case json.Number:
		out = append(out, leaf{path: path, text: v.String(), of: number})
	case bool:
		out = append(out, leaf{path: path, text: strconv.FormatBool(v), of: boolean})
	case string:
		out = append(out, leaf{path: path, text: v, of: text})
	}
	return out
}

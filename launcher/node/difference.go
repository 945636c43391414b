package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch changes a Node from what was read to what is wanted, except for its status. While a node boots, others write to its Node many times a second:
// the patch requires no version, but that the fields that it changes, and the UID, are as they were read. If one is not, the error is a conflict, as
// for a version. want becomes the Node as it is then.
func Patch(ctx context.Context, c client.Client, have, want *corev1.Node) error {
	patch, err := difference(have, want)
	if err != nil {
		return fmt.Errorf("patching Node %s: %w", have.Name, err)
	}
	if err := c.Patch(ctx, want, patch); err != nil {
		return fmt.Errorf("patching Node %s: %w", have.Name, asConflict(have.Name, err))
	}
	return nil
}

// difference returns the JSON patch (RFC 6902) that Patch sends.
func difference(have, want *corev1.Node) (client.Patch, error) {
	before, errBefore := fields(have)
	after, errAfter := fields(want)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return nil, err
	}
	uid, _, err := unstructured.NestedFieldNoCopy(before, "metadata", "uid")
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(compare([]operation{{"test", "/metadata/uid", uid}}, "", before, after))
	if err != nil {
		return nil, fmt.Errorf("encoding the operations: %w", err)
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}

// fields are a Node's fields as the API server has them, without its status.
func fields(n *corev1.Node) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: n.ObjectMeta, Spec: n.Spec})
}

// operation is one of a JSON patch. The value of a test for a field that is not there is null (section 4.6, and the API server's library).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// compare appends the operations that make one object of the other. Each change comes with the test that the field is as it was.
func compare(to []operation, path string, have, want map[string]any) []operation {
	both := maps.Clone(have)
	maps.Copy(both, want)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		at, before, after := path+"/"+inPath(key), have[key], want[key]
		if reflect.DeepEqual(before, after) {
			continue
		}
		inner, isObject := before.(map[string]any)
		other, areObjects := after.(map[string]any)
		gone := missing(before, after)
		switch {
		case isObject && areObjects:
			to = compare(to, at, inner, other)
		case len(gone) > 0:
			to = remove(to, at, before.([]any), gone)
		case after == nil:
			to = append(to, operation{"test", at, before}, operation{Op: "remove", Path: at})
		default:
			to = append(to, operation{"test", at, before}, operation{"add", at, after})
		}
	}
	return to
}

// missing returns the positions of the items that one list has and the other, which may be nil, has not; none unless they differ in nothing else.
func missing(have, want any) []int {
	before, isList := have.([]any)
	after, areLists := want.([]any)
	if !isList || !areLists && want != nil {
		return nil
	}
	var out []int
	for i, item := range before {
		if len(after) > 0 && reflect.DeepEqual(item, after[0]) {
			after = after[1:]
		} else {
			out = append(out, i)
		}
	}
	if len(after) > 0 {
		return nil
	}
	return out
}

// remove appends the operations that remove items of a list. Others may change the items after these: Kubernetes' controllers take their taints away
// while the launcher takes its own, which come first.
func remove(to []operation, path string, list []any, positions []int) []operation {
	for _, i := range slices.Backward(positions) {
		at := fmt.Sprintf("%s/%d", path, i)
		to = append(to, operation{"test", at, list[i]}, operation{Op: "remove", Path: at})
	}
	return to
}

// inPath escapes a key for a path (RFC 6901).
func inPath(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// asConflict returns a conflict for the answer to a test that failed, which the API server gives no reason of its own: it is invalid, for no field.
func asConflict(name string, err error) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
		return err
	}
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("nodes"), name, err)
}

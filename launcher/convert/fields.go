package convert

import (
	"maps"
	"slices"
	"strings"
)

// fields are the fields of an old object that are not converted yet.
type fields struct {
	values map[string]any
	// object is the object's kind and name, name the name alone.
	object, name string
	// path of these fields in the object; empty at its root.
	path       string
	conversion *conversion
	children   []*fields
}

// take removes a field and returns its value, or nil if it is missing.
func (f *fields) take(key string) any {
	value := f.values[key]
	delete(f.values, key)
	return value
}

// drop removes fields without a meaning in v1.
func (f *fields) drop(keys ...string) {
	for _, key := range keys {
		delete(f.values, key)
	}
}

// within takes the fields of an object. A value that is not an object stays, and is reported with the rest.
func (f *fields) within(key string) *fields {
	values, ok := f.values[key].(map[string]any)
	if !ok {
		if f.values[key] == nil {
			f.drop(key)
		}
		values = map[string]any{}
	} else {
		delete(f.values, key)
	}
	child := &fields{values: maps.Clone(values), object: f.object, name: f.name, path: f.at(key), conversion: f.conversion}
	f.children = append(f.children, child)
	return child
}

// has reports whether a field exists and is not null.
func (f *fields) has(key string) bool { return f.values[key] != nil }

func (f *fields) at(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

func (f *fields) lost(key, why string) {
	f.conversion.report(Lost, f.object, f.at(key), why)
}

func (f *fields) assumed(field, why string) {
	f.conversion.report(Assumed, f.object, field, why)
}

// reportRest reports the fields that were not converted.
func (f *fields) reportRest() {
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if f.values[key] != nil {
			f.lost(key, "v1 has no such field")
		}
	}
	for _, child := range f.children {
		child.reportRest()
	}
}

// text returns a value that is a string, otherwise "".
func text(value any) string {
	s, _ := value.(string)
	return s
}

// set sets key if the value is not empty.
func set(into map[string]any, key string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case map[string]any:
		if len(v) == 0 {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	}
	into[key] = value
}

// metadata takes the object's metadata without the additions of the server and Karpenter.
func (f *fields) metadata() map[string]any {
	m := f.within("metadata")
	out := map[string]any{}
	set(out, "name", m.take("name"))
	set(out, "generateName", m.take("generateName"))
	set(out, "labels", m.take("labels"))
	annotations := m.within("annotations")
	for _, key := range slices.Sorted(maps.Keys(annotations.values)) {
		if servers(key) {
			annotations.drop(key)
		}
	}
	set(out, "annotations", maps.Clone(annotations.values))
	annotations.values = nil
	m.drop("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences", "finalizers",
		"deletionTimestamp", "deletionGracePeriodSeconds")
	if m.has("namespace") {
		m.lost("namespace", "the object is of the whole cluster")
		m.drop("namespace")
	}
	return out
}

// servers reports whether an annotation is written by kubectl or Karpenter, which write it again for the new object.
func servers(annotation string) bool {
	return annotation == "kubectl.kubernetes.io/last-applied-configuration" ||
		strings.HasSuffix(annotation, "-hash") && strings.HasPrefix(annotation, "karpenter.") ||
		strings.HasSuffix(annotation, "-hash-version") && strings.HasPrefix(annotation, "karpenter.")
}

package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// selector converts an old map of tags to terms. A value was a list with commas: each entry becomes a term.
func (f *fields) selector(key string) []any {
	s := f.within(key)
	var ids []string
	for _, special := range []string{"aws-ids", "aws::ids"} {
		ids = append(ids, split(s.take(special))...)
	}
	if len(ids) == 0 {
		return s.tagTerms()
	}
	var out []any
	for _, id := range ids {
		out = append(out, map[string]any{"id": id})
	}
	for _, tag := range slices.Sorted(maps.Keys(s.values)) {
		s.lost(tag, "v1 takes ids or tags, not both in one term: the ids alone are kept")
		s.drop(tag)
	}
	return out
}

// imageSelector is selector for images, which may also be selected by name, and restricted to owners.
func (f *fields) imageSelector(key string) []any {
	s := f.within(key)
	names, owners := split(s.take("aws::name")), split(s.take("aws::owners"))
	ids := slices.Concat(split(s.take("aws-ids")), split(s.take("aws::ids")))
	var out []any
	for _, id := range ids {
		out = append(out, map[string]any{"id": id})
	}
	if len(ids) > 0 {
		if len(names)+len(owners)+len(s.values) > 0 {
			f.lost(key, "v1 takes ids alone or names, owners and tags: the ids are kept")
			s.values = nil
		}
		return out
	}
	terms := s.tagTerms()
	if len(terms) == 0 && len(names)+len(owners) > 0 {
		terms = []any{map[string]any{}}
	}
	return product(product(terms, "name", names), "owner", owners)
}

// product combines each term with each value of a further field.
func product(terms []any, key string, values []string) []any {
	if len(values) == 0 {
		return terms
	}
	var out []any
	for _, term := range terms {
		for _, value := range values {
			more := maps.Clone(term.(map[string]any))
			more[key] = value
			out = append(out, more)
		}
	}
	return out
}

// tagTerms takes all fields as tags.
func (f *fields) tagTerms() []any {
	if len(f.values) == 0 {
		return nil
	}
	tags := f.values
	f.values = nil
	return splitTags(tags)
}

// splitTags returns one term for each combination of the tags' values.
func splitTags(tags map[string]any) []any {
	combinations := []map[string]any{{}}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		values := []any{tags[key]}
		if parts := split(tags[key]); len(parts) > 0 {
			values = nil
			for _, part := range parts {
				values = append(values, part)
			}
		}
		var next []map[string]any
		for _, c := range combinations {
			for _, value := range values {
				more := maps.Clone(c)
				more[key] = value
				next = append(next, more)
			}
		}
		combinations = next
	}
	var out []any
	for _, c := range combinations {
		out = append(out, map[string]any{"tags": c})
	}
	return out
}

// terms converts v1beta1's terms, in which users continued to write lists with commas.
func (f *fields) terms(key string) []any {
	old, ok := f.values[key].([]any)
	if !ok {
		return nil
	}
	f.drop(key)
	var out []any
	for i, term := range old {
		m, _ := term.(map[string]any)
		tags, _ := m["tags"].(map[string]any)
		ids := split(m["id"])
		switch {
		case len(tags) > 0 && listed(tags):
			rest := maps.Clone(m)
			delete(rest, "tags")
			for _, t := range splitTags(tags) {
				maps.Copy(t.(map[string]any), rest)
				out = append(out, t)
			}
			f.assumed(f.at(fmt.Sprintf("%s[%d]", key, i)), "a value with commas is a list, as it was in v1alpha5: one term for each")
		case len(ids) > 1:
			for _, id := range ids {
				out = append(out, map[string]any{"id": id})
			}
			f.assumed(f.at(fmt.Sprintf("%s[%d]", key, i)), "an id with commas is a list: one term for each")
		default:
			out = append(out, term)
		}
	}
	return out
}

func listed(tags map[string]any) bool {
	for _, value := range tags {
		if len(split(value)) > 1 {
			return true
		}
	}
	return false
}

// split splits a list at its commas. A comma inside a placeholder, such as ${A:-b,c}, does not split.
func split(value any) []string {
	var out []string
	depth, begin, s := 0, 0, text(value)
	for i, r := range s {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case r == ',' && depth <= 0:
			out = append(out, s[begin:i])
			begin = i + 1
		}
	}
	out = append(out, s[begin:])
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return slices.DeleteFunc(out, func(part string) bool { return part == "" })
}

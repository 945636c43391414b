package wire

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// Attribute returns the values that a resource has for a filter's name. known is false where the API has no such filter.
type Attribute func(name string) (values []string, known bool)

// Tagged returns an attribute function with the filters tag:KEY and tag-key. It calls other for all others.
func Tagged(tags map[string]string, other Attribute) Attribute {
	return func(name string) ([]string, bool) {
		if key, ok := strings.CutPrefix(name, "tag:"); ok {
			if value, has := tags[key]; has {
				return []string{value}, true
			}
			return nil, true
		}
		if name != "tag-key" {
			return other(name)
		}
		var keys []string
		for key := range tags {
			keys = append(keys, key)
		}
		return keys, true
	}
}

// The limits of one call: the number of filters, and of values of each (EC2 user guide, "Filtering considerations").
const (
	maxFilters      = 50
	maxFilterValues = 200
)

// Filter is one filter of an EC2 call: its values are alternatives.
type Filter struct {
	// Name is the filter's name.
	Name     string
	values   map[string]bool
	patterns []*regexp.Regexp
}

func (f Filter) matches(value string) bool {
	return f.values[value] || slices.ContainsFunc(f.patterns, func(r *regexp.Regexp) bool { return r.MatchString(value) })
}

// Filters reads the filters of a call. In a value, * matches any characters, ? matches one, and \ escapes both (EC2 user
// guide, "Filtering considerations").
func (p Params) Filters() ([]Filter, error) {
	var out []Filter
	for _, f := range p.Each("Filter") {
		filter := Filter{Name: f.Get("Name"), values: map[string]bool{}}
		values := f.Strings("Value")
		if filter.Name == "" {
			return nil, Errorf("InvalidParameterValue", "The filter 'null' is invalid")
		}
		if len(values) == 0 {
			return nil, Errorf("InvalidParameterValue", "The filter '%s' has no value", filter.Name)
		}
		if len(values) > maxFilterValues {
			return nil, Errorf("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", maxFilterValues)
		}
		for _, v := range values {
			if strings.ContainsAny(v, `*?\`) {
				filter.patterns = append(filter.patterns, wildcards(v))
			} else {
				filter.values[v] = true
			}
		}
		out = append(out, filter)
	}
	if len(out) > maxFilters {
		return nil, Errorf("FilterLimitExceeded", "The maximum number of filters specified on a single call is %d", maxFilters)
	}
	return out, nil
}

func wildcards(value string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	escaped := false
	for _, r := range value {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			b.WriteString(".*")
		case r == '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// Match reports whether all filters match a resource.
func Match(filters []Filter, attribute Attribute) (bool, error) {
	all := true
	for _, f := range filters {
		values, known := attribute(f.Name)
		if !known {
			return false, Errorf("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
		}
		all = all && slices.ContainsFunc(values, f.matches)
	}
	return all, nil
}

// Select returns the items that all filters match.
func Select[T any](filters []Filter, items []T, attributes func(T) Attribute) ([]T, error) {
	if len(filters) == 0 {
		return items, nil
	}
	var out []T
	for _, item := range items {
		ok, err := Match(filters, attributes(item))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, item)
		}
	}
	return out, nil
}

// Pages configures the paging of a call.
type Pages struct {
	// Min and Max are the bounds of MaxResults; 0 means no bound.
	Min, Max int
	// Default is the page's size where MaxResults is not given; 0 means all.
	Default int
	// Clamp reduces a MaxResults above Max to Max. Otherwise it is an error.
	Clamp bool
}

// Page returns the items of the requested page and the token of the next, which is empty on the last. Items are in the order
// of their keys, and a token names a key. So items that are added or removed between two pages do not shift the others.
func Page[T any](p Params, pages Pages, items []T, key func(T) string) (page []T, next string, err error) {
	size, err := p.Int("MaxResults", pages.Default)
	if err != nil {
		return nil, "", err
	}
	switch {
	case p.At("MaxResults").Given() && size < pages.Min:
		return nil, "", Errorf("InvalidParameterValue",
			"Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than %d.", size, pages.Min)
	case pages.Max > 0 && size > pages.Max && !pages.Clamp:
		return nil, "", Errorf("InvalidParameterValue",
			"Value ( %d ) for parameter maxResults is invalid. Expecting a value less than %d.", size, pages.Max)
	case pages.Max > 0 && size > pages.Max:
		size = pages.Max
	}
	return PageFrom(items, size, p.Get("NextToken"), key)
}

// PageFrom does what Page does for a size and a token that were read already; size 0 means all.
func PageFrom[T any](items []T, size int, token string, key func(T) string) (page []T, next string, err error) {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if token != "" {
		after, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || !strings.HasPrefix(string(after), tokenMark) {
			return nil, "", Errorf("InvalidNextToken", "The specified next token is not valid.")
		}
		last := strings.TrimPrefix(string(after), tokenMark)
		items = slices.DeleteFunc(items, func(item T) bool { return key(item) <= last })
	}
	if size > 0 && len(items) > size {
		items = items[:size]
		next = base64.RawURLEncoding.EncodeToString([]byte(tokenMark + key(items[size-1])))
	}
	return items, next, nil
}

// tokenMark distinguishes tokens of this package from other base64.
const tokenMark = "after:"

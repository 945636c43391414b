package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// condition is one key of a condition block with its operator (IAM user guide, "IAM JSON policy elements: Condition
// operators").
type condition struct {
	key      string
	compare  func(value string) bool
	negated  bool
	null     bool
	wantNull bool
	// quantified by ForAllValues or ForAnyValue; optional by IfExists.
	forAll, optional bool
}

func readCondition(operator, key string, values texts) (condition, error) {
	c := condition{key: foldKey(key)}
	for _, v := range values {
		if strings.Contains(v, "${") {
			return c, fmt.Errorf("condition %s of %s: policy variables are not known here", operator, key)
		}
	}
	name := operator
	if rest, ok := strings.CutPrefix(name, "ForAllValues:"); ok {
		name, c.forAll = rest, true
	} else if rest, ok := strings.CutPrefix(name, "ForAnyValue:"); ok {
		name = rest
	}
	if rest, ok := strings.CutSuffix(name, "IfExists"); ok {
		name, c.optional = rest, true
	}
	switch name {
	case "Null":
		if len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return c, fmt.Errorf("condition Null of %s: %q is neither true nor false", key, values)
		}
		c.null, c.wantNull = true, values[0] == "true"
	case "StringEquals", "StringNotEquals":
		c.compare = func(v string) bool { return slices.Contains(values, v) }
	case "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase", "Bool":
		c.compare = func(v string) bool {
			return slices.ContainsFunc(values, func(want string) bool { return strings.EqualFold(want, v) })
		}
	case "StringLike", "StringNotLike", "ArnLike", "ArnEquals", "ArnNotLike", "ArnNotEquals":
		var list []*regexp.Regexp
		for _, v := range values {
			list = append(list, glob(v))
		}
		c.compare = patterns{list: list}.match
	default:
		return c, fmt.Errorf("condition operator %q is not known here", operator)
	}
	c.negated = strings.Contains(name, "Not")
	return c, nil
}

// foldKey makes equal what IAM takes for the same key: case does not count, but in what follows a slash it is the tag's.
func foldKey(key string) string {
	name, tag, ok := strings.Cut(key, "/")
	if !ok {
		return strings.ToLower(name)
	}
	return strings.ToLower(name) + "/" + tag
}

func (c condition) holds(context map[string][]string) bool {
	values, exists := lookUp(context, c.key)
	switch {
	case c.null:
		return exists != c.wantNull
	case !exists && (c.optional || c.forAll):
		return true
	case !exists:
		// What is not there equals nothing.
		return c.negated
	}
	one := func(v string) bool { return c.compare(v) != c.negated }
	if c.forAll || c.negated {
		return !slices.ContainsFunc(values, func(v string) bool { return !one(v) })
	}
	return slices.ContainsFunc(values, one)
}

func lookUp(context map[string][]string, key string) ([]string, bool) {
	for k, values := range context {
		if foldKey(k) == key {
			return values, true
		}
	}
	return nil, false
}

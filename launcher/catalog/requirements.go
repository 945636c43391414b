package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The operators that Karpenter adds to those of node affinity (NodePool spec.template.spec.requirements).
const (
	OperatorGte corev1.NodeSelectorOperator = "Gte"
	OperatorLte corev1.NodeSelectorOperator = "Lte"
)

// Requirement is one condition on a node's labels.
type Requirement struct {
	// Key of the label.
	Key string
	// Operator: In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte.
	Operator corev1.NodeSelectorOperator
	// Values; exactly one integer for Gt, Lt, Gte and Lte.
	Values []string
	// MinValues is the minimum number of distinct values that must stay possible; 0 means no minimum.
	MinValues int32
}

// Set is the set of values that a label may have: Values, or all others if Complement is set; within [Min, Max] if those are set. The label
// may be absent only if Absent is set.
type Set struct {
	// Values lists the values.
	Values map[string]bool
	// Complement means all values except the listed ones.
	Complement bool
	// Min and Max are inclusive bounds on integer values; nil means unbounded.
	Min, Max *int64
	// Absent means that a node without the label is allowed.
	Absent bool
}

// Requirements holds the allowed values by normal label key; a key without an entry is not restricted.
type Requirements map[string]Set

// NewRequirements combines the given requirements with AND, under normal keys (NormalKey). It returns an error that names key and operator if an
// operator or a value is not valid.
func NewRequirements(list []Requirement) (Requirements, error) {
	out := Requirements{}
	for _, r := range list {
		s, err := newSet(r)
		if err != nil {
			return nil, err
		}
		out.add(NormalKey(r.Key), s)
	}
	return out, nil
}

// FromLabels returns the requirements that are met by exactly these labels.
func FromLabels(labels map[string]string) Requirements {
	out := make(Requirements, len(labels))
	for k, v := range labels {
		out[k] = Set{Values: map[string]bool{v: true}}
	}
	return out
}

func newSet(r Requirement) (Set, error) {
	values := make(map[string]bool, len(r.Values))
	for _, v := range r.Values {
		values[v] = true
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return Set{Values: values}, nil
	case corev1.NodeSelectorOpNotIn:
		return Set{Values: values, Complement: true, Absent: true}, nil
	case corev1.NodeSelectorOpExists:
		return Set{Complement: true}, nil
	case corev1.NodeSelectorOpDoesNotExist:
		return Set{Absent: true}, nil
	default:
		return newBound(r)
	}
}

// newBound is newSet for the operators that compare integers.
func newBound(r Requirement) (Set, error) {
	switch r.Operator {
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, OperatorGte, OperatorLte:
	default:
		return Set{}, fmt.Errorf("requirement %s: unknown operator %q", r.Key, r.Operator)
	}
	if len(r.Values) != 1 {
		return Set{}, fmt.Errorf("requirement %s: operator %s takes exactly one value, got %d", r.Key, r.Operator, len(r.Values))
	}
	n, err := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil {
		return Set{}, fmt.Errorf("requirement %s: operator %s takes an integer, got %q", r.Key, r.Operator, r.Values[0])
	}
	switch r.Operator {
	case corev1.NodeSelectorOpGt:
		n++
		return Set{Complement: true, Min: &n}, nil
	case OperatorGte:
		return Set{Complement: true, Min: &n}, nil
	case corev1.NodeSelectorOpLt:
		n--
		return Set{Complement: true, Max: &n}, nil
	default:
		return Set{Complement: true, Max: &n}, nil
	}
}

func (rs Requirements) add(key string, s Set) {
	if have, ok := rs[key]; ok {
		s = have.Intersect(s)
	}
	rs[key] = s
}

// Intersect returns the requirements that are met if and only if both are met.
func (rs Requirements) Intersect(other Requirements) Requirements {
	out := maps.Clone(rs)
	if out == nil {
		out = Requirements{}
	}
	for k, s := range other {
		out.add(k, s)
	}
	return out
}

// Conflict returns the first key, in alphabetical order, for which no value is allowed, and whether there is one.
func (rs Requirements) Conflict() (string, bool) {
	for _, k := range slices.Sorted(maps.Keys(rs)) {
		if rs[k].Empty() {
			return k, true
		}
	}
	return "", false
}

// Match reports whether a node with exactly these labels meets the requirements; if not, it returns the first key, in alphabetical order,
// that does not.
func (rs Requirements) Match(labels map[string]string) (key string, ok bool) {
	for _, k := range slices.Sorted(maps.Keys(rs)) {
		v, present := labels[k]
		if !present && !rs[k].Absent || present && !rs[k].Has(v) {
			return k, false
		}
	}
	return "", true
}

// Has reports whether a label with this value is allowed.
func (s Set) Has(value string) bool {
	return s.Values[value] != s.Complement && s.inBounds(value)
}

func (s Set) inBounds(value string) bool {
	if s.Min == nil && s.Max == nil {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (s.Min == nil || n >= *s.Min) && (s.Max == nil || n <= *s.Max)
}

// Empty reports whether neither a value nor the label's absence is allowed.
func (s Set) Empty() bool {
	if s.Absent {
		return false
	}
	if s.Complement {
		return s.Min != nil && s.Max != nil && *s.Min > *s.Max
	}
	return len(s.List()) == 0
}

// List returns the listed values that are allowed, sorted; nil for a complement, whose values cannot be listed.
func (s Set) List() []string {
	if s.Complement {
		return nil
	}
	var out []string
	for v := range s.Values {
		if s.inBounds(v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// Any returns one value of the set, if a node has to have one: the first listed, the bound nearest to zero, or a number. It is false where the
// label may be absent, and for an empty set.
func (s Set) Any() (value string, ok bool) {
	if s.Absent {
		return "", false
	}
	if list := s.List(); len(list) > 0 {
		return list[0], true
	}
	if found := s.Numbers(1); len(found) > 0 {
		return found[0], true
	}
	return "", false
}

// Numbers returns up to n numbers of a set that lists no values.
func (s Set) Numbers(n int) []string {
	from := int64(1)
	switch {
	case s.Min != nil:
		from = *s.Min
	case s.Max != nil:
		from = *s.Max - int64(len(s.Values)+n-1)
	}
	var out []string
	for i := 0; i < len(s.Values)+n && len(out) < n; i++ {
		if v := strconv.FormatInt(from+int64(i), 10); s.Has(v) {
			out = append(out, v)
		}
	}
	return out
}

// Intersect returns the set of values that both allow.
func (s Set) Intersect(o Set) Set {
	out := Set{Values: map[string]bool{}, Complement: s.Complement && o.Complement, Absent: s.Absent && o.Absent}
	out.Min, out.Max = tighter(s.Min, o.Min, 1), tighter(s.Max, o.Max, -1)
	switch {
	case out.Complement:
		maps.Copy(out.Values, s.Values)
		maps.Copy(out.Values, o.Values)
	default:
		for _, side := range []Set{s, o} {
			for v := range side.Values {
				if !side.Complement && s.Has(v) && o.Has(v) {
					out.Values[v] = true
				}
			}
		}
	}
	return out
}

func tighter(a, b *int64, sign int64) *int64 {
	if a == nil || b != nil && sign**b > sign**a {
		return b
	}
	return a
}

// String formats the set for people.
func (s Set) String() string {
	var parts []string
	list := slices.Sorted(maps.Keys(s.Values))
	switch {
	case !s.Complement:
		parts = append(parts, "in ["+strings.Join(s.List(), " ")+"]")
	case len(list) > 0:
		parts = append(parts, "not in ["+strings.Join(list, " ")+"]")
	}
	if s.Min != nil {
		parts = append(parts, fmt.Sprintf(">= %d", *s.Min))
	}
	if s.Max != nil {
		parts = append(parts, fmt.Sprintf("<= %d", *s.Max))
	}
	if len(parts) == 0 {
		return "exists"
	}
	return strings.Join(parts, ", ")
}

// ListText formats values of a label for people, eight at most, fewer of long ones.
func ListText(values []string) string { return listText(values, 8) }

// mostListed bounds a list of values in bytes, one value apart: a sentence has 200 characters at most.
const mostListed = 100

func listText(values []string, most int) string {
	if len(values) == 0 {
		return "none"
	}
	shown := values[:min(len(values), most)]
	text := strings.Join(shown, " ")
	for len(text) > mostListed && len(shown) > 1 {
		shown = shown[:len(shown)-1]
		text = strings.Join(shown, " ")
	}
	if n := len(values) - len(shown); n > 0 {
		return fmt.Sprintf("[%s and %d more]", text, n)
	}
	return "[" + text + "]"
}

// CountText formats a number of things for people. The plural of the noun has an s.
func CountText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

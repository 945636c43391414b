package catalog

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func req(key string, op corev1.NodeSelectorOperator, values ...string) Requirement {
	return Requirement{Key: key, Operator: op, Values: values}
}

func mustRequirements(t *testing.T, list ...Requirement) Requirements {
	t.Helper()
	rs, err := NewRequirements(list)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// absent is a label value that stands for no label in the tables below.
const absent = "(absent)"

func labelsOf(value string) map[string]string {
	if value == absent {
		return map[string]string{}
	}
	return map[string]string{"k": value}
}

func TestRequirementsMatch(t *testing.T) {
	for _, tc := range []struct {
		name     string
		list     []Requirement
		yes, no  []string
		conflict bool
	}{
		{"in", []Requirement{req("k", "In", "a", "b")}, []string{"a", "b"}, []string{"c", absent}, false},
		{"in nothing", []Requirement{req("k", "In")}, nil, []string{"a", absent}, true},
		{"not in lets the label be absent", []Requirement{req("k", "NotIn", "a")}, []string{"b", absent}, []string{"a"}, false},
		{"exists", []Requirement{req("k", "Exists")}, []string{"a", ""}, []string{absent}, false},
		{"does not exist", []Requirement{req("k", "DoesNotExist")}, []string{absent}, []string{"a", ""}, false},
		{"gt", []Requirement{req("k", "Gt", "4")}, []string{"5", "100"}, []string{"4", "x", absent}, false},
		{"lt", []Requirement{req("k", "Lt", "4")}, []string{"3", "-1"}, []string{"4", "x", absent}, false},
		{"gte and lte", []Requirement{req("k", OperatorGte, "2"), req("k", OperatorLte, "4")}, []string{"2", "3", "4"}, []string{"1", "5"}, false},
		{"empty range", []Requirement{req("k", "Gt", "4"), req("k", "Lt", "5")}, nil, []string{"4", "5", absent}, true},
		{"in and not in", []Requirement{req("k", "In", "a", "b"), req("k", "NotIn", "a")}, []string{"b"}, []string{"a", "c", absent}, false},
		{"in and in", []Requirement{req("k", "In", "a"), req("k", "In", "b")}, nil, []string{"a", "b", absent}, true},
		{"not in and not in", []Requirement{req("k", "NotIn", "a"), req("k", "NotIn", "b")}, []string{"c", absent}, []string{"a", "b"}, false},
		{"not in and exists", []Requirement{req("k", "NotIn", "a"), req("k", "Exists")}, []string{"b"}, []string{"a", absent}, false},
		{"not in and does not exist", []Requirement{req("k", "NotIn", "a"), req("k", "DoesNotExist")}, []string{absent}, []string{"a", "b"}, false},
		{"exists and does not exist", []Requirement{req("k", "Exists"), req("k", "DoesNotExist")}, nil, []string{"a", absent}, true},
		{"in and does not exist", []Requirement{req("k", "In", "a"), req("k", "DoesNotExist")}, nil, []string{"a", absent}, true},
		{"in within a range", []Requirement{req("k", "In", "1", "2", "3"), req("k", "Gt", "1")}, []string{"2", "3"}, []string{"1", absent}, false},
		{"in outside of a range", []Requirement{req("k", "In", "1"), req("k", "Gt", "1")}, nil, []string{"1", "2"}, true},
		{"not in within a range", []Requirement{req("k", "NotIn", "2"), req("k", "Gt", "1")}, []string{"3"}, []string{"1", "2", absent}, false},
		{"the tighter bound wins", []Requirement{req("k", "Gt", "1"), req("k", "Gt", "5"), req("k", "Lt", "9"), req("k", "Lt", "20")}, []string{"6", "8"}, []string{"5", "9"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rs := mustRequirements(t, tc.list...)
			for _, v := range tc.yes {
				if key, ok := rs.Match(labelsOf(v)); !ok {
					t.Errorf("%q: not matched for %s, want a match with %v", v, key, rs["k"])
				}
			}
			for _, v := range tc.no {
				if key, ok := rs.Match(labelsOf(v)); ok || key != "k" {
					t.Errorf("%q: got %q, %v, want no match for k with %v", v, key, ok, rs["k"])
				}
			}
			if _, conflict := rs.Conflict(); conflict != tc.conflict {
				t.Errorf("conflict %v, want %v: %v", conflict, tc.conflict, rs["k"])
			}
		})
	}
}

// TestIntersectIsBoth holds the promise of Intersect: met exactly where both are, in whatever order.
func TestIntersectIsBoth(t *testing.T) {
	parts := []Requirement{
		req("k", "In", "1", "2", "a"), req("k", "NotIn", "2"), req("k", "Exists"), req("k", "DoesNotExist"),
		req("k", "Gt", "1"), req("k", "Lt", "2"), req("k", OperatorGte, "2"), req("k", OperatorLte, "1"), req("k", "In"),
	}
	for _, a := range parts {
		for _, b := range parts {
			ra, rb := mustRequirements(t, a), mustRequirements(t, b)
			both := ra.Intersect(rb)
			for _, v := range []string{"0", "1", "2", "3", "a", "b", absent} {
				_, inA := ra.Match(labelsOf(v))
				_, inB := rb.Match(labelsOf(v))
				if _, got := both.Match(labelsOf(v)); got != (inA && inB) {
					t.Errorf("%v and %v: %q matches %v, want %v", a, b, v, got, inA && inB)
				}
			}
		}
	}
}

func TestIntersectLeavesItsParts(t *testing.T) {
	a := mustRequirements(t, req("k", "In", "a", "b"))
	before := maps.Clone(a["k"].Values)
	a.Intersect(mustRequirements(t, req("k", "In", "a"), req("l", "Exists")))
	if diff := cmp.Diff(before, a["k"].Values); diff != "" || len(a) != 1 {
		t.Errorf("the first part changed: %v %s", a, diff)
	}
	if got := Requirements(nil).Intersect(a); len(got) != 1 {
		t.Errorf("nothing and a: got %v, want a", got)
	}
}

func TestFromLabels(t *testing.T) {
	rs := FromLabels(map[string]string{"k": "a", "l": "b"})
	if _, ok := rs.Match(map[string]string{"k": "a", "l": "b", "m": "c"}); !ok {
		t.Error("the labels themselves do not match")
	}
	if key, ok := rs.Match(map[string]string{"k": "a"}); ok || key != "l" {
		t.Errorf("got %q, %v, want l to be missed", key, ok)
	}
}

func TestConflictNamesTheFirstKey(t *testing.T) {
	rs := mustRequirements(t, req("z", "In"), req("b", "In"), req("a", "Exists"))
	if key, ok := rs.Conflict(); !ok || key != "b" {
		t.Errorf("got %q, %v, want b", key, ok)
	}
}

func TestNewRequirementsRejects(t *testing.T) {
	for name, r := range map[string]Requirement{
		"unknown operator": req("k", "Like", "1"),
		"no value":         req("k", "Gt"),
		"two values":       req("k", "Lt", "1", "2"),
		"no integer":       req("k", OperatorGte, "big"),
	} {
		if _, err := NewRequirements([]Requirement{r}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSetString(t *testing.T) {
	for want, list := range map[string][]Requirement{
		"in [a b]":         {req("k", "In", "b", "a")},
		"not in [a], >= 3": {req("k", "NotIn", "a"), req("k", "Gt", "2")},
		"exists":           {req("k", "Exists")},
		">= 3, <= 4":       {req("k", "Gt", "2"), req("k", "Lt", "5")},
		"in []":            {req("k", "In", "a"), req("k", "In", "b")},
		"in [3], >= 3":     {req("k", "In", "1", "3"), req("k", "Gt", "2")},
	} {
		if got := mustRequirements(t, list...)["k"].String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

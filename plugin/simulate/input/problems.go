package input

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Problem is something wrong with an object of the input.
type Problem struct {
	// Object such as "Pod default/web-0", or the place in the input where it has no name.
	Object string `json:"object"`
	// Field such as spec.containers[0].resources.requests[cpu]; empty for the whole object.
	Field string `json:"field"`
	// Message says what was found and what was expected.
	Message string `json:"message"`
	// Refused means that the API server would refuse the object as it stands. What can be read of it is used.
	Refused bool `json:"refused,omitempty"`
}

// String prints the problem as one line.
func (p Problem) String() string {
	if p.Field == "" {
		return p.Object + ": " + p.Message
	}
	return p.Object + ": " + p.Field + ": " + p.Message
}

// Refused returns an error if the API server would refuse an object of the input: a result that was found without it, or without one of its fields,
// is not that of a cluster.
func Refused(problems []Problem) error {
	objects := map[string]bool{}
	for _, p := range problems {
		if p.Refused {
			objects[p.Object] = true
		}
	}
	if len(objects) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(objects))
	if more := len(names) - 3; more > 0 {
		names = append(names[:3], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("checking the input: the API server would refuse %s: see the problems above", strings.Join(names, ", "))
}

// problemList collects the problems of an input.
type problemList struct{ problems []Problem }

// problem reports something that is left out, or read differently from what it says.
func (l *problemList) problem(object, field, format string, args ...any) {
	l.problems = append(l.problems, Problem{Object: object, Field: field, Message: fmt.Sprintf(format, args...)})
}

// refuse reports a problem for which the API server would refuse the object.
func (l *problemList) refuse(object, field, format string, args ...any) {
	l.problems = append(l.problems, Problem{Object: object, Field: field, Message: fmt.Sprintf(format, args...), Refused: true})
}

// unknownFields reports fields that the kind of the object does not have.
func (l *problemList) unknownFields(object string, fields []string) {
	for _, field := range fields {
		l.refuse(object, field, "unknown field")
	}
}

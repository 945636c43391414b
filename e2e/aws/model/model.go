package model

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// Model holds the services' models of the operations that a launcher of nodes needs.
type Model struct {
	operations map[string]map[string]func() (*operation, error)
}

// New returns the model.
func New() *Model {
	m := &Model{operations: map[string]map[string]func() (*operation, error){}}
	for service, of := range probes() {
		m.operations[service] = map[string]func() (*operation, error){}
		for action, p := range of {
			m.operations[service][action] = sync.OnceValues(p.operation)
		}
	}
	return m
}

// Knows reports whether the operation is in the model.
func (m *Model) Knows(service, action string) bool { return m.operations[service][action] != nil }

// Operations iterates over all operations, by service and action.
func (m *Model) Operations() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for service, of := range m.operations {
			for action := range of {
				if !yield(service, action) {
					return
				}
			}
		}
	}
}

// Check returns the differences between a request and its model, the worst first. It returns none for an operation that the
// model lacks, or for another protocol than the SDK's.
func (m *Model) Check(r wire.Request) ([]*wire.Error, error) {
	read := m.operations[r.Service][r.Action]
	if read == nil {
		return nil, nil
	}
	op, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the model of %s %s: %w", r.Service, r.Action, err)
	}
	if (op.protocol == wire.Query) != (r.Protocol == wire.Query) {
		return nil, nil
	}
	found, err := leavesOf(r)
	if err != nil {
		return nil, err
	}
	return op.check(r.Service, found), nil
}

// operation is the model of one operation. Paths are general: members of lists have the number N.
type operation struct {
	protocol wire.Protocol
	fields   map[string]field
	// maps are the paths below which any name is allowed.
	maps map[string]field
	// required are the required paths below a path, which is empty for the request itself.
	required map[string][]string
}

// field is a parameter without fields below it.
type field struct {
	kind   kind
	values []string
}

// leaf is a parameter of a request. Its path has the numbers of list members.
type leaf struct {
	path []string
	text string
	// of is the kind of a JSON value; anyKind in a form, where every value is text.
	of kind
	// empty is true for a list or an object without members.
	empty bool
}

func (l leaf) name() string { return strings.Join(l.path, ".") }

func (o *operation) check(service string, leaves []leaf) []*wire.Error {
	var out []*wire.Error
	add := func(code, format string, args ...any) {
		out = append(out, wire.Errorf(codeFor(service, code), format, args...))
	}
	present := map[string]map[string]bool{"": {"": true}}
	for _, l := range leaves {
		note(present, l.path)
		f, ok := o.find(general(l.path))
		switch {
		case l.empty:
		case !ok:
			add("UnknownParameter", "The parameter %s is not recognized", l.name())
		default:
			if wrong := f.wrong(l); wrong != "" {
				add("InvalidParameterValue", "Invalid value '%s' for %s. %s", l.text, l.name(), wrong)
			}
		}
	}
	for parent, names := range o.required {
		for at := range present[parent] {
			for _, name := range names {
				full := strings.TrimPrefix(at+"."+name, ".")
				if !present[strings.TrimPrefix(parent+"."+name, ".")][full] {
					add("MissingParameter", "The request must contain the parameter %s", full)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *wire.Error) int {
		return cmp.Or(-cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return out
}

// find returns the field of a general path.
func (o *operation) find(path string) (field, bool) {
	if f, ok := o.fields[path]; ok {
		return f, true
	}
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		f, ok := o.maps[path[:i]]
		return f, ok
	}
	return field{}, false
}

// note marks a path and its parents as present, by their general paths.
func note(present map[string]map[string]bool, path []string) {
	for n := 1; n <= len(path); n++ {
		in := general(path[:n])
		if present[in] == nil {
			present[in] = map[string]bool{}
		}
		present[in][strings.Join(path[:n], ".")] = true
	}
}

// codeFor returns a service's error code for a mistake, given EC2's code.
func codeFor(service, code string) string {
	switch service {
	case wire.EC2:
		return code
	case wire.IAM, wire.STS:
		return "ValidationError"
	}
	return "ValidationException"
}

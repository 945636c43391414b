package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// probe sends an input of its operation through the SDK.
type probe struct {
	// input returns a new input, a pointer to a struct.
	input func() any
	send  func(ctx context.Context, input any) error
	// more are values that the service takes at a path and the SDK's enumeration lacks.
	more map[string][]string
}

// accepts adds values that the service takes for the members of a list, and that the SDK's enumeration of them lacks.
func (p probe) accepts(list string, values ...string) probe {
	p.more = map[string][]string{list + ".N": values}
	return p
}

// of makes a probe of a method of a client.
func of[In, Out, Options any](do func(context.Context, *In, ...func(*Options)) (*Out, error)) probe {
	return probe{
		input: func() any { return new(In) },
		send: func(ctx context.Context, input any) error {
			in, ok := input.(*In)
			if !ok {
				return fmt.Errorf("sending an input: %T is no %T", input, new(In))
			}
			_, err := do(ctx, in)
			return err
		},
	}
}

// errSent ends a call before it reaches the network.
var errSent = errors.New("the request is not sent")

type sinkKey struct{}

// sink is an HTTP client that returns requests to the caller.
type sink struct{}

// Do implements the SDK's HTTP client.
func (sink) Do(r *http.Request) (*http.Response, error) {
	give, ok := r.Context().Value(sinkKey{}).(func(*http.Request) error)
	if !ok {
		return nil, errSent
	}
	if err := give(r); err != nil {
		return nil, err
	}
	return nil, errSent
}

// capture returns what the SDK would send. refused is true if a required parameter is missing.
func (p probe) capture(input any) (r wire.Request, refused bool, err error) {
	ctx := context.WithValue(context.Background(), sinkKey{}, func(sent *http.Request) error {
		body := sent.Body
		if body == nil {
			body = http.NoBody
		}
		copied := sent.Clone(context.Background())
		copied.Body = io.NopCloser(body)
		var err error
		r, err = wire.ReadRequest(copied, "")
		return err
	})
	err = p.send(ctx, input)
	if invalid := (smithy.InvalidParamsError{}); errors.As(err, &invalid) {
		return r, true, nil
	}
	if !errors.Is(err, errSent) {
		return r, false, fmt.Errorf("capturing a request: the SDK sent nothing: %w", err)
	}
	return r, false, nil
}

// operation derives the model of the operation.
func (p probe) operation() (*operation, error) {
	input := p.input()
	marks := &marks{fields: map[string]mark{}}
	marks.fill(reflect.ValueOf(input).Elem(), nil)
	r, refused, err := p.capture(input)
	if err != nil {
		return nil, err
	}
	if refused {
		return nil, errors.New("capturing a request: the SDK refuses an input with every field filled in")
	}
	op := &operation{protocol: r.Protocol, fields: map[string]field{}, maps: map[string]field{}, required: map[string][]string{}}
	leaves, err := leavesOf(r)
	if err != nil {
		return nil, err
	}
	paths := map[string][]string{}
	for _, l := range leaves {
		path := strings.Split(general(l.path), ".")
		m, ok := marks.fields[l.text]
		switch {
		case !ok && strings.EqualFold(l.text, "true"):
			op.fields[general(l.path)] = field{kind: boolean}
		case !ok:
			return nil, fmt.Errorf("finding the field of %s=%q: there is none", l.name(), l.text)
		case m.inMap:
			op.maps[strings.Join(path[:len(path)-1], ".")] = m.field
		default:
			op.fields[general(l.path)] = m.field
			paths[l.text] = path
		}
		if ok {
			paths[l.text] = path
		}
	}
	for path, values := range p.more {
		f, ok := op.fields[path]
		if !ok {
			return nil, fmt.Errorf("adding values to %s: there is no such field", path)
		}
		f.values = slices.Concat(f.values, values)
		op.fields[path] = f
	}
	if !p.anyRequired(input, reflect.ValueOf(input).Elem()) {
		return op, nil
	}
	return op, (&search{p, op, input, marks, paths}).require(reflect.ValueOf(input).Elem(), nil)
}

// search finds the required fields of an operation.
type search struct {
	probe probe
	op    *operation
	input any
	marks *marks
	// paths are the paths on the wire of the values that the marks put into the input.
	paths map[string][]string
}

// require finds the fields of a struct, at the path on the wire, without which the SDK refuses to send a request.
func (s *search) require(v reflect.Value, at []string) error {
	p, op, input := s.probe, s.op, s.input
	for i := range v.NumField() {
		f := v.Field(i)
		path := fieldPath(f, s.marks, s.paths, len(at))
		if !v.Type().Field(i).IsExported() || path == nil {
			continue
		}
		before := reflect.New(f.Type()).Elem()
		before.Set(f)
		f.SetZero()
		_, refused, err := p.capture(input)
		f.Set(before)
		if err != nil {
			return err
		}
		if refused {
			parent := strings.Join(at, ".")
			op.required[parent] = append(op.required[parent], path[len(at)])
		}
		if below, deeper := structIn(f); below.IsValid() && p.anyRequired(input, below) {
			inner := path[:len(at)+1]
			if deeper {
				inner = path[:len(at)+1+slices.Index(path[len(at)+1:], "N")+1]
			}
			if err := s.require(below, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// anyRequired reports whether a field below a struct is required: the SDK then refuses an input where all of it is empty.
func (p probe) anyRequired(input any, v reflect.Value) bool {
	full := reflect.New(v.Type()).Elem()
	full.Set(v)
	hollow(v)
	_, refused, err := p.capture(input)
	v.Set(full)
	return refused || err != nil
}

// hollow empties a struct and the structs in it.
func hollow(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		below, inList := structIn(f)
		if !below.IsValid() {
			f.SetZero()
			continue
		}
		empty := reflect.New(below.Type())
		empty.Elem().Set(below)
		hollow(empty.Elem())
		switch {
		case inList:
			list := reflect.MakeSlice(f.Type(), 1, 1)
			if f.Type().Elem().Kind() == reflect.Pointer {
				list.Index(0).Set(empty)
			} else {
				list.Index(0).Set(empty.Elem())
			}
			f.Set(list)
		case f.Kind() == reflect.Pointer:
			f.Set(empty)
		default:
			f.Set(empty.Elem())
		}
	}
}

// structIn returns the struct to which a field points, or which its list holds (inList).
func structIn(f reflect.Value) (_ reflect.Value, inList bool) {
	if f.Kind() == reflect.Slice && f.Len() > 0 {
		inList, f = true, f.Index(0)
	}
	if f.Kind() == reflect.Pointer {
		f = f.Elem()
	}
	if f.Kind() != reflect.Struct || isTime(f) {
		return reflect.Value{}, false
	}
	return f, inList
}

// fieldPath returns the path on the wire of any value below a field that is deeper than depth; nil where no value identifies
// the field.
func fieldPath(f reflect.Value, m *marks, paths map[string][]string, depth int) []string {
	for _, text := range m.below(f) {
		if path := paths[text]; len(path) > depth {
			return path
		}
	}
	return nil
}

package wire

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Params are the parameters of a Query request as a tree of the parts of their names: Filter.1.Value.2 is the second Value
// of the first Filter. The zero value is empty.
type Params struct{ node *node }

type node struct {
	value    string
	set      bool
	children map[string]*node
}

// NewParams reads the parameters of a form.
func NewParams(form url.Values) Params {
	root := &node{}
	for name, values := range form {
		n := root
		for part := range strings.SplitSeq(name, ".") {
			n = n.child(part)
		}
		n.value, n.set = values[0], true
	}
	return Params{root}
}

func (n *node) child(name string) *node {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	c := n.children[name]
	if c == nil {
		c = &node{}
		n.children[name] = c
	}
	return c
}

// At returns the parameters below the name, which may have several parts separated by dots.
func (p Params) At(name string) Params {
	n := p.node
	for part := range strings.SplitSeq(name, ".") {
		if n == nil {
			return Params{}
		}
		n = n.children[part]
	}
	return Params{n}
}

// Value returns the parameter's own value; empty where it has none.
func (p Params) Value() string {
	if p.node == nil {
		return ""
	}
	return p.node.value
}

// Given reports whether the request has the parameter, or any below it.
func (p Params) Given() bool { return p.node != nil && (p.node.set || len(p.node.children) > 0) }

// Get returns the value of a parameter; empty where it is not given.
func (p Params) Get(name string) string { return p.At(name).Value() }

// Names returns the names below, sorted.
func (p Params) Names() []string {
	if p.node == nil {
		return nil
	}
	out := make([]string, 0, len(p.node.children))
	for name := range p.node.children {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Each returns the members of a list in order: NAME.1, NAME.2, or NAME.member.1 as in IAM.
func (p Params) Each(name string) []Params {
	list := p.At(name)
	if member := list.At("member"); member.Given() {
		list = member
	}
	var numbers []int
	for _, key := range list.Names() {
		if i, err := strconv.Atoi(key); err == nil {
			numbers = append(numbers, i)
		}
	}
	slices.Sort(numbers)
	out := make([]Params, 0, len(numbers))
	for _, i := range numbers {
		out = append(out, list.At(strconv.Itoa(i)))
	}
	return out
}

// Strings returns the values of a list.
func (p Params) Strings(name string) []string {
	var out []string
	for _, member := range p.Each(name) {
		out = append(out, member.Value())
	}
	return out
}

// Int returns the number of a parameter, or the default where it is not given.
func (p Params) Int(name string, absent int) (int, error) {
	text := p.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It is not a number", text, name)
	}
	return n, nil
}

// Bool reports whether a parameter is true.
func (p Params) Bool(name string) bool { return strings.EqualFold(p.Get(name), "true") }

// Require returns EC2's error for the first of the names that is not given.
func (p Params) Require(names ...string) error {
	for _, name := range names {
		if !p.At(name).Given() {
			return Errorf("MissingParameter", "The request must contain the parameter %s", name)
		}
	}
	return nil
}

// Tags reads a list of tags.
func (p Params) Tags(name string) map[string]string {
	out := map[string]string{}
	for _, tag := range p.Each(name) {
		out[tag.Get("Key")] = tag.Get("Value")
	}
	return out
}

// All lists the parameters that have a value, by their full names.
func (p Params) All() map[string]string {
	out := map[string]string{}
	p.collect(out, "")
	return out
}

func (p Params) collect(out map[string]string, name string) {
	if p.node == nil {
		return
	}
	if p.node.set {
		out[name] = p.node.value
	}
	for child := range p.node.children {
		p.At(child).collect(out, strings.TrimPrefix(name+"."+child, "."))
	}
}

// String returns the parameters for a log or a comparison: sorted, one NAME=VALUE after the other.
func (p Params) String() string {
	var b strings.Builder
	p.write(&b, "")
	return b.String()
}

func (p Params) write(b *strings.Builder, name string) {
	if p.node == nil {
		return
	}
	if p.node.set {
		fmt.Fprintf(b, "%s=%q ", name, p.node.value)
	}
	for _, child := range p.Names() {
		p.At(child).write(b, strings.TrimPrefix(name+"."+child, "."))
	}
}

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Policy is a policy document.
type Policy struct{ statements []statement }

// With returns the policy of an identity that has both documents.
func (p Policy) With(other Policy) Policy {
	return Policy{slices.Concat(p.statements, other.statements)}
}

// statement is one of a policy's.
type statement struct {
	deny       bool
	actions    patterns
	resources  patterns
	conditions []condition
}

// patterns are alternatives; inverted for NotAction and NotResource.
type patterns struct {
	list     []*regexp.Regexp
	inverted bool
}

func (p patterns) match(s string) bool {
	return slices.ContainsFunc(p.list, func(r *regexp.Regexp) bool { return r.MatchString(s) }) != p.inverted
}

// Request is one question of a call: may this be done with that.
type Request struct {
	// Action such as ec2:RunInstances.
	Action string
	// Resource is an ARN, or * where the action has none.
	Resource string
	// Context holds the values of condition keys, such as aws:RequestTag/Name; a key that is missing is not there.
	Context map[string][]string
}

// Decision is the answer.
type Decision int

// The decisions.
const (
	// Denied by default: no statement allows it.
	Denied Decision = iota
	// Allowed by a statement, and denied by none.
	Allowed
	// ExplicitlyDenied by a statement.
	ExplicitlyDenied
)

// Decide says whether the policy allows what is asked.
func (p Policy) Decide(r Request) Decision {
	out := Denied
	for _, s := range p.statements {
		if !s.actions.match(strings.ToLower(r.Action)) || !s.resources.match(r.Resource) {
			continue
		}
		if !slices.ContainsFunc(s.conditions, func(c condition) bool { return !c.holds(r.Context) }) {
			if s.deny {
				return ExplicitlyDenied
			}
			out = Allowed
		}
	}
	return out
}

// texts is one text or a list of them.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one any
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	list, ok := one.([]any)
	if !ok {
		list = []any{one}
	}
	for _, v := range list {
		switch v := v.(type) {
		case string:
			*t = append(*t, v)
		case bool:
			*t = append(*t, fmt.Sprint(v))
		default:
			return fmt.Errorf("%s is neither a text nor a list of texts", data)
		}
	}
	return nil
}

type document struct {
	Version   string
	ID        string `json:"Id"`
	Statement []statementDocument
}

type statementDocument struct {
	Sid, Effect           string
	Action, NotAction     texts
	Resource, NotResource texts
	Condition             map[string]map[string]texts
}

// Parse reads a policy document.
func Parse(data []byte) (Policy, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var doc document
	if err := decoder.Decode(&doc); err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	if doc.Version != "2012-10-17" {
		return Policy{}, fmt.Errorf("policy: Version %q is not 2012-10-17", doc.Version)
	}
	var out Policy
	for i, d := range doc.Statement {
		s, err := d.read()
		if err != nil {
			return Policy{}, fmt.Errorf("policy: statement %d %s: %w", i, d.Sid, err)
		}
		out.statements = append(out.statements, s)
	}
	if len(out.statements) == 0 {
		return Policy{}, errors.New("policy: there is no statement")
	}
	return out, nil
}

func (d statementDocument) read() (statement, error) {
	s := statement{deny: d.Effect == "Deny"}
	if d.Effect != "Allow" && d.Effect != "Deny" {
		return s, fmt.Errorf("element Effect: %q is neither Allow nor Deny", d.Effect)
	}
	var err error
	if s.actions, err = readPatterns("Action", d.Action, d.NotAction, strings.ToLower); err != nil {
		return s, err
	}
	same := func(s string) string { return s }
	if s.resources, err = readPatterns("Resource", d.Resource, d.NotResource, same); err != nil {
		return s, err
	}
	for operator, keys := range d.Condition {
		for key, values := range keys {
			c, err := readCondition(operator, key, values)
			if err != nil {
				return s, err
			}
			s.conditions = append(s.conditions, c)
		}
	}
	return s, nil
}

func readPatterns(name string, list, not texts, change func(string) string) (patterns, error) {
	if (len(list) == 0) == (len(not) == 0) {
		return patterns{}, fmt.Errorf("want either %s or Not%s", name, name)
	}
	out := patterns{inverted: len(not) > 0}
	for _, text := range slices.Concat(list, not) {
		if strings.Contains(text, "${") {
			return out, fmt.Errorf("%s %q: policy variables are not known here", name, text)
		}
		out.list = append(out.list, glob(change(text)))
	}
	return out, nil
}

// glob is a pattern in which * stands for any characters and ? for one.
func glob(text string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(text)
	return regexp.MustCompile(`(?s)\A` + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted) + `\z`)
}

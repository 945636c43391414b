package aws

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// template is a launch template with one version, which is the latest and the default one.
type template struct {
	id, name, description string
	created               time.Time
	tags                  map[string]string
	data                  wire.Params
}

// templates holds the launch templates by id.
type templates struct {
	mu   sync.Mutex
	byID map[string]*template
	dice *dice
}

func newTemplates(d *dice) *templates { return &templates{byID: map[string]*template{}, dice: d} }

func (s *templates) create(t template) (template, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.byID {
		if old.name == t.name {
			return template{}, wire.Errorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
	}
	t.id, t.created = s.dice.id("lt"), time.Now()
	s.byID[t.id] = &t
	return t, nil
}

// find returns the template with the LaunchTemplateId or LaunchTemplateName of the parameters.
func (s *templates) find(p wire.Params) (template, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.lookup(p)
	if err != nil {
		return template{}, err
	}
	return t.copy(), nil
}

func (t *template) copy() template {
	out := *t
	out.tags = maps.Clone(t.tags)
	return out
}

// lookup does what find does. The caller holds s.mu.
func (s *templates) lookup(p wire.Params) (*template, error) {
	id, name := p.Get("LaunchTemplateId"), p.Get("LaunchTemplateName")
	switch {
	case id == "" && name == "":
		return nil, wire.Errorf("MissingParameter", "Either a launch template name or a launch template ID must be specified.")
	case id != "" && name != "":
		return nil, wire.Errorf("InvalidParameterCombination", "Either a launch template name or a launch template ID must be specified, not both.")
	}
	if t, ok := s.byID[id]; ok {
		return t, nil
	}
	for _, t := range s.byID {
		if name != "" && t.name == name {
			return t, nil
		}
	}
	if name != "" {
		return nil, wire.Errorf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
	}
	return nil, wire.Errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

func (s *templates) delete(p wire.Params) (template, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.lookup(p)
	if err != nil {
		return template{}, err
	}
	delete(s.byID, t.id)
	return t.copy(), nil
}

func (s *templates) list() []template {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []template
	for _, t := range s.byID {
		out = append(out, t.copy())
	}
	return out
}

func (s *templates) tag(id string, change func(map[string]string)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.byID[id]
	if ok {
		change(t.tags)
	}
	return ok
}

// checkVersion returns an error for versions other than the only one.
func checkVersion(t template, version string) error {
	if slices.Contains([]string{"", "$Latest", "$Default", "1"}, version) {
		return nil
	}
	if _, err := strconv.Atoi(version); err != nil {
		return wire.Errorf("InvalidLaunchTemplateId.VersionMalformed", "The launch template version %s is malformed", version)
	}
	return wire.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.id)
}

// tokens remembers the requests and responses of calls with a client token.
type tokens struct {
	mu    sync.Mutex
	calls map[string]*tokenCall
}

type tokenCall struct {
	mu      sync.Mutex
	request string
	done    bool
	result  any
}

func newTokens() *tokens { return &tokens{calls: map[string]*tokenCall{}} }

// once runs a call with a token only the first time, and returns the same result afterwards, also to a call that arrives
// while the first runs. A call that failed may be repeated (EC2 API reference, "Ensuring idempotency").
func (t *tokens) once(token, request string, do func() (any, error)) (result any, err error) {
	if token == "" {
		return do()
	}
	t.mu.Lock()
	call := t.calls[token]
	if call == nil {
		call = &tokenCall{request: request}
		t.calls[token] = call
	}
	t.mu.Unlock()
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.done {
		if call.request != request {
			return nil, wire.Errorf("IdempotentParameterMismatch", "The request uses the same client token as a previous, but non-identical request.")
		}
		return call.result, nil
	}
	result, err = do()
	if err == nil {
		call.request, call.result, call.done = request, result, true
	}
	return result, err
}

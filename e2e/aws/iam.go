package aws

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// instanceProfile gives its role to instances.
type instanceProfile struct {
	name, path, id string
	role           string
	created        time.Time
	tags           map[string]string
}

// iamStore holds roles and instance profiles.
type iamStore struct {
	mu       sync.Mutex
	roles    map[string]bool
	profiles map[string]*instanceProfile
}

func newIAMStore(cfg *Config) *iamStore {
	s := &iamStore{roles: map[string]bool{}, profiles: map[string]*instanceProfile{}}
	for _, role := range cfg.Roles {
		s.roles[role] = true
	}
	return s
}

func (s *iamStore) hasProfile(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profiles[name] != nil
}

// describe returns a profile's path and tags; empty where it does not exist.
func (s *iamStore) describe(name string) (path string, tags map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.profiles[name]; p != nil {
		return p.path, maps.Clone(p.tags)
	}
	return "", nil
}

// roleOf returns the role of a profile.
func (s *iamStore) roleOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.profiles[name]; p != nil {
		return p.role
	}
	return ""
}

func (s *Server) iamARN(resource string) string {
	return "arn:aws:iam::" + s.cfg.AccountID + ":" + resource
}

func (s *Server) iamActions() map[string]action {
	return map[string]action{
		"CreateInstanceProfile":         s.createInstanceProfile,
		"GetInstanceProfile":            s.getInstanceProfile,
		"DeleteInstanceProfile":         s.deleteInstanceProfile,
		"ListInstanceProfiles":          s.listInstanceProfiles,
		"TagInstanceProfile":            s.tagInstanceProfile,
		"AddRoleToInstanceProfile":      s.addRoleToInstanceProfile,
		"RemoveRoleFromInstanceProfile": s.removeRoleFromInstanceProfile,
		"GetRole":                       s.getRole,
		"CreateRole":                    s.createRole,
	}
}

// The XML of IAM's responses.
type (
	roleXML struct {
		Path, RoleName, Arn, CreateDate string
		RoleID                          string `xml:"RoleId"`
		AssumeRolePolicyDocument        string
	}
	iamTagXML struct{ Key, Value string }

	profileXML struct {
		Path, InstanceProfileName, Arn, CreateDate string

		ID string `xml:"InstanceProfileId"`

		Roles wire.Members[roleXML]
		Tags  wire.Members[iamTagXML]
	}
	profileResult struct{ InstanceProfile profileXML }
)

func (s *Server) roleShape(name string) roleXML {
	return roleXML{
		Path: "/", RoleName: name, RoleID: "AROA" + strings.ToUpper(fixedID("x", name)[3:19]), Arn: s.iamARN("role/" + name),
		CreateDate:               wire.Timestamp(s.started),
		AssumeRolePolicyDocument: "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Principal%22%3A%7B%22Service%22%3A%22ec2.amazonaws.com%22%7D%2C%22Action%22%3A%22sts%3AAssumeRole%22%7D%5D%7D",
	}
}

// profileShape returns the XML of a profile. Lists have no tags, as in IAM.
func (s *Server) profileShape(p *instanceProfile, tags bool) profileXML {
	out := profileXML{
		Path: p.path, InstanceProfileName: p.name, ID: p.id,
		Arn: s.iamARN("instance-profile" + p.path + p.name), CreateDate: wire.Timestamp(p.created),
	}
	if p.role != "" {
		out.Roles.Members = append(out.Roles.Members, s.roleShape(p.role))
	}
	if tags {
		for _, key := range slices.Sorted(maps.Keys(p.tags)) {
			out.Tags.Members = append(out.Tags.Members, iamTagXML{key, p.tags[key]})
		}
	}
	return out
}

func noProfile(name string) error {
	return wire.Errorf("NoSuchEntity", "Instance Profile %s cannot be found.", name).WithStatus(http.StatusNotFound)
}

// profile returns the profile that the call names. The caller holds the store's lock.
func (s *Server) profile(p wire.Params) (*instanceProfile, error) {
	name := p.Get("InstanceProfileName")
	if name == "" {
		return nil, wire.Errorf("ValidationError", "1 validation error detected: Value null at 'instanceProfileName' failed to satisfy constraint: Member must not be null")
	}
	found := s.iam.profiles[name]
	if found == nil {
		return nil, noProfile(name)
	}
	return found, nil
}

func (s *Server) createInstanceProfile(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	name := r.Params.Get("InstanceProfileName")
	switch {
	case name == "" || len(name) > 128:
		return nil, wire.Errorf("ValidationError", "1 validation error detected: Value '%s' at 'instanceProfileName' failed to satisfy constraint: Member must have length between 1 and 128", name)
	case s.iam.profiles[name] != nil:
		return nil, wire.Errorf("EntityAlreadyExists", "Instance Profile %s already exists.", name).WithStatus(http.StatusConflict)
	}
	p := &instanceProfile{
		name: name, path: cmp.Or(r.Params.Get("Path"), "/"), id: "AIPA" + strings.ToUpper(s.dice.hex(16)),
		created: time.Now(), tags: r.Params.Tags("Tags"),
	}
	s.iam.profiles[name] = p
	return profileResult{s.profileShape(p, true)}, nil
}

func (s *Server) getInstanceProfile(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	p, err := s.profile(r.Params)
	if err != nil {
		return nil, err
	}
	return profileResult{s.profileShape(p, true)}, nil
}

func (s *Server) deleteInstanceProfile(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	p, err := s.profile(r.Params)
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, wire.Errorf("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.").WithStatus(http.StatusConflict)
	}
	delete(s.iam.profiles, p.name)
	return wire.Empty{}, nil
}

func (s *Server) listInstanceProfiles(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	var found []profileXML
	for _, p := range s.iam.profiles {
		if strings.HasPrefix(p.path, cmp.Or(r.Params.Get("PathPrefix"), "/")) {
			found = append(found, s.profileShape(p, false))
		}
	}
	size, err := r.Params.Int("MaxItems", 100)
	if err != nil {
		return nil, err
	}
	page, next, err := wire.PageFrom(found, size, r.Params.Get("Marker"), func(p profileXML) string { return p.InstanceProfileName })
	if err != nil {
		return nil, err
	}
	return struct {
		InstanceProfiles wire.Members[profileXML]
		IsTruncated      bool
		Marker           string `xml:",omitempty"`
	}{wire.Members[profileXML]{Members: page}, next != "", next}, nil
}

func (s *Server) tagInstanceProfile(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	p, err := s.profile(r.Params)
	if err != nil {
		return nil, err
	}
	maps.Copy(p.tags, r.Params.Tags("Tags"))
	return wire.Empty{}, nil
}

func noRole(name string) error {
	return wire.Errorf("NoSuchEntity", "The role with name %s cannot be found.", name).WithStatus(http.StatusNotFound)
}

// validRoleName matches what IAM accepts as RoleName: a role's path is no part of it (IAM API reference, AddRoleToInstanceProfile).
var validRoleName = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)

func (s *Server) addRoleToInstanceProfile(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	p, err := s.profile(r.Params)
	if err != nil {
		return nil, err
	}
	role := r.Params.Get("RoleName")
	switch {
	case !validRoleName.MatchString(role):
		return nil, wire.Errorf("ValidationError", "The specified value for roleName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	case !s.iam.roles[role]:
		return nil, noRole(role)
	case p.role != "":
		return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1").WithStatus(http.StatusConflict)
	}
	p.role = role
	return wire.Empty{}, nil
}

func (s *Server) removeRoleFromInstanceProfile(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	p, err := s.profile(r.Params)
	if err != nil {
		return nil, err
	}
	if role := r.Params.Get("RoleName"); p.role != role {
		return nil, noRole(role)
	}
	p.role = ""
	return wire.Empty{}, nil
}

func (s *Server) getRole(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	name := r.Params.Get("RoleName")
	if !s.iam.roles[name] {
		return nil, noRole(name)
	}
	return struct{ Role roleXML }{s.roleShape(name)}, nil
}

func (s *Server) createRole(_ context.Context, r request) (any, error) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	name := r.Params.Get("RoleName")
	if s.iam.roles[name] {
		return nil, wire.Errorf("EntityAlreadyExists", "Role with name %s already exists.", name).WithStatus(http.StatusConflict)
	}
	s.iam.roles[name] = true
	return struct{ Role roleXML }{s.roleShape(name)}, nil
}

func (s *Server) stsActions() map[string]action {
	return map[string]action{
		"GetCallerIdentity": func(context.Context, request) (any, error) {
			return struct {
				Arn     string
				UserID  string `xml:"UserId"`
				Account string
			}{s.iamARN("user/sandbox"), "AIDASANDBOXSANDBOXSAN", s.cfg.AccountID}, nil
		},
	}
}

package aws

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// policies holds the policies of access keys. A key without one may do everything.
type policies struct {
	mu    sync.Mutex
	byKey map[string]policy.Policy
}

func newPolicies(all map[string]policy.Policy) *policies {
	p := &policies{byKey: map[string]policy.Policy{}}
	maps.Copy(p.byKey, all)
	return p
}

func (p *policies) of(accessKey string) (policy.Policy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.byKey[accessKey]
	return found, ok
}

// SetPolicy limits the access key to what the policy allows from now on; nil allows everything.
func (s *Server) SetPolicy(accessKey string, p *policy.Policy) {
	s.policies.mu.Lock()
	defer s.policies.mu.Unlock()
	if p == nil {
		delete(s.policies.byKey, accessKey)
		return
	}
	s.policies.byKey[accessKey] = *p
}

// need is one permission that a call requires.
type need = policy.Request

// authorize returns an error for the first permission that the call requires and its caller lacks.
func (s *Server) authorize(r request) error {
	p, restricted := s.policies.of(r.AccessKey)
	if !restricted {
		return nil
	}
	for _, n := range s.needs(r) {
		if err := s.decide(p, r.Service, n); err != nil {
			return err
		}
	}
	return nil
}

// decide returns nil where the policy grants the permission, else the service's error.
func (s *Server) decide(p policy.Policy, service string, n need) *wire.Error {
	why := "no identity-based policy allows the " + n.Action + " action"
	switch p.Decide(n) {
	case policy.Allowed:
		return nil
	case policy.ExplicitlyDenied:
		why = "of an explicit deny in an identity-based policy"
	case policy.Denied:
	}
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because %s", s.iamARN("user/sandbox"), n.Action, n.Resource, why)
	switch service {
	case wire.EC2:
		return wire.Errorf("UnauthorizedOperation", "You are not authorized to perform this operation. %s", text).WithStatus(http.StatusForbidden)
	case wire.IAM, wire.STS:
		return wire.Errorf("AccessDenied", "%s", text).WithStatus(http.StatusForbidden)
	case wire.SQS:
		denied := wire.Errorf("AccessDeniedException", "%s", text).WithStatus(http.StatusForbidden)
		denied.QueryCode = "AccessDenied"
		return denied
	}
	return wire.Errorf("AccessDeniedException", "%s", text)
}

// needs returns the permissions that a call requires (service authorization reference).
func (s *Server) needs(r request) []need {
	switch r.Service {
	case wire.EC2:
		return s.ec2Needs(r)
	case wire.IAM:
		return s.iamNeeds(r)
	case wire.SQS:
		return []need{s.need("sqs:"+r.Action, s.queueARN(r))}
	case wire.SSM:
		return s.ssmNeeds(r)
	case wire.EKS:
		return []need{s.need("eks:DescribeCluster", s.arn("eks", "cluster/"+strings.TrimPrefix(r.Action, http.MethodGet+" /clusters/")))}
	case wire.ZonalShift:
		arn := strings.TrimPrefix(r.Action, http.MethodGet+managedResources)
		return []need{s.need("arc-zonal-shift:GetManagedResource", "*", map[string]string{"arc-zonal-shift:ResourceIdentifier": arn})}
	case wire.STS:
		// Every caller may read its own identity.
		return nil
	}
	return []need{s.need(r.Service+":"+r.Action, "*")}
}

// need returns a permission in this region. context holds condition keys with one value each.
func (s *Server) need(action, resource string, context ...map[string]string) need {
	n := need{Action: action, Resource: resource, Context: map[string][]string{"aws:RequestedRegion": {s.cfg.Region}}}
	for _, of := range context {
		for key, value := range of {
			n.Context[key] = []string{value}
		}
	}
	return n
}

func (s *Server) arn(service, resource string) string {
	return "arn:aws:" + service + ":" + s.cfg.Region + ":" + s.cfg.AccountID + ":" + resource
}

// keyed returns tags as condition keys.
func keyed(prefix string, tags map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range tags {
		out[prefix+"/"+key] = value
	}
	return out
}

func resourceTags(tags map[string]string) map[string]string { return keyed("aws:ResourceTag", tags) }

// tagged returns the permission with the tags that the request gives the resource.
func tagged(n need, tags map[string]string) need {
	if len(tags) > 0 {
		n.Context["aws:TagKeys"] = slices.Sorted(maps.Keys(tags))
	}
	for key, value := range keyed("aws:RequestTag", tags) {
		n.Context[key] = []string{value}
	}
	return n
}

func (s *Server) queueARN(r request) string {
	in, err := readSQS(r)
	if err != nil || in.QueueName == "" && in.QueueURL == "" {
		return s.arn("sqs", "*")
	}
	if in.QueueName != "" {
		return s.arn("sqs", in.QueueName)
	}
	return s.arn("sqs", in.QueueURL[strings.LastIndexByte(in.QueueURL, '/')+1:])
}

func (s *Server) ssmNeeds(r request) []need {
	var in struct {
		Name, Path string
		Names      []string
	}
	if err := r.Decode(&in); err != nil {
		return nil
	}
	var out []need
	for _, name := range slices.Concat([]string{in.Name, in.Path}, in.Names) {
		if name == "" {
			continue
		}
		if _, path, ok := strings.Cut(name, ":parameter/"); ok {
			name = "/" + path
		}
		out = append(out, s.need("ssm:"+r.Action, "arn:aws:ssm:"+s.cfg.Region+"::parameter"+name))
	}
	return out
}

func (s *Server) iamNeeds(r request) []need {
	action, name := "iam:"+r.Action, r.Params.Get("InstanceProfileName")
	if r.Action == "ListInstanceProfiles" {
		return []need{s.need(action, s.iamARN("instance-profile"+r.Params.Get("PathPrefix")+"*"))}
	}
	if name == "" {
		return []need{s.need(action, s.iamARN("role/"+r.Params.Get("RoleName")))}
	}
	path, tags := s.iam.describe(name)
	if path == "" {
		path = r.Params.Get("Path")
	}
	if path == "" {
		path = "/"
	}
	out := []need{tagged(s.need(action, s.iamARN("instance-profile"+path+name), resourceTags(tags)), r.Params.Tags("Tags"))}
	if r.Action == "AddRoleToInstanceProfile" {
		out = append(out, s.passRole(r.Params.Get("RoleName")))
	}
	return out
}

func (s *Server) passRole(role string) need {
	return s.need("iam:PassRole", s.iamARN("role/"+role), map[string]string{"iam:PassedToService": "ec2.amazonaws.com"})
}

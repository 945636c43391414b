package aws

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// retagged holds the changed tags of what exists from the start.
type retagged struct {
	mu   sync.Mutex
	byID map[string]map[string]string
}

// of returns a copy of the tags of a resource: base, unless they were changed.
func (r *retagged) of(id string, base map[string]string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed, ok := r.byID[id]; ok {
		return maps.Clone(changed)
	}
	return maps.Clone(base)
}

func (r *retagged) change(id string, base map[string]string, change func(map[string]string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]map[string]string{}
	}
	if r.byID[id] == nil {
		r.byID[id] = map[string]string{}
		maps.Copy(r.byID[id], base)
	}
	change(r.byID[id])
}

// networkTags returns the original tags of a subnet or a security group.
func (s *Server) networkTags(id string) (map[string]string, bool) {
	if n, ok := s.resources.subnet(id); ok {
		return n.Tags, true
	}
	if g, ok := s.resources.group(id); ok && g.ID == id {
		return g.Tags, true
	}
	return nil, false
}

// taggable changes the tags of a resource; false if it does not exist.
func (s *Server) taggable(id string, change func(map[string]string)) bool {
	if strings.HasPrefix(id, "lt-") {
		return s.templates.tag(id, change)
	}
	if base, ok := s.networkTags(id); ok {
		s.retagged.change(id, base, change)
		return true
	}
	m, ok := s.instances.get(id)
	if !ok || m.State == StateTerminated {
		return false
	}
	s.instances.change(id, func(m *machine) { m.retag(change, time.Now(), s.tagsAfter()) })
	return true
}

// tagsOf returns a copy of a resource's tags.
func (s *Server) tagsOf(id string) (tags map[string]string, ok bool) {
	tags = map[string]string{}
	if strings.HasPrefix(id, "lt-") {
		return tags, s.templates.tag(id, func(have map[string]string) { maps.Copy(tags, have) })
	}
	if base, ok := s.networkTags(id); ok {
		return s.retagged.of(id, base), true
	}
	m, ok := s.instances.get(id)
	maps.Copy(tags, m.Tags)
	return tags, ok && m.State != StateTerminated
}

const maxTags = 50

func (s *Server) createTags(_ context.Context, r request) (any, error) {
	tags := r.Params.Tags("Tag")
	if err := r.Params.Require("ResourceId", "Tag"); err != nil {
		return nil, err
	}
	for key := range tags {
		if strings.HasPrefix(strings.ToLower(key), "aws:") {
			return nil, wire.Errorf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		}
	}
	return s.changeTags(r, func(have map[string]string) { maps.Copy(have, tags) })
}

func (s *Server) deleteTags(_ context.Context, r request) (any, error) {
	if err := r.Params.Require("ResourceId"); err != nil {
		return nil, err
	}
	given := r.Params.Each("Tag")
	return s.changeTags(r, func(have map[string]string) {
		maps.DeleteFunc(have, func(key, value string) bool {
			return len(given) == 0 && !strings.HasPrefix(key, "aws:") || slices.ContainsFunc(given, func(t wire.Params) bool {
				return t.Get("Key") == key && (!t.At("Value").Given() || t.Get("Value") == value)
			})
		})
	})
}

// changeTags changes the tags of all resources of the call. It changes none if one is missing or would have too many.
func (s *Server) changeTags(r request, change func(map[string]string)) (any, error) {
	ids := r.Params.Strings("ResourceId")
	for _, id := range ids {
		tried, ok := s.tagsOf(id)
		if !ok {
			return nil, unknownResource(id)
		}
		change(tried)
		if len(tried) > maxTags {
			return nil, wire.Errorf("TagLimitExceeded", "The maximum number of %d tags for resource %s has been reached", maxTags, id)
		}
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	for _, id := range ids {
		s.taggable(id, change)
	}
	return wire.Return{Return: true}, nil
}

func unknownResource(id string) error {
	switch {
	case strings.HasPrefix(id, "i-"):
		return noInstance(id)
	case strings.HasPrefix(id, "lt-"):
		return wire.Errorf("InvalidLaunchTemplateId.NotFound", "The launch template ID '%s' does not exist", id)
	}
	return wire.Errorf("InvalidID", "The ID '%s' is not valid", id)
}

type tagDescription struct {
	ResourceID   string `xml:"resourceId"`
	ResourceType string `xml:"resourceType"`
	Key          string `xml:"key"`
	Value        string `xml:"value"`
}

func (s *Server) describeTags(_ context.Context, r request) (any, error) {
	var found []tagDescription
	add := func(id, kind string, tags map[string]string) {
		for key, value := range tags {
			found = append(found, tagDescription{id, kind, key, value})
		}
	}
	add(s.resources.VPC.ID, "vpc", s.resources.VPC.Tags)
	for _, n := range s.resources.Subnets {
		add(n.ID, "subnet", s.retagged.of(n.ID, n.Tags))
	}
	for _, g := range s.resources.SecurityGroups {
		add(g.ID, "security-group", s.retagged.of(g.ID, g.Tags))
	}
	for _, t := range s.templates.list() {
		add(t.id, "launch-template", t.tags)
	}
	for _, m := range s.visibleInstances() {
		add(m.ID, "instance", m.tagsNow(time.Now()))
	}
	page, next, err := listOf[tagDescription]{
		items: found, key: func(t tagDescription) string { return t.ResourceID + "/" + t.Key },
		attributes: func(t tagDescription) wire.Attribute {
			return wire.Tagged(map[string]string{t.Key: t.Value}, fixed(map[string]string{
				"key": t.Key, "value": t.Value, "resource-id": t.ResourceID, "resource-type": t.ResourceType,
			}))
		},
		pages: wire.Pages{Min: 5, Max: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	return struct {
		Set  wire.Set[tagDescription] `xml:"tagSet"`
		Next string                   `xml:"nextToken,omitempty"`
	}{wire.NewSet(page...), next}, nil
}

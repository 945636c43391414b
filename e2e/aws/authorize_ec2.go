package aws

import (
	"maps"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// launchedKinds returns the types of resources that are created with an instance.
func launchedKinds(capacityType string) []string {
	kinds := []string{"instance", "volume", "network-interface"}
	if capacityType == Spot {
		kinds = append(kinds, "spot-instances-request")
	}
	return kinds
}

func (s *Server) ec2Needs(r request) []need {
	action := "ec2:" + r.Action
	switch r.Action {
	case "CreateFleet":
		return s.fleetNeeds(r.Params)
	case "RunInstances":
		return s.runNeeds(r.Params)
	case "CreateLaunchTemplate":
		tags := specifiedTags(r.Params, "launch-template")
		template := s.arn(wire.EC2, "launch-template/*")
		return append([]need{tagged(s.need(action, template), tags)}, s.createTagsNeed(r.Action, template, tags)...)
	case "CreateTags", "DeleteTags":
		var out []need
		for _, id := range r.Params.Strings("ResourceId") {
			arn, have := s.describeTagged(id)
			out = append(out, tagged(s.need(action, arn, resourceTags(have)), r.Params.Tags("Tag")))
		}
		return out
	case "TerminateInstances", "StartInstances", "StopInstances":
		var out []need
		for _, id := range r.Params.Strings("InstanceId") {
			arn, have := s.describeTagged(id)
			out = append(out, s.need(action, arn, resourceTags(have)))
		}
		return out
	case "DeleteLaunchTemplate":
		if t, err := s.templates.find(r.Params); err == nil {
			return []need{s.templateNeed(action, t)}
		}
	}
	return []need{s.need(action, "*")}
}

// createTagsNeed returns the permission for tags that a call gives to what it creates; none without tags.
func (s *Server) createTagsNeed(createAction, arn string, tags map[string]string) []need {
	if len(tags) == 0 {
		return nil
	}
	return []need{tagged(s.need("ec2:CreateTags", arn, map[string]string{"ec2:CreateAction": createAction}), tags)}
}

// describeTagged returns a resource's name and the tags that it has.
func (s *Server) describeTagged(id string) (arn string, tags map[string]string) {
	kind, _, _ := strings.Cut(id, "-")
	switch kind {
	case "i":
		m, _ := s.instances.get(id)
		return s.arn(wire.EC2, "instance/"+id), m.Tags
	case "lt":
		tags = map[string]string{}
		s.templates.tag(id, func(have map[string]string) { maps.Copy(tags, have) })
		return s.arn(wire.EC2, "launch-template/"+id), tags
	case "sg":
		g, _ := s.resources.group(id)
		return s.arn(wire.EC2, "security-group/"+id), s.retagged.of(g.ID, g.Tags)
	case "subnet":
		n, _ := s.resources.subnet(id)
		return s.arn(wire.EC2, "subnet/"+id), s.retagged.of(n.ID, n.Tags)
	}
	return s.arn(wire.EC2, kind+"/"+id), nil
}

func (s *Server) templateNeed(action string, t template) need {
	return s.need(action, s.arn(wire.EC2, "launch-template/"+t.id), resourceTags(t.tags))
}

// fleetNeeds returns the permissions that the call itself requires: for the fleet, the launch templates and what is
// launched. The instances are launched in the caller's name. launchNeeds returns the permissions for each pool.
func (s *Server) fleetNeeds(p wire.Params) []need {
	const action = "ec2:CreateFleet"
	fleet, fleetTags := s.arn(wire.EC2, "fleet/*"), specifiedTags(p, "fleet")
	out := append([]need{tagged(s.need(action, fleet), fleetTags)}, s.createTagsNeed("CreateFleet", fleet, fleetTags)...)
	capacityType := p.Get("TargetCapacitySpecification.DefaultTargetCapacityType")
	for _, config := range p.Each("LaunchTemplateConfigs") {
		t, err := s.templates.find(config.At("LaunchTemplateSpecification"))
		if err != nil {
			continue
		}
		out = append(out, s.templateNeed(action, t))
		for _, kind := range launchedKinds(capacityType) {
			out = append(out, tagged(s.need(action, s.arn(wire.EC2, kind+"/*")), launchTagsOf(p, t, kind)))
		}
	}
	return out
}

// launchTagsOf returns the tags that a call and its launch template give to a type of resource.
func launchTagsOf(p wire.Params, t template, kind string) map[string]string {
	tags := specifiedTags(t.data, kind)
	maps.Copy(tags, specifiedTags(p, kind))
	return tags
}

func (s *Server) runNeeds(p wire.Params) []need {
	o, capacityType, err := s.readRun(p)
	if err != nil {
		// The action itself reports the error.
		return nil
	}
	return s.launchNeeds(p, o, capacityType)
}

// launchNeeds returns the permissions for launching instances of a completed override.
func (s *Server) launchNeeds(p wire.Params, o override, capacityType string) []need {
	const action = "ec2:RunInstances"
	var out []need
	if o.template.id != "" {
		out = append(out, s.templateNeed(action, o.template))
	}
	out = append(out, s.need(action, "arn:aws:ec2:"+s.cfg.Region+"::image/"+o.launch.image.ID),
		s.need(action, s.arn(wire.EC2, "subnet/"+o.subnet.ID), resourceTags(s.retagged.of(o.subnet.ID, o.subnet.Tags))))
	for _, g := range s.resources.SecurityGroups {
		if !slices.ContainsFunc(o.launch.nics, func(n hardware.Interface) bool {
			return slices.Contains(n.Groups, hardware.Group{ID: g.ID, Name: g.Name})
		}) {
			continue
		}
		out = append(out, s.need(action, s.arn(wire.EC2, "security-group/"+g.ID), resourceTags(s.retagged.of(g.ID, g.Tags))))
	}
	if id := o.launch.place.Group; id != "" {
		for _, g := range s.placements.List() {
			if g.ID == id {
				out = append(out, s.need(action, s.arn(wire.EC2, "placement-group/"+g.Name), resourceTags(g.Tags)))
			}
		}
	}
	for _, kind := range launchedKinds(capacityType) {
		arn, tags := s.arn(wire.EC2, kind+"/*"), launchTagsOf(p, o.template, kind)
		out = append(out, tagged(s.need(action, arn), tags))
		out = append(out, s.createTagsNeed("RunInstances", arn, tags)...)
	}
	if _, profile, ok := strings.Cut(o.launch.profileARN, ":instance-profile/"); ok {
		if role := s.iam.roleOf(profile); role != "" {
			out = append(out, s.passRole(role))
		}
	}
	return out
}

// denials returns a function with the authorization error of launching from an override. It is nil where the caller may do
// everything.
func (s *Server) denials(r request) func(o override, capacityType string) *wire.Error {
	p, restricted := s.policies.of(r.AccessKey)
	if !restricted {
		return nil
	}
	// Overrides differ little, so most answers are known.
	answered := map[string]*wire.Error{}
	return func(o override, capacityType string) *wire.Error {
		needs := s.launchNeeds(r.Params, o, capacityType)
		i := slices.IndexFunc(needs, func(n need) bool {
			key := n.Action + " " + n.Resource + " " + o.template.id
			if _, known := answered[key]; !known {
				answered[key] = s.decide(p, wire.EC2, n)
			}
			return answered[key] != nil
		})
		if i < 0 {
			return nil
		}
		return s.decide(p, wire.EC2, needs[i])
	}
}

package aws

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"regexp"
	"strings"
	"unicode"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

type templateXML struct {
	ID      string           `xml:"launchTemplateId"`
	Name    string           `xml:"launchTemplateName"`
	Created string           `xml:"createTime"`
	By      string           `xml:"createdBy"`
	Default int              `xml:"defaultVersionNumber"`
	Latest  int              `xml:"latestVersionNumber"`
	Tags    wire.Set[tagXML] `xml:"tagSet"`
}

type templateResult struct {
	Template templateXML `xml:"launchTemplate"`
}

func (s *Server) templateShape(t template) templateXML {
	return templateXML{
		ID: t.id, Name: t.name, Created: wire.Timestamp(t.created), By: s.iamARN("user/sandbox"), Default: 1, Latest: 1, Tags: tagSet(t.tags),
	}
}

// maxUserData is the largest size of user data before encoding (EC2 user guide, "Run commands at launch").
const maxUserData = 16 << 10

func (s *Server) createLaunchTemplate(_ context.Context, r request) (any, error) {
	p := r.Params
	if err := p.Require("LaunchTemplateName", "LaunchTemplateData"); err != nil {
		return nil, err
	}
	name := p.Get("LaunchTemplateName")
	if !templateName.MatchString(name) {
		return nil, wire.Errorf("InvalidLaunchTemplateName.MalformedException", "Launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: ( ) . - / _")
	}
	data := p.At("LaunchTemplateData")
	if err := checkUserData(data.Get("UserData")); err != nil {
		return nil, err
	}
	if data.At("NetworkInterface").Given() && (data.At("SecurityGroupId").Given() || data.At("SecurityGroup").Given()) {
		return nil, wire.Errorf("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
	}
	if err := dryRun(p); err != nil {
		return nil, err
	}
	return s.tokens.once(p.Get("ClientToken"), p.String(), func() (any, error) {
		t, err := s.templates.create(template{
			name: name, description: p.Get("VersionDescription"), tags: specifiedTags(p, "launch-template"), data: data,
		})
		if err != nil {
			return nil, err
		}
		return templateResult{s.templateShape(t)}, nil
	})
}

func checkUserData(text string) error {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return wire.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(decoded) > maxUserData {
		return wire.Errorf("InvalidParameterValue", "User data is limited to %d bytes", maxUserData)
	}
	return nil
}

func (s *Server) deleteLaunchTemplate(_ context.Context, r request) (any, error) {
	if _, err := s.templates.find(r.Params); err != nil {
		return nil, err
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	t, err := s.templates.delete(r.Params)
	if err != nil {
		return nil, err
	}
	return templateResult{s.templateShape(t)}, nil
}

func (s *Server) describeLaunchTemplates(_ context.Context, r request) (any, error) {
	key, idParam := func(t template) string { return t.id }, "LaunchTemplateId"
	if r.Params.At("LaunchTemplateName").Given() {
		key, idParam = func(t template) string { return t.name }, "LaunchTemplateName"
	}
	page, next, err := listOf[template]{
		items: s.templates.list(), key: key, idParam: idParam,
		notFound: func(id string) error {
			if idParam == "LaunchTemplateName" {
				return wire.Errorf("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
			}
			return wire.Errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
		},
		attributes: func(t template) wire.Attribute {
			return wire.Tagged(t.tags, fixed(map[string]string{
				"create-time": wire.Timestamp(t.created), "launch-template-name": t.name, "launch-template-id": t.id,
			}))
		},
		pages: wire.Pages{Min: 1, Max: 200},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[templateXML] `xml:"launchTemplates"`
		Next string                `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, t := range page {
		out.Set.Items = append(out.Set.Items, s.templateShape(t))
	}
	return out, nil
}

type templateVersionXML struct {
	ID          string       `xml:"launchTemplateId"`
	Name        string       `xml:"launchTemplateName"`
	Number      int          `xml:"versionNumber"`
	Description string       `xml:"versionDescription,omitempty"`
	Created     string       `xml:"createTime"`
	By          string       `xml:"createdBy"`
	Default     bool         `xml:"defaultVersion"`
	Data        templateData `xml:"launchTemplateData"`
}

func (s *Server) describeLaunchTemplateVersions(_ context.Context, r request) (any, error) {
	t, err := s.templates.find(r.Params)
	if err != nil {
		return nil, err
	}
	for _, version := range r.Params.Strings("LaunchTemplateVersion") {
		if err := checkVersion(t, version); err != nil {
			return nil, err
		}
	}
	return struct {
		Set wire.Set[templateVersionXML] `xml:"launchTemplateVersionSet"`
	}{wire.NewSet(templateVersionXML{
		ID: t.id, Name: t.name, Number: 1, Description: t.description, Created: wire.Timestamp(t.created), By: s.iamARN("user/sandbox"),
		Default: true, Data: templateData{t.data, ""},
	})}, nil
}

// templateData is written as the request stated it. In the response, names begin with a small letter, and lists have an
// element with items.
type templateData struct {
	wire.Params
	// in is the list to which the parameters belong.
	in string
}

// MarshalXML implements xml.Marshaler.
func (d templateData) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	for _, name := range d.Names() {
		if members := d.Each(name); len(members) > 0 {
			if err := encodeList(e, d.listName(name), members); err != nil {
				return err
			}
			continue
		}
		if err := encodeParam(e, small(name), templateData{d.At(name), ""}); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}

func encodeParam(e *xml.Encoder, name string, p templateData) error {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	if len(p.Names()) > 0 {
		return p.MarshalXML(e, start)
	}
	return e.EncodeElement(p.Value(), start)
}

func encodeList(e *xml.Encoder, name string, members []wire.Params) error {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	item := "item"
	if name == "groupSet" {
		item = "groupId"
	}
	for _, m := range members {
		if err := encodeParam(e, item, templateData{m, name}); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}

func small(name string) string {
	r := []rune(name)
	r[0] = unicode.ToLower(r[0])
	return string(r)
}

// listName returns a list's name in the response: blockDeviceMappingSet for BlockDeviceMapping.
func (d templateData) listName(name string) string {
	if d.in == "networkInterfaceSet" && name == "SecurityGroupId" {
		return "groupSet"
	}
	return small(strings.TrimSuffix(name, "s")) + "Set"
}

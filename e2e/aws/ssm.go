package aws

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

func (s *Server) ssmActions() map[string]action {
	return map[string]action{
		"GetParameter":        s.getParameter,
		"GetParameters":       s.getParameters,
		"GetParametersByPath": s.getParametersByPath,
	}
}

type parameterJSON struct {
	ARN              string  `json:"ARN"`
	DataType         string  `json:"DataType"`
	LastModifiedDate float64 `json:"LastModifiedDate"`
	Name             string  `json:"Name"`
	Type             string  `json:"Type"`
	Value            string  `json:"Value"`
	Version          int     `json:"Version"`
}

func (s *Server) parameterShape(p parameter) parameterJSON {
	return parameterJSON{
		ARN: "arn:aws:ssm:" + s.cfg.Region + "::parameter" + p.name, DataType: "text", LastModifiedDate: wire.EpochSeconds(p.modified),
		Name: p.name, Type: "String", Value: p.value, Version: p.version,
	}
}

// findParameter finds a parameter by its name, by name and :VERSION, or by ARN.
func (s *Server) findParameter(name string) (parameter, error) {
	if _, path, ok := strings.Cut(name, ":parameter/"); ok {
		name = "/" + path
	}
	name, version, _ := strings.Cut(name, ":")
	p, ok := s.images.parameter(name)
	switch {
	case !ok:
		return parameter{}, wire.Errorf("ParameterNotFound", "")
	case version != "" && version != strconv.Itoa(p.version):
		return parameter{}, wire.Errorf("ParameterVersionNotFound", "Systems Manager could not find version %s of %s.", version, name)
	}
	return p, nil
}

func (s *Server) getParameter(_ context.Context, r request) (any, error) {
	var in struct{ Name string }
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	p, err := s.findParameter(in.Name)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Parameter": s.parameterShape(p)}, nil
}

func (s *Server) getParameters(_ context.Context, r request) (any, error) {
	var in struct{ Names []string }
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	const most = 10
	if n := len(in.Names); n == 0 || n > most {
		return nil, wire.Errorf("ValidationException", "1 validation error detected: Value at 'names' failed to satisfy constraint: Member must have length between 1 and %d", most)
	}
	out := struct {
		Parameters        []parameterJSON `json:"Parameters"`
		InvalidParameters []string        `json:"InvalidParameters"`
	}{[]parameterJSON{}, []string{}}
	for _, name := range in.Names {
		if p, err := s.findParameter(name); err == nil {
			out.Parameters = append(out.Parameters, s.parameterShape(p))
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

func (s *Server) getParametersByPath(_ context.Context, r request) (any, error) {
	var in struct {
		Path, NextToken string
		Recursive       bool
		MaxResults      int
	}
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	const most = 10
	if in.MaxResults > most || in.MaxResults < 0 {
		return nil, wire.Errorf("ValidationException", "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must have value less than or equal to %d", in.MaxResults, most)
	}
	path := strings.TrimSuffix(in.Path, "/") + "/"
	var found []parameterJSON
	for _, p := range s.images.below(path) {
		if in.Recursive || !strings.Contains(p.name[len(path):], "/") {
			found = append(found, s.parameterShape(p))
		}
	}
	page, next, err := wire.PageFrom(found, cmp.Or(in.MaxResults, most), in.NextToken, func(p parameterJSON) string { return p.Name })
	if err != nil {
		return nil, err
	}
	if page == nil {
		page = []parameterJSON{}
	}
	return struct {
		Parameters []parameterJSON `json:"Parameters"`
		NextToken  string          `json:"NextToken,omitempty"`
	}{page, next}, nil
}

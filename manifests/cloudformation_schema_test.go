package manifests_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/awslabs/goformation/v7/schema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resolved replaces each function by a string, as CloudFormation does before it validates a property. A string that is a JSON object counts
// as an object: policies have this form in templates with substituted names.
func resolved(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, e := range v {
			if text, ok := e.(string); ok && key == "Fn::Sub" && json.Unmarshal([]byte(text), &out) == nil {
				return out
			}
			if key == "Ref" || strings.HasPrefix(key, "Fn::") {
				return "resolved"
			}
			out[key] = resolved(e)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, resolved(e))
		}
		return out
	}
	return value
}

// resourceSchemas reads CloudFormation's published schema of all resource types, and hands out those of one.
func resourceSchemas(t *testing.T) func(resourceType string) *jsonschema.Schema {
	t.Helper()
	var published struct {
		Definitions map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal([]byte(schema.CloudformationSchema), &published); err != nil {
		t.Fatal(err)
	}
	return func(resourceType string) *jsonschema.Schema {
		t.Helper()
		// Only a part of the 7 MB: a compiler reads everything that it is given.
		own := maps.Clone(published.Definitions)
		maps.DeleteFunc(own, func(name string, _ any) bool {
			return name != resourceType && name != "Tag" && !strings.HasPrefix(name, resourceType+".")
		})
		compiler := jsonschema.NewCompiler()
		document := map[string]any{"$schema": "http://json-schema.org/draft-04/schema#", "definitions": own}
		if err := compiler.AddResource("mem:///cloudformation.json", document); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile("mem:///cloudformation.json#/definitions/" + resourceType)
		if err != nil {
			t.Fatalf("%s: %v", resourceType, err)
		}
		return compiled
	}
}

// Every resource has the properties that CloudFormation's schema of its type asks for, each of its type, and no other.
func TestTemplateMatchesTheSchemaOfItsResources(t *testing.T) {
	in, of := readTemplate(t), resourceSchemas(t)
	for _, name := range slices.Sorted(maps.Keys(in.Resources)) {
		r := in.Resources[name]
		resource := map[string]any{"Type": r.Type, "Properties": resolved(r.Properties)}
		if err := of(r.Type).Validate(resource); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema finds a property that does not exist, one that is missing, and one of another type.
func TestSchemaFindsMistakes(t *testing.T) {
	of := resourceSchemas(t)
	for name, properties := range map[string]map[string]any{
		"not a property": {"MessageRetention": 300},
		"another type":   {"MessageRetentionPeriod": "five minutes"},
	} {
		if of("AWS::SQS::Queue").Validate(map[string]any{"Type": "AWS::SQS::Queue", "Properties": properties}) == nil {
			t.Errorf("%s: a queue with %v is accepted", name, properties)
		}
	}
	if of("AWS::SQS::QueuePolicy").Validate(map[string]any{"Type": "AWS::SQS::QueuePolicy", "Properties": map[string]any{}}) == nil {
		t.Error("a policy without a document and queues is accepted")
	}
}

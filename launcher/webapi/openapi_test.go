package webapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write openapi.json")
	os.Exit(m.Run())
}

// module is the path of the project's module.
const module = "github.com/slipway-k8s/slipway"

// openapi.json describes the paths that are served and the answers' types, with the words of their comments.
func TestDescription(t *testing.T) {
	t.Chdir(filepath.Join("..", "..")) // Comments are read by a package's path from the module's root.
	const path = "launcher/webapi/openapi.json"
	want := describe(t)
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("openapi.json is not what is served (%v): go test ./launcher/webapi -args -rewrite", err)
	}
	for _, fact := range []string{`"openapi": "3.1.0"`, `"/api/v1/namespaces/{namespace}/pods/{name}"`, `"description": "CostPerHour of the launched ones, in USD."`} {
		if !strings.Contains(string(want), fact) {
			t.Errorf("openapi.json lacks %s", fact)
		}
	}
}

// describe returns the description of what a Server serves, as OpenAPI 3.1, whose schemas are JSON Schema.
func describe(t *testing.T) []byte {
	t.Helper()
	reflector := &jsonschema.Reflector{ExpandedStruct: false, AllowAdditionalProperties: true, Mapper: func(of reflect.Type) *jsonschema.Schema {
		if of == reflect.TypeFor[time.Time]() {
			return &jsonschema.Schema{Type: "string", Format: "date-time"}
		}
		return nil
	}}
	for _, folder := range []string{"launcher/webapi", "launcher/view", "launcher/catalog"} {
		if err := reflector.AddGoComments(module, folder); err != nil {
			t.Fatal(err)
		}
	}
	schemas, paths := map[string]any{}, map[string]any{}
	for _, r := range (&Server{}).routes() {
		content := map[string]any{}
		if r.body != nil {
			schema := reflector.Reflect(r.body)
			for name, definition := range schema.Definitions {
				schemas[name] = definition
			}
			content["application/json"] = map[string]any{"schema": map[string]string{"$ref": "#/components/schemas/" + reflect.TypeOf(r.body).Name()}}
		}
		paths[r.path] = map[string]any{"get": map[string]any{
			"summary": r.summary, "parameters": parameters(r),
			"responses": map[string]any{
				"200":     map[string]any{"description": "The answer", "content": content},
				"304":     map[string]any{"description": "The client has it: its If-None-Match is the answer's ETag"},
				"default": map[string]any{"description": "An error, as a metav1.Status of the API server"},
			},
		}}
	}
	data, err := json.MarshalIndent(map[string]any{
		"openapi":  "3.1.0",
		"info":     map[string]string{"title": "slipway", "version": "v1", "description": "What slipway's nodes and pods do. Read only."},
		"security": []any{map[string]any{"token": []string{}}, map[string]any{"certificate": []string{}}},
		"paths":    paths,
		"components": map[string]any{"schemas": schemas, "securitySchemes": map[string]any{
			"token": map[string]string{"type": "http", "scheme": "bearer"}, "certificate": map[string]string{"type": "mutualTLS"},
		}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.ReplaceAll(data, []byte("#/$defs/"), []byte("#/components/schemas/")), '\n')
}

// parameters returns those of a path.
func parameters(r route) []any {
	out := []any{}
	for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(r.path, -1) {
		out = append(out, map[string]any{"name": name[1], "in": "path", "required": true, "schema": map[string]string{"type": "string"}})
	}
	var queries []string
	for name := range r.query {
		queries = append(queries, name)
	}
	slices.Sort(queries)
	for _, name := range queries {
		out = append(out, map[string]any{"name": name, "in": "query", "description": r.query[name], "schema": map[string]string{"type": "string"}})
	}
	return out
}

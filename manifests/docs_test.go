package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"sigs.k8s.io/yaml"
)

// fenced matches the blocks of a language in a page, indented or not.
func fenced(language string) *regexp.Regexp {
	return regexp.MustCompile("(?ms)^ *```" + language + "\n(.*?)^ *```$")
}

// blocksOf are the blocks of a language in the pages that install slipway.
func blocksOf(t *testing.T, language string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, page := range []string{"getting-started.md", "migrate.md"} {
		for i, found := range fenced(language).FindAllStringSubmatch(read(t, filepath.Join("..", "docs", page)), -1) {
			out[fmt.Sprintf("%s, block %d of %s", page, i+1, language)] = found[1]
		}
	}
	if len(out) == 0 {
		t.Fatalf("no page has a block of %s", language)
	}
	return out
}

// What the pages show of Terraform is its language, sets variables that the module has, reads outputs that it has, and gives the chart values that
// it knows.
func TestTerraformOfThePages(t *testing.T) {
	m := readModule(t)
	outputs := map[string]bool{}
	for _, b := range m.blocks {
		if b.Type == "output" {
			outputs[b.Labels[0]] = true
		}
	}
	values := chartValues(t)
	for where, text := range blocksOf(t, "hcl") {
		for _, problem := range problemsOf(text, m.declared, outputs, values) {
			t.Errorf("%s: %s", where, problem)
		}
	}
}

// The check finds what is wrong.
func TestTerraformOfThePagesFindsMistakes(t *testing.T) {
	m := readModule(t)
	for text, want := range map[string]string{
		`module "slipway" {`: "Unclosed configuration block",
		"module \"slipway\" {\n  source = \"x//manifests/terraform\"\n  cluster = 1\n}":                 "the module has no variable cluster",
		"output \"x\" {\n  value = module.slipway.queue\n}":                                             "the module has no output queue",
		"resource \"helm_release\" \"a\" {\n  values = [yamlencode({ settings = { cluster = 1 } })]\n}": "the chart has no value settings.cluster",
	} {
		got := problemsOf(text, m.declared, map[string]bool{"interruption_queue": true}, chartValues(t))
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s\ngot %q, want %q", text, got, want)
		}
	}
}

// chartValues are the chart's values.
func chartValues(t *testing.T) map[string]any {
	t.Helper()
	var schema map[string]any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join("charts", "slipway", "values.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	return properties(schema)
}

// properties are those of a JSON schema, by name; nil stands for anything.
func properties(schema map[string]any) map[string]any {
	of, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil
	}
	out := map[string]any{}
	for name, value := range of {
		if nested, ok := value.(map[string]any); ok {
			out[name] = properties(nested)
		}
	}
	return out
}

func problemsOf(text string, variables, outputs map[string]bool, values map[string]any) []string {
	file, problems := hclsyntax.ParseConfig([]byte(text), "page", hcl.InitialPos)
	if problems.HasErrors() {
		return []string{problems.Error()}
	}
	var out []string
	for _, b := range file.Body.(*hclsyntax.Body).Blocks {
		ours := b.Type == "module" && strings.Contains(text, "manifests/terraform")
		for name := range b.Body.Attributes {
			if ours && name != "source" && !variables["var."+name] {
				out = append(out, "the module has no variable "+name)
			}
		}
		if b.Type == "resource" && b.Labels[0] == "helm_release" && b.Body.Attributes["values"] != nil {
			out = append(out, unknownValues(b.Body.Attributes["values"].Expr, "", values)...)
		}
		for _, attribute := range b.Body.Attributes {
			for _, path := range attribute.Expr.Variables() {
				if name, found := outputOf(path); found && !outputs[name] {
					out = append(out, "the module has no output "+name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// outputOf returns the output of slipway's module that a reference leads to.
func outputOf(path hcl.Traversal) (string, bool) {
	var names []string
	for _, step := range path[1:] {
		if attribute, ok := step.(hcl.TraverseAttr); ok {
			names = append(names, attribute.Name)
		}
	}
	if path.RootName() != "module" || len(names) != 2 || names[0] != "slipway" {
		return "", false
	}
	return names[1], true
}

// unknownValues are the keys of an object expression that the chart's values do not have.
func unknownValues(e hclsyntax.Expression, prefix string, values map[string]any) []string {
	var out []string
	switch e := e.(type) {
	case *hclsyntax.TupleConsExpr:
		for _, item := range e.Exprs {
			out = append(out, unknownValues(item, prefix, values)...)
		}
	case *hclsyntax.FunctionCallExpr:
		for _, item := range e.Args {
			out = append(out, unknownValues(item, prefix, values)...)
		}
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			key, problems := item.KeyExpr.Value(nil)
			if problems.HasErrors() || values == nil {
				continue
			}
			name := key.AsString()
			nested, known := values[name]
			if !known {
				out = append(out, "the chart has no value "+prefix+name)
				continue
			}
			of, _ := nested.(map[string]any)
			out = append(out, unknownValues(item.ValueExpr, prefix+name+".", of)...)
		}
	}
	return out
}

// The YAML that the pages show for eksctl is YAML, and its Fargate profile has slipway's pods.
func TestEksctlOfThePages(t *testing.T) {
	var config struct {
		FargateProfiles []struct {
			Name      string `json:"name"`
			Selectors []struct {
				Namespace string            `json:"namespace"`
				Labels    map[string]string `json:"labels"`
			} `json:"selectors"`
		} `json:"fargateProfiles"`
	}
	profiles := 0
	for where, text := range blocksOf(t, "yaml") {
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, p := range config.FargateProfiles {
			if p.Name == "slipway" && p.Selectors[0].Namespace == "kube-system" && p.Selectors[0].Labels["app.kubernetes.io/name"] == "slipway" {
				profiles++
			}
		}
	}
	cluster := regexp.MustCompile(`(?ms)<<YAML\n(.*?)^ *YAML$`).FindStringSubmatch(read(t, filepath.Join("..", "docs", "getting-started.md")))
	if cluster == nil || profiles != 1 {
		t.Fatalf("%d Fargate profiles for slipway, and the cluster is %q", profiles, cluster)
	}
	var decoded map[string]any
	if err := yaml.Unmarshal([]byte(os.Expand(cluster[1], strings.ToLower)), &decoded); err != nil || decoded["kind"] != "ClusterConfig" {
		t.Errorf("the cluster: %v, %v", err, decoded["kind"])
	}
}

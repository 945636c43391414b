package manifests_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// module is the Terraform module, parsed as Terraform parses it.
type module struct {
	blocks []*hclsyntax.Block
	// declared are addresses, such as var.cluster_name and aws_iam_role.node.
	declared map[string]bool
}

func readModule(t *testing.T) module {
	t.Helper()
	files, err := filepath.Glob("terraform/*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	out := module{declared: map[string]bool{}}
	for _, path := range files {
		file, problems := hclsyntax.ParseConfig([]byte(read(t, path)), path, hcl.InitialPos)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		out.blocks = append(out.blocks, file.Body.(*hclsyntax.Body).Blocks...)
	}
	for _, b := range out.blocks {
		switch b.Type {
		case "variable":
			out.declared["var."+b.Labels[0]] = true
		case "resource":
			out.declared[strings.Join(b.Labels, ".")] = true
		case "data":
			out.declared["data."+strings.Join(b.Labels, ".")] = true
		case "locals":
			for name := range b.Body.Attributes {
				out.declared["local."+name] = true
			}
		}
	}
	return out
}

// address is what a reference leads to.
func address(path hcl.Traversal) string {
	parts := []string{path.RootName()}
	for _, step := range path[1:] {
		if attribute, ok := step.(hcl.TraverseAttr); ok {
			parts = append(parts, attribute.Name)
		}
	}
	length := 2
	if parts[0] == "data" {
		length = 3
	}
	return strings.Join(parts[:min(length, len(parts))], ".")
}

func TestModuleReferencesWhatThereIs(t *testing.T) {
	m := readModule(t)
	used := map[string]bool{}
	for _, b := range m.blocks {
		_ = hclsyntax.VisitAll(b, func(node hclsyntax.Node) hcl.Diagnostics {
			expression, ok := node.(*hclsyntax.ScopeTraversalExpr)
			if !ok {
				return nil
			}
			root := expression.Traversal.RootName()
			// An object's own keys, and what for_each and modules give.
			if len(expression.Traversal) == 1 || root == "each" || root == "path" {
				return nil
			}
			used[address(expression.Traversal)] = true
			if !m.declared[address(expression.Traversal)] {
				t.Errorf("%s: %s is not declared", expression.Range(), address(expression.Traversal))
			}
			return nil
		})
	}
	for name := range m.declared {
		if (strings.HasPrefix(name, "var.") || strings.HasPrefix(name, "local.")) && !used[name] {
			t.Errorf("%s is not used", name)
		}
	}
	if len(used) < 20 {
		t.Errorf("%d references were found", len(used))
	}
}

func (m module) resource(t *testing.T, kind, name string) *hclsyntax.Body {
	t.Helper()
	i := slices.IndexFunc(m.blocks, func(b *hclsyntax.Block) bool {
		return b.Type == "resource" && slices.Equal(b.Labels, []string{kind, name})
	})
	if i < 0 {
		t.Fatalf("there is no %s.%s", kind, name)
	}
	return m.blocks[i].Body
}

// The module fills in the policy that the sandbox enforces: the values that it gives are those that the file asks for.
func TestModuleFillsInThePolicy(t *testing.T) {
	m := readModule(t)
	for _, name := range []string{"launcher", "standby"} {
		call := m.resource(t, "aws_iam_role_policy", name).Attributes["policy"].Expr.(*hclsyntax.FunctionCallExpr)
		given := map[string]bool{}
		for _, item := range call.Args[1].(*hclsyntax.ObjectConsExpr).Items {
			key, problems := item.KeyExpr.Value(nil)
			if problems.HasErrors() {
				t.Fatal(problems)
			}
			given[key.AsString()] = true
		}
		asked := map[string]bool{}
		for _, match := range regexp.MustCompile(`\$\{([A-Za-z]+)\}`).FindAllStringSubmatch(read(t, "iam/"+name+".json"), -1) {
			asked[match[1]] = true
		}
		if diff := cmp.Diff(asked, given); call.Name != "templatefile" || diff != "" {
			t.Errorf("%s: %s: -asked +given\n%s", name, call.Name, diff)
		}
	}
}

// The policy for commitments is the file that the end-to-end test enforces, and nothing without the variable.
func TestModuleLetsReadCommitments(t *testing.T) {
	in := readModule(t).resource(t, "aws_iam_role_policy", "commitments").Attributes
	call := in["policy"].Expr.(*hclsyntax.FunctionCallExpr)
	var path string
	for _, part := range call.Args[0].(*hclsyntax.TemplateExpr).Parts {
		if text, ok := part.(*hclsyntax.LiteralValueExpr); ok {
			path += text.Val.AsString()
		}
	}
	if call.Name != "file" || path != "/../iam/commitments.json" || len(read(t, "iam/"+strings.TrimPrefix(path, "/../iam/"))) == 0 {
		t.Errorf("%s of %q", call.Name, path)
	}
	count, ok := in["count"].Expr.(*hclsyntax.ConditionalExpr)
	if !ok || address(count.Condition.Variables()[0]) != "var.read_commitments" {
		t.Error("the policy does not depend on var.read_commitments")
	}
}

func TestModuleEvents(t *testing.T) {
	m := readModule(t)
	var value map[string]string
	for _, b := range m.blocks {
		if b.Type != "locals" || b.Body.Attributes["events"] == nil {
			continue
		}
		all, problems := b.Body.Attributes["events"].Expr.Value(nil)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		value = map[string]string{}
		for name, event := range all.AsValueMap() {
			value[event.GetAttr("type").AsString()] = event.GetAttr("source").AsString()
			// The provider appends 26 characters and EventBridge takes 64.
			if prefix := "Karpenter" + name + "-"; len(prefix) > 38 {
				t.Errorf("name_prefix %s is too long", prefix)
			}
		}
	}
	if diff := cmp.Diff(events(), value); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	queue := m.resource(t, "aws_sqs_queue", "interruption")
	for name, want := range map[string]string{"message_retention_seconds": "300", "sqs_managed_sse_enabled": "true"} {
		got, problems := queue.Attributes[name].Expr.Value(nil)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		if text := got.GoString(); !strings.Contains(strings.ToLower(text), want) {
			t.Errorf("%s = %s, want %s", name, text, want)
		}
	}
	if names := slices.Sorted(maps.Keys(queue.Attributes)); !slices.Contains(names, "tags") {
		t.Errorf("queue: %v", names)
	}
}

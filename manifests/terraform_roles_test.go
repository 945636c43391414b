package manifests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

const issuer = "oidc.eks.eu-west-1.amazonaws.com/id/ABC"

// scope is what the module's expressions see where the cluster's OIDC provider is given, or is not.
func (m module) scope(t *testing.T, provider string) *hcl.EvalContext {
	t.Helper()
	return m.scopeIn(t, "amazonaws.com", provider)
}

// scopeIn is the scope in the partition that has this suffix of its names.
func (m module) scopeIn(t *testing.T, suffix, provider string) *hcl.EvalContext {
	t.Helper()
	texts := func(values ...string) cty.Value {
		object := map[string]cty.Value{}
		for i := 0; i < len(values); i += 2 {
			object[values[i]] = cty.StringVal(values[i+1])
		}
		return cty.ObjectVal(object)
	}
	document := func(name string) cty.Value { return texts("json", name) }
	variables := texts("cluster_name", "prod", "namespace", "kube-system", "service_account", "slipway", "oidc_provider_arn", provider).AsValueMap()
	variables["create_pod_identity_association"] = cty.True
	variables["fargate_subnet_ids"] = cty.ListVal([]cty.Value{cty.StringVal("subnet-1")})
	scope := &hcl.EvalContext{
		Variables: map[string]cty.Value{
			"var": cty.ObjectVal(variables),
			"data": cty.ObjectVal(map[string]cty.Value{
				"aws_iam_policy_document": cty.ObjectVal(map[string]cty.Value{
					"oidc": cty.TupleVal([]cty.Value{document("oidc")}), "pod_identity": document("pod_identity"),
				}),
				"aws_partition": cty.ObjectVal(map[string]cty.Value{"current": texts("dns_suffix", suffix)}),
			}),
		},
		Functions: map[string]function.Function{"jsonencode": stdlib.JSONEncodeFunc, "split": stdlib.SplitFunc, "length": stdlib.LengthFunc},
	}
	locals := map[string]cty.Value{}
	for _, name := range []string{"use_oidc", "oidc_issuer", "on_fargate"} {
		scope.Variables["local"] = cty.ObjectVal(locals)
		for _, b := range m.blocks {
			if attribute := b.Body.Attributes[name]; b.Type == "locals" && attribute != nil {
				locals[name] = value(t, attribute.Expr, scope)
			}
		}
	}
	scope.Variables["local"] = cty.ObjectVal(locals)
	return scope
}

func value(t *testing.T, expression hcl.Expression, scope *hcl.EvalContext) cty.Value {
	t.Helper()
	out, problems := expression.Value(scope)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return out
}

// count is how many of a resource there are.
func (m module) count(t *testing.T, scope *hcl.EvalContext, kind, name string) string {
	t.Helper()
	return value(t, m.resource(t, kind, name).Attributes["count"].Expr, scope).AsBigFloat().String()
}

// EKS Pod Identity by default, IAM roles for service accounts if the OIDC provider is given; Fargate supports only the latter.
func TestModuleRolesAreAssumedBy(t *testing.T) {
	m := readModule(t)
	for _, c := range []struct{ provider, trusts, associations, fargateAllowed string }{
		{"", "pod_identity", "1", "false"},
		{"arn:aws:iam::111122223333:oidc-provider/" + issuer, "oidc", "0", "true"},
	} {
		scope := m.scope(t, c.provider)
		if got := value(t, m.resource(t, "aws_iam_role", "launcher").Attributes["assume_role_policy"].Expr, scope).AsString(); got != c.trusts {
			t.Errorf("provider %q: the launcher's role trusts %s, want %s", c.provider, got, c.trusts)
		}
		if got := m.count(t, scope, "aws_eks_pod_identity_association", "launcher"); got != c.associations {
			t.Errorf("provider %q: %s pod identity associations, want %s", c.provider, got, c.associations)
		}
		if got := m.count(t, scope, "aws_eks_fargate_profile", "slipway"); got != "1" {
			t.Errorf("provider %q: %s Fargate profiles for a subnet", c.provider, got)
		}
		precondition := inner(t, inner(t, m.resource(t, "aws_eks_fargate_profile", "slipway"), "lifecycle"), "precondition")
		if got := value(t, precondition.Attributes["condition"].Expr, scope); got.True() != (c.fargateAllowed == "true") {
			t.Errorf("provider %q: Fargate is allowed: %t", c.provider, got.True())
		}
	}
	for _, c := range []struct{ role, suffix, service string }{
		{"node", "amazonaws.com", "ec2.amazonaws.com"},
		{"node", "amazonaws.com.cn", "ec2.amazonaws.com.cn"},
		{"fargate", "amazonaws.com.cn", "eks-fargate-pods.amazonaws.com"},
	} {
		text := value(t, m.resource(t, "aws_iam_role", c.role).Attributes["assume_role_policy"].Expr, m.scopeIn(t, c.suffix, "")).AsString()
		var got struct{ Statement []map[string]any }
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		want := []map[string]any{{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": c.service}}}
		if diff := cmp.Diff(want, got.Statement); diff != "" {
			t.Errorf("role %s, %s, is assumed by others: -want +got\n%s", c.role, c.suffix, diff)
		}
	}
}

// The provider's next major version may be another module.
func TestModuleBoundsItsProvider(t *testing.T) {
	m := readModule(t)
	found := 0
	for _, b := range m.blocks {
		if b.Type != "terraform" {
			continue
		}
		found++
		version := value(t, inner(t, b.Body, "required_providers").Attributes["aws"].Expr, nil).GetAttr("version").AsString()
		if !strings.Contains(version, ">= ") || !strings.Contains(version, "< ") {
			t.Errorf("provider aws %q has not both bounds", version)
		}
	}
	if found != 1 {
		t.Errorf("%d blocks terraform, want one", found)
	}
}

// The trust of the launcher's role, read as IAM does: which principal, with which action, and only for which service account.
func TestModuleTrustDocuments(t *testing.T) {
	m := readModule(t)
	scope := m.scope(t, "arn:aws:iam::111122223333:oidc-provider/"+issuer)
	type trust struct {
		Actions, Who []string
		Conditions   map[string][]string
	}
	for name, want := range map[string]trust{
		"pod_identity": {Actions: []string{"sts:AssumeRole", "sts:TagSession"}, Who: []string{"pods.eks.amazonaws.com"}, Conditions: map[string][]string{}},
		"oidc": {
			Actions: []string{"sts:AssumeRoleWithWebIdentity"}, Who: []string{"arn:aws:iam::111122223333:oidc-provider/" + issuer},
			Conditions: map[string][]string{
				"StringEquals " + issuer + ":aud": {"sts.amazonaws.com"},
				"StringEquals " + issuer + ":sub": {"system:serviceaccount:kube-system:slipway"},
			},
		},
	} {
		statement := inner(t, m.document(t, name), "statement")
		got := trust{Actions: list(t, statement, "actions", scope), Who: list(t, inner(t, statement, "principals"), "identifiers", scope), Conditions: map[string][]string{}}
		for _, b := range statement.Blocks {
			if b.Type == "condition" {
				key := value(t, b.Body.Attributes["test"].Expr, scope).AsString() + " " + value(t, b.Body.Attributes["variable"].Expr, scope).AsString()
				got.Conditions[key] = list(t, b.Body, "values", scope)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func (m module) document(t *testing.T, name string) *hclsyntax.Body {
	t.Helper()
	for _, b := range m.blocks {
		if b.Type == "data" && b.Labels[0] == "aws_iam_policy_document" && b.Labels[1] == name {
			return b.Body
		}
	}
	t.Fatalf("there is no policy document %s", name)
	return nil
}

// inner is the one block of that type in a body.
func inner(t *testing.T, body *hclsyntax.Body, kind string) *hclsyntax.Body {
	t.Helper()
	var found []*hclsyntax.Body
	for _, b := range body.Blocks {
		if b.Type == kind {
			found = append(found, b.Body)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks %s, want one", len(found), kind)
	}
	return found[0]
}

func list(t *testing.T, body *hclsyntax.Body, name string, scope *hcl.EvalContext) []string {
	t.Helper()
	var out []string
	for _, v := range value(t, body.Attributes[name].Expr, scope).AsValueSlice() {
		out = append(out, v.AsString())
	}
	return out
}

package manifests_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/manifests"
)

// Each policy is for the launcher's identity, closed where it cannot be evaluated, and in force. It names the labels and the taint that the
// launcher uses.
func TestPoliciesOfTheLauncher(t *testing.T) {
	got, err := manifests.Admission()
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]bool{}
	for _, b := range got.Bindings {
		bound[b.Spec.PolicyName] = true
	}
	if len(got.Policies) != 7 || len(bound) != 7 {
		t.Errorf("%d policies, %d of them in force", len(got.Policies), len(bound))
	}
	for _, p := range got.Policies {
		if !bound[p.Name] {
			t.Errorf("%s is not in force", p.Name)
		}
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != "Fail" {
			t.Errorf("%s lets pass what it cannot judge", p.Name)
		}
		if c := p.Spec.MatchConditions; len(c) != 1 || c[0].Expression != `request.userInfo.username == "`+manifests.LauncherUser+`"` {
			t.Errorf("%s is for %+v", p.Name, c)
		}
		for _, v := range p.Spec.Variables {
			for _, word := range wordsOf(v.Name) {
				if !strings.Contains(v.Expression, `"`+word+`"`) {
					t.Errorf("%s: %s does not name %s", p.Name, v.Name, word)
				}
			}
		}
	}
}

// The launcher creates the ConfigMaps that its Role lets it write, and no others: RBAC has no names for create.
func TestRecordsOfThePolicyAreTheRoles(t *testing.T) {
	got, err := manifests.Admission()
	if err != nil {
		t.Fatal(err)
	}
	var records []string
	for _, p := range got.Policies {
		if p.Name == "slipway-launcher-configmaps" {
			if err := json.Unmarshal([]byte(p.Spec.Variables[0].Expression), &records); err != nil {
				t.Fatal(err)
			}
		}
	}
	rules, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, role := range rules.Roles {
		for _, r := range role.Rules {
			if strings.HasPrefix(role.Name, "slipway-launcher") && slices.Contains(r.Resources, "configmaps") && slices.Contains(r.Verbs, "update") {
				written = append(written, r.ResourceNames...)
			}
		}
	}
	if diff := cmp.Diff(written, records); diff != "" || len(records) == 0 {
		t.Errorf("-Role +policy\n%s", diff)
	}
}

// wordsOf are the names of the launcher's that the variable of a policy has to have.
func wordsOf(variable string) []string {
	switch variable {
	case "labeled", "wasLabeled":
		return slices.Sorted(maps.Keys(node.Marks(map[string]string{"karpenter.sh/nodepool": "", "karpenter.sh/capacity-type": ""})))
	case "registers":
		return []string{catalog.StartingTaintKey}
	default:
		return nil
	}
}

package launcher

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A user who may edit a namespace may write a Lease of Karpenter's name there: it stops nothing, also while slipway starts. It counts from when
// a service account of the namespace may create NodeClaims.
func TestForgedKarpenter(t *testing.T) {
	api := leases(append(installed("karpenter"), karpenter("tenant", time.Unix(0, 0)))...).Build()
	beside(t, api, func(t *testing.T, n *neighbour) {
		t.Helper()
		renew(t, api, "tenant", 0, time.Second)
		for range 2 {
			if ok, why := n.manages(pool(nil)); !ok || !n.Alone() {
				t.Errorf("manages %t: %q", ok, why)
			}
			renew(t, api, "tenant", 0, time.Minute)
		}
		binding := &rbacv1.ClusterRoleBinding{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: "karpenter-core"}, binding); err != nil {
			t.Fatal(err)
		}
		binding.Subjects[0].Namespace = "tenant"
		if err := api.Update(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		renew(t, api, "tenant", 0, rightsFor+2*lookForKarpenter)
		if ok, why := n.manages(pool(nil)); ok || !strings.Contains(why, "tenant/karpenter-leader-election") {
			t.Errorf("manages %t: %q", ok, why)
		}
	})
}

func TestNamespacesThatLaunch(t *testing.T) {
	role := func(name string, groups, resources, verbs []string) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: groups, Resources: resources, Verbs: verbs}}}
	}
	all := []string{"*"}
	roles := []rbacv1.ClusterRole{
		role("launches", []string{"karpenter.sh"}, []string{"nodepools", "nodeclaims"}, []string{"get", "create"}), role("admin", all, all, all),
		role("reads", []string{"karpenter.sh"}, []string{"nodeclaims"}, []string{"get", "list", "watch"}),
		role("status", []string{"karpenter.sh"}, []string{"nodeclaims/status"}, []string{"create"}),
		role("other", []string{"apps"}, all, all),
	}
	account := func(namespace string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "a"}
	}
	for name, c := range map[string]struct {
		role    string
		subject rbacv1.Subject
		want    []string
	}{
		"Karpenter":            {"launches", account("karpenter"), []string{"karpenter"}},
		"everything":           {"admin", account("operators"), []string{"operators"}},
		"reading":              {"reads", account("tenant"), nil},
		"the status":           {"status", account("tenant"), nil},
		"another group":        {"other", account("tenant"), nil},
		"no such role":         {"gone", account("tenant"), nil},
		"a user":               {"launches", rbacv1.Subject{Kind: "User", Name: "tenant"}, nil},
		"an account as a user": {"launches", rbacv1.Subject{Kind: "User", Name: "system:serviceaccount:karpenter:a"}, []string{"karpenter"}},
		"accounts of one":      {"launches", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:karpenter"}, []string{"karpenter"}},
		"administrators":       {"admin", rbacv1.Subject{Kind: "Group", Name: "system:masters"}, nil},
		"each service account": {"admin", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts"}, []string{everyNamespace}},
		"each that is known":   {"admin", rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, []string{everyNamespace}},
	} {
		bindings := []rbacv1.ClusterRoleBinding{{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: c.role}, Subjects: []rbacv1.Subject{c.subject}}}
		found := map[string]bool{}
		for _, subject := range launching(roles, bindings) {
			if namespace, ok := namespaceOf(subject); ok {
				found[namespace] = true
			}
		}
		got := slices.Sorted(maps.Keys(found))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if r := (&rights{}); !r.in("kube-system") || r.in("tenant") {
		t.Error("without rights: kube-system alone may have a Karpenter")
	}
	if r := (&rights{namespaces: map[string]bool{everyNamespace: true}}); !r.in("tenant") {
		t.Error("each service account may create NodeClaims: a Karpenter may be in each namespace")
	}
}

// Whose service account the handover policies have to keep away: one that may create NodeClaims, by itself or in a group.
func TestUsers(t *testing.T) {
	all := users{"system:serviceaccount:karpenter:karpenter": true, "system:serviceaccounts:fleet": true, "jane": true}
	for account, want := range map[string]bool{
		"system:serviceaccount:karpenter:karpenter": true, "system:serviceaccount:karpenter:other": false,
		"system:serviceaccount:fleet:any": true, "jane": true, "joe": false,
	} {
		if all.has(account) != want {
			t.Errorf("%s: not %t", account, want)
		}
	}
	if !(users{"system:authenticated": true}).has("system:serviceaccount:a:b") {
		t.Error("a service account is authenticated")
	}
}

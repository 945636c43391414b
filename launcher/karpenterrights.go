package launcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpapis "sigs.k8s.io/karpenter/pkg/apis"
)

// rightsFor is how long the namespaces that a Karpenter may run in are kept.
const rightsFor = time.Minute

// everyNamespace stands for all namespaces.
const everyNamespace = ""

// rights are the namespaces that a Karpenter may run in: those with a service account that may create NodeClaims. Every user with the
// ClusterRole edit in one namespace may write a Lease of Karpenter's name there. Where the namespace has such a service account, that user
// may run pods with it and so create NodeClaims anyway.
type rights struct {
	// at is when they were read; zero before the first read.
	at time.Time
	// namespaces by name; everyNamespace is in it if all are.
	namespaces map[string]bool
	// users are those of them, and all others.
	users users
}

// users are the subjects that may create NodeClaims: names of users and of groups of service accounts.
type users map[string]bool

// has reports whether a service account is one of them, by itself or in a group.
func (u users) has(account string) bool {
	namespace, _, err := serviceaccount.SplitUsername(account)
	if err != nil {
		return u[account]
	}
	names := append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated, account)
	return slices.ContainsFunc(names, func(name string) bool { return u[name] })
}

// read reads them again where they are old.
func (r *rights) read(ctx context.Context, reader client.Reader, now time.Time) error {
	if !r.at.IsZero() && now.Sub(r.at) < rightsFor {
		return nil
	}
	var roles rbacv1.ClusterRoleList
	if err := reader.List(ctx, &roles); err != nil {
		return fmt.Errorf("listing ClusterRoles: %w", err)
	}
	var bindings rbacv1.ClusterRoleBindingList
	if err := reader.List(ctx, &bindings); err != nil {
		return fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	subjects := launching(roles.Items, bindings.Items)
	r.at, r.namespaces, r.users = now, map[string]bool{}, users{}
	for _, subject := range subjects {
		r.users[nameOf(subject)] = true
		if namespace, ok := namespaceOf(subject); ok {
			r.namespaces[namespace] = true
		}
	}
	return nil
}

// in reports whether a Karpenter may run in the namespace. Only administrators write to kube-system, where Karpenter is installed by default.
func (r *rights) in(namespace string) bool {
	return namespace == metav1.NamespaceSystem || r.namespaces[namespace] || r.namespaces[everyNamespace]
}

// launching returns the subjects that may create NodeClaims, which are cluster-wide: only a ClusterRoleBinding gives the right.
func launching(roles []rbacv1.ClusterRole, bindings []rbacv1.ClusterRoleBinding) []rbacv1.Subject {
	able := map[string]bool{}
	for i := range roles {
		able[roles[i].Name] = slices.ContainsFunc(roles[i].Rules, createsClaims)
	}
	var out []rbacv1.Subject
	for i := range bindings {
		if able[bindings[i].RoleRef.Name] {
			out = append(out, bindings[i].Subjects...)
		}
	}
	return out
}

// nameOf returns the name under which the API server sees a subject: a service account is a user.
func nameOf(subject rbacv1.Subject) string {
	if subject.Kind == rbacv1.ServiceAccountKind {
		return serviceaccount.MakeUsername(subject.Namespace, subject.Name)
	}
	return subject.Name
}

func createsClaims(rule rbacv1.PolicyRule) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	return has(rule.APIGroups, karpapis.Group) && has(rule.Resources, "nodeclaims") && has(rule.Verbs, "create")
}

// namespaceOf returns the namespace whose service accounts a subject has; false if it has none.
func namespaceOf(subject rbacv1.Subject) (string, bool) {
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		return subject.Namespace, true
	case rbacv1.UserKind:
		namespace, _, err := serviceaccount.SplitUsername(subject.Name)
		return namespace, err == nil
	}
	if slices.Contains([]string{user.AllAuthenticated, serviceaccount.AllServiceAccountsGroup}, subject.Name) {
		return everyNamespace, true
	}
	return strings.CutPrefix(subject.Name, serviceaccount.ServiceAccountGroupPrefix)
}

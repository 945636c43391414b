package manifests

import (
	"fmt"
	"io/fs"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The users that the two binaries run as if the RBAC rules are applied unchanged.
const (
	// SchedulerUser runs slipway-scheduler.
	SchedulerUser = "system:serviceaccount:kube-system:slipway-scheduler"
	// LauncherUser runs slipway-launcher.
	LauncherUser = "system:serviceaccount:kube-system:slipway-launcher"
)

// Rules are RBAC objects by kind, in the order of their files.
type Rules struct {
	// ClusterRoles of both binaries.
	ClusterRoles []rbacv1.ClusterRole
	// ClusterRoleBindings to their service accounts.
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	// Roles are for objects in one namespace.
	Roles []rbacv1.Role
	// RoleBindings to their service accounts.
	RoleBindings []rbacv1.RoleBinding
}

// RBAC decodes the files of rbac/.
func RBAC() (Rules, error) {
	var rules Rules
	names, err := fs.Glob(files, "rbac/*.yaml")
	if err != nil {
		return rules, err
	}
	for _, name := range names {
		documents, err := Documents(name)
		if err != nil {
			return rules, err
		}
		for i, document := range documents {
			if err := rules.add(document); err != nil {
				return rules, fmt.Errorf("%s: document %d: %w", name, i+1, err)
			}
		}
	}
	return rules, nil
}

func (r *Rules) add(document []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	if meta.APIVersion != rbacv1.SchemeGroupVersion.String() {
		return fmt.Errorf("apiVersion %q is not %s", meta.APIVersion, rbacv1.SchemeGroupVersion)
	}
	switch meta.Kind {
	case "ClusterRole":
		return decodeInto(document, &r.ClusterRoles)
	case "ClusterRoleBinding":
		return decodeInto(document, &r.ClusterRoleBindings)
	case "Role":
		return decodeInto(document, &r.Roles)
	case "RoleBinding":
		return decodeInto(document, &r.RoleBindings)
	default:
		return fmt.Errorf("kind %q is not of RBAC", meta.Kind)
	}
}

func decodeInto[T any](document []byte, list *[]T) error {
	var object T
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

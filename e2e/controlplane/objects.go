package controlplane

import (
	"context"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-k8s/slipway/manifests"
)

// apply creates Karpenter's CRDs, slipway's RBAC rules and its admission policies, and waits until the CRDs are served.
func (cp *ControlPlane) apply(ctx context.Context, _ Config) error {
	crds, err := apiextensions.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	for _, crd := range manifests.CRDs() {
		if _, err := crds.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating CRD %s: %w", crd.Name, err)
		}
	}
	rules, err := manifests.RBAC()
	if err != nil {
		return err
	}
	if err := applyRBAC(ctx, client, rules); err != nil {
		return err
	}
	if err := applyPolicies(ctx, client); err != nil {
		return err
	}
	for _, crd := range manifests.CRDs() {
		if err := cp.await(ctx, served(client, crd)); err != nil {
			return fmt.Errorf("waiting until CRD %s is served: %w", crd.Name, err)
		}
	}
	return nil
}

func served(client kubernetes.Interface, crd *apiextensionsv1.CustomResourceDefinition) func(context.Context) (bool, error) {
	path := "/apis/" + crd.Spec.Group + "/" + crd.Spec.Versions[0].Name + "/" + crd.Spec.Names.Plural
	return func(ctx context.Context) (bool, error) {
		status := 0
		client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).StatusCode(&status)
		return status == http.StatusOK, nil
	}
}

func applyRBAC(ctx context.Context, client kubernetes.Interface, rules manifests.Rules) error {
	rbac := client.RbacV1()
	create := metav1.CreateOptions{FieldManager: "slipway"}
	for i := range rules.ClusterRoles {
		if _, err := rbac.ClusterRoles().Create(ctx, &rules.ClusterRoles[i], create); err != nil {
			return fmt.Errorf("creating ClusterRole %s: %w", rules.ClusterRoles[i].Name, err)
		}
	}
	for i := range rules.ClusterRoleBindings {
		if _, err := rbac.ClusterRoleBindings().Create(ctx, &rules.ClusterRoleBindings[i], create); err != nil {
			return fmt.Errorf("creating ClusterRoleBinding %s: %w", rules.ClusterRoleBindings[i].Name, err)
		}
	}
	for i := range rules.Roles {
		role := &rules.Roles[i]
		if _, err := rbac.Roles(role.Namespace).Create(ctx, role, create); err != nil {
			return fmt.Errorf("creating Role %s/%s: %w", role.Namespace, role.Name, err)
		}
	}
	for i := range rules.RoleBindings {
		binding := &rules.RoleBindings[i]
		if _, err := rbac.RoleBindings(binding.Namespace).Create(ctx, binding, create); err != nil {
			return fmt.Errorf("creating RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
		}
	}
	return nil
}

// applyPolicies creates the admission policies and their bindings.
func applyPolicies(ctx context.Context, client kubernetes.Interface) error {
	admission, err := manifests.Admission()
	if err != nil {
		return err
	}
	handover, err := manifests.Handover()
	if err != nil {
		return err
	}
	admission.Policies, admission.Bindings = append(admission.Policies, handover.Policies...), append(admission.Bindings, handover.Bindings...)
	registration := client.AdmissionregistrationV1()
	create := metav1.CreateOptions{FieldManager: "slipway"}
	for i := range admission.Policies {
		if _, err := registration.ValidatingAdmissionPolicies().Create(ctx, &admission.Policies[i], create); err != nil {
			return fmt.Errorf("creating ValidatingAdmissionPolicy %s: %w", admission.Policies[i].Name, err)
		}
	}
	for i := range admission.Bindings {
		if _, err := registration.ValidatingAdmissionPolicyBindings().Create(ctx, &admission.Bindings[i], create); err != nil {
			return fmt.Errorf("creating ValidatingAdmissionPolicyBinding %s: %w", admission.Bindings[i].Name, err)
		}
	}
	return nil
}

// awaitServiceAccount waits for the default service account of namespace default, which pods need.
func (cp *ControlPlane) awaitServiceAccount(ctx context.Context, _ Config) error {
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	return cp.await(ctx, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

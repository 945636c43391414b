package manifests_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests"
)

func TestRBAC(t *testing.T) {
	rules, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, role := range rules.ClusterRoles {
		known["ClusterRole "+role.Name] = true
		noWildcards(t, role.Name, role.Rules)
	}
	for _, role := range rules.Roles {
		known["Role "+role.Namespace+"/"+role.Name] = true
		noWildcards(t, role.Namespace+"/"+role.Name, role.Rules)
	}
	if len(known) == 0 {
		t.Error("there are no roles")
	}
	for _, binding := range rules.ClusterRoleBindings {
		bound(t, known, binding.RoleRef.Kind+" "+binding.RoleRef.Name, binding.Subjects)
	}
	for _, binding := range rules.RoleBindings {
		bound(t, known, binding.RoleRef.Kind+" "+binding.Namespace+"/"+binding.RoleRef.Name, binding.Subjects)
	}
	for name := range known {
		t.Errorf("%s is bound to nobody", name)
	}
}

func noWildcards(t *testing.T, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
			t.Errorf("%s: %v allows everything of a kind", name, rule)
		}
	}
}

// bound checks a binding and strikes its role off the list.
func bound(t *testing.T, known map[string]bool, role string, subjects []rbacv1.Subject) {
	t.Helper()
	if !known[role] {
		t.Errorf("a binding names %s, which there is not", role)
	}
	delete(known, role)
	for _, subject := range subjects {
		user := "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
		if subject.Kind != rbacv1.ServiceAccountKind || user != manifests.SchedulerUser && user != manifests.LauncherUser {
			t.Errorf("%s is bound to %v", role, subject)
		}
	}
}

func TestSamples(t *testing.T) {
	samples, err := manifests.Samples()
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(samples, "*.yaml")
	folders, errFolders := fs.Glob(samples, "*/*.yaml")
	if err != nil || errFolders != nil || len(names) == 0 || len(folders) == 0 {
		t.Fatalf("samples: %v, %v, %v", names, folders, err)
	}
	names = append(names, folders...)
	for _, name := range names {
		documents, err := manifests.Documents("samples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			if err := decodeStrictly(document); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func decodeStrictly(document []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	objects := map[string]any{
		"karpenter.sh/v1, Kind=NodePool":          &karpv1.NodePool{},
		"karpenter.k8s.aws/v1, Kind=EC2NodeClass": &awsv1.EC2NodeClass{},
		"apps/v1, Kind=Deployment":                &appsv1.Deployment{},

		"autoscaling.x-k8s.io/v1beta1, Kind=CapacityBuffer": &autoscalingv1beta1.CapacityBuffer{},

		"admissionregistration.k8s.io/v1, Kind=ValidatingAdmissionPolicy":        &admissionv1.ValidatingAdmissionPolicy{},
		"admissionregistration.k8s.io/v1, Kind=ValidatingAdmissionPolicyBinding": &admissionv1.ValidatingAdmissionPolicyBinding{},
	}
	return yaml.UnmarshalStrict(document, objects[meta.GroupVersionKind().String()])
}

func TestDocumentsThatAreNot(t *testing.T) {
	if _, err := manifests.Documents("rbac/missing.yaml"); err == nil || !strings.Contains(err.Error(), "rbac/missing.yaml") {
		t.Errorf("error does not name the file: %v", err)
	}
}

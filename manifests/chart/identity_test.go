package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/slipway-k8s/slipway/manifests"
)

// tokenPath is where a client finds the token of its service account.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// separate are values with which the scheduler has a service account of its own.
func separate(serviceAccount map[string]any) map[string]any {
	return map[string]any{
		"settings":       map[string]any{"clusterName": "prod"},
		"serviceAccount": serviceAccount,
		"scheduler":      map[string]any{"serviceAccount": map[string]any{"separate": true}},
	}
}

// The webhook of IAM roles for service accounts and of Pod Identity puts AWS credentials into each container that this annotation of the Pod
// does not name: only the launcher calls AWS.
func TestSchedulerGetsNoCredentials(t *testing.T) {
	more := minimal()
	more["podAnnotations"] = map[string]any{"a": "b"}
	for name, pod := range map[string]corev1.PodTemplateSpec{
		"chart":                    render(t, "scheduling", minimal())["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template,
		"chart, with another one":  render(t, "scheduling", more)["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template,
		"kustomize base":           build(t, "base")["Deployment kube-system/slipway"].(*appsv1.Deployment).Spec.Template,
		"kustomize overlay of EKS": build(t, "overlays/eks")["Deployment kube-system/slipway"].(*appsv1.Deployment).Spec.Template,
	} {
		skipped := pod.Annotations["eks.amazonaws.com/skip-containers"]
		if i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == skipped }); i < 0 {
			t.Errorf("%s: the webhook skips container %q, which does not exist", name, skipped)
		}
		if skipped != "scheduler" {
			t.Errorf("%s: the webhook skips container %q", name, skipped)
		}
		for _, c := range pod.Spec.Containers {
			for _, e := range c.Env {
				if c.Name == "scheduler" && strings.HasPrefix(e.Name, "AWS_") {
					t.Errorf("%s: the scheduler has %s", name, e.Name)
				}
			}
		}
	}
}

// With a service account of its own the scheduler has its own rules and token, and neither of the launcher's.
func TestSchedulerWithItsOwnServiceAccount(t *testing.T) {
	got := render(t, "scheduling", separate(map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}}))
	subjects := map[string][]rbacv1.Subject{}
	for id, o := range got {
		switch b := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			subjects[id] = b.Subjects
		case *rbacv1.RoleBinding:
			subjects[id] = b.Subjects
		}
	}
	if len(subjects) != 6 {
		t.Errorf("%d bindings: %v", len(subjects), subjects)
	}
	for id, have := range subjects {
		name := "slipway"
		if strings.Contains(id, "slipway-scheduler") {
			name = "slipway-scheduler"
		}
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "scheduling", Name: name}}, have); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
	if role := got["ServiceAccount scheduling/slipway-scheduler"].GetAnnotations()["eks.amazonaws.com/role-arn"]; role != "" {
		t.Errorf("the scheduler's service account has the role %s", role)
	}
	secret := got["Secret scheduling/slipway-scheduler-token"].(*corev1.Secret)
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != "slipway-scheduler" {
		t.Errorf("secret of type %s for %v", secret.Type, secret.Annotations)
	}
	pod := got["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template.Spec
	if pod.ServiceAccountName != "slipway" {
		t.Errorf("the Pod's service account is %s", pod.ServiceAccountName)
	}
	for _, c := range pod.Containers {
		if own := mountOf(pod, c, tokenPath) == secret.Name; own != (c.Name == "scheduler") {
			t.Errorf("%s mounts the scheduler's token: %t", c.Name, own)
		}
	}
}

// mountOf is the Secret that a container mounts at a path, or empty.
func mountOf(pod corev1.PodSpec, c corev1.Container, path string) string {
	for _, m := range c.VolumeMounts {
		for _, v := range pod.Volumes {
			if m.MountPath == path && m.Name == v.Name && v.Secret != nil {
				return v.Secret.SecretName
			}
		}
	}
	return ""
}

// Service accounts that the user creates get the rules and the Secret all the same.
func TestServiceAccountsOfTheUser(t *testing.T) {
	values := separate(map[string]any{"create": false, "name": "launcher"})
	values["scheduler"].(map[string]any)["serviceAccount"].(map[string]any)["name"] = "decides"
	got := render(t, "scheduling", values)
	for id := range got {
		if strings.HasPrefix(id, "ServiceAccount ") {
			t.Errorf("%s is created", id)
		}
	}
	for id, want := range map[string]string{"ClusterRoleBinding slipway-scheduler": "decides", "ClusterRoleBinding slipway-launcher": "launcher"} {
		if have := got[id].(*rbacv1.ClusterRoleBinding).Subjects[0].Name; have != want {
			t.Errorf("%s is for %s, not %s", id, have, want)
		}
	}
	if name := got["Secret scheduling/decides-token"].GetAnnotations()[corev1.ServiceAccountNameKey]; name != "decides" {
		t.Errorf("the token is for %q", name)
	}
}

// policies are the chart's ValidatingAdmissionPolicies for the launcher and how many bindings there are.
func policies(t *testing.T, values map[string]any) (map[string]*admissionv1.ValidatingAdmissionPolicy, int) {
	t.Helper()
	values["handover"] = map[string]any{"enabled": false}
	return allPolicies(t, values)
}

func allPolicies(t *testing.T, values map[string]any) (map[string]*admissionv1.ValidatingAdmissionPolicy, int) {
	t.Helper()
	out, bindings := map[string]*admissionv1.ValidatingAdmissionPolicy{}, 0
	objects := render(t, "scheduling", values)
	for _, o := range objects {
		switch p := o.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			out[p.Name] = p
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bindings++
			if objects["ValidatingAdmissionPolicy "+p.Spec.PolicyName] == nil {
				t.Errorf("%s binds %s, which there is not", p.Name, p.Spec.PolicyName)
			}
		}
	}
	return out, bindings
}

// The policies are those of manifests/admission for the launcher's identity; where the scheduler shares it, those that concern no scheduler.
func TestPoliciesAreTheSandboxs(t *testing.T) {
	want, err := manifests.Admission()
	if err != nil {
		t.Fatal(err)
	}
	got, bindings := policies(t, separate(map[string]any{}))
	if len(got) != len(want.Policies) || bindings != len(want.Bindings) {
		t.Errorf("%d policies and %d bindings", len(got), bindings)
	}
	for _, p := range want.Policies {
		p.Spec.MatchConditions[0].Expression = `request.userInfo.username == "system:serviceaccount:scheduling:slipway"`
		if p.Name == "slipway-launcher-namespaces" {
			p.Spec.Variables[0].Expression = `["kube-system"]`
		}
		if diff := cmp.Diff(p.Spec, got[p.Name].Spec); diff != "" {
			t.Errorf("%s: -admission +chart\n%s", p.Name, diff)
		}
	}
	shared, bindings := policies(t, minimal())
	names := slices.Sorted(maps.Keys(shared))
	if bindings != 4 || !slices.Equal(names, []string{"slipway-launcher-configmaps", "slipway-launcher-leases", "slipway-launcher-nodes", "slipway-launcher-releases"}) {
		t.Errorf("with one identity %d bindings of %v", bindings, names)
	}
	replacing := separate(map[string]any{})
	replacing["scheduler"].(map[string]any)["mode"] = "replace"
	replacing["schedulerName"] = "another"
	every, _ := policies(t, replacing)
	if served := every["slipway-launcher-namespaces"].Spec.Variables[0].Expression; served != "[]" {
		t.Errorf("in place of kube-scheduler it does not serve %s", served)
	}
	elsewhere := separate(map[string]any{})
	elsewhere["settings"].(map[string]any)["interruptionsConfigMap"] = "scheduling/of-team-a"
	renamed, _ := policies(t, elsewhere)
	if records := renamed["slipway-launcher-configmaps"].Spec.Variables[0].Expression; !strings.HasSuffix(records, `"slipway-decisions","of-team-a"]`) {
		t.Errorf("the ConfigMap of interruptions is not among %s", records)
	}
	off := separate(map[string]any{})
	off["launcherPolicy"] = map[string]any{"enabled": false}
	if none, bindings := policies(t, off); len(none)+bindings != 0 {
		t.Errorf("%d policies and %d bindings although they are off", len(none), bindings)
	}
}

// The policies of a handover are those of manifests/admission for the service account of the cluster's Karpenter.
func TestHandoverPoliciesAreTheSandboxs(t *testing.T) {
	want, err := manifests.Handover()
	if err != nil {
		t.Fatal(err)
	}
	values := minimal()
	values["launcherPolicy"] = map[string]any{"enabled": false}
	values["handover"] = map[string]any{"karpenterServiceAccount": "fleet/autoscaler"}
	got, bindings := allPolicies(t, values)
	if len(got) != len(want.Policies) || bindings != len(want.Bindings) {
		t.Errorf("%d policies and %d bindings", len(got), bindings)
	}
	for _, p := range want.Policies {
		const sandboxs = "system:serviceaccount:kube-system:karpenter"
		condition, account := &p.Spec.MatchConditions[0].Expression, &p.Spec.Variables[0].Expression
		if !strings.Contains(*condition, sandboxs) || !strings.Contains(*account, sandboxs) {
			t.Errorf("%s is not about Karpenter's service account: %s, %s", p.Name, *condition, *account)
		}
		*condition = strings.ReplaceAll(*condition, sandboxs, "system:serviceaccount:fleet:autoscaler")
		*account = strings.ReplaceAll(*account, sandboxs, "system:serviceaccount:fleet:autoscaler")
		if diff := cmp.Diff(p.Spec, got[p.Name].Spec); diff != "" {
			t.Errorf("%s: -admission +chart\n%s", p.Name, diff)
		}
	}
}

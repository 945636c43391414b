package controlplane_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/controlplane"
)

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// schedulerHasItsOwnIdentity installs the chart's service accounts, Secret and rules, with which the scheduler's container is another user
// than the launcher's in the same Pod.
func schedulerHasItsOwnIdentity(t *testing.T, cp *controlplane.ControlPlane, c client.Client) {
	t.Helper()
	var pod corev1.PodTemplateSpec
	for _, document := range rendered(t, map[string]any{
		"settings": map[string]any{"clusterName": "prod"}, "fullnameOverride": "apart",
		"scheduler": map[string]any{"serviceAccount": map[string]any{"separate": true}},
	}) {
		if bytes.Contains(document, []byte("kind: Deployment\n")) {
			var deployment appsv1.Deployment
			if err := yaml.UnmarshalStrict(document, &deployment); err != nil {
				t.Fatal(err)
			}
			pod = deployment.Spec.Template
		} else if err := apply(t, c, document); err != nil {
			t.Fatal(err)
		}
	}
	mounts := admittedMounts(t, c, pod)
	if len(mounts["scheduler"]) != 1 || mounts["scheduler"][0] != "apart-scheduler-token" {
		t.Errorf("the scheduler's container finds its token in %v", mounts["scheduler"])
	}
	if len(mounts["controller"]) != 1 || !strings.HasPrefix(mounts["controller"][0], "kube-api-access-") {
		t.Errorf("the launcher's container finds its token in %v", mounts["controller"])
	}
	who := bearer(t, cp, tokenOf(t, c, "apart-scheduler-token"))
	if user := userAtLast(t, who); user != "system:serviceaccount:kube-system:apart-scheduler" {
		t.Errorf("the token is of %s", user)
	}
	for permission, want := range map[string]bool{
		"create pods/binding": true, "list nodes": true, "create nodes": false, "patch nodes": false, "delete nodes": false, "create pods/eviction": false,
	} {
		if got := mayAtLast(t, who, permission, want); got != want {
			t.Errorf("the scheduler may %s: %t", permission, got)
		}
	}
}

// userAtLast returns the user's name, and waits for it: the API server compares a token with the Secret in its own cache, which has the token
// a moment later.
func userAtLast(t *testing.T, who kubernetes.Interface) string {
	t.Helper()
	var review *authenticationv1.SelfSubjectReview
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		review, err = who.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

// mayAtLast reports whether it may, and waits for what is wanted: the API server sees a new rule a moment later.
func mayAtLast(t *testing.T, who kubernetes.Interface, permission string, want bool) bool {
	t.Helper()
	got := may(t, who, permission)
	for end := time.Now().Add(patience); want && !got && time.Now().Before(end); got = may(t, who, permission) {
		time.Sleep(50 * time.Millisecond)
	}
	return got
}

// policiesAreSound waits until kube-controller-manager has checked the types of each policy's expressions: it finds nothing.
func policiesAreSound(t *testing.T, c client.Client) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var list admissionv1.ValidatingAdmissionPolicyList
		if err := c.List(ctx, &list); err != nil || len(list.Items) < 5 {
			return false, err
		}
		for _, p := range list.Items {
			if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
				return false, nil
			}
			for _, warning := range p.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", p.Name, warning.FieldRef, warning.Warning)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// admittedMounts are, by container, the Secrets or volumes that a Pod of the template has at the path of tokens once the API server has
// admitted it.
func admittedMounts(t *testing.T, c client.Client, template corev1.PodTemplateSpec) map[string][]string {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = "kube-system", "apart-"
	if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, container := range pod.Spec.Containers {
		for _, m := range container.VolumeMounts {
			if m.MountPath != tokenPath {
				continue
			}
			i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
			name := m.Name
			if secret := pod.Spec.Volumes[i].Secret; secret != nil {
				name = secret.SecretName
			}
			out[container.Name] = append(out[container.Name], name)
		}
	}
	return out
}

// tokenOf waits until kube-controller-manager has filled in a Secret of kube-system.
func tokenOf(t *testing.T, c client.Client, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: name}, secret)
		complete := len(secret.Data["token"]) > 0 && len(secret.Data["ca.crt"]) > 0 && len(secret.Data["namespace"]) > 0
		return err == nil && complete, err
	})
	if err != nil {
		t.Fatalf("Secret %s has no token: %v", name, err)
	}
	return string(secret.Data["token"])
}

func bearer(t *testing.T, cp *controlplane.ControlPlane, token string) *kubernetes.Clientset {
	t.Helper()
	config := rest.AnonymousClientConfig(cp.Admin())
	config.BearerToken = token
	out, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// may answers as `kubectl auth can-i` does, of a permission such as "create pods/binding".
func may(t *testing.T, who kubernetes.Interface, permission string) bool {
	t.Helper()
	verb, resource, _ := strings.Cut(permission, " ")
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Subresource: subresource},
	}}
	review, err := who.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

package controlplane_test

import (
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/e2e/controlplane"
)

func tokensNameTheirBearer(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	token, err := cp.Token("system:node:one", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	other, err := cp.Token("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	_, sum, _ := strings.Cut(strings.TrimPrefix(token, "k8s-aws-v1."), ".")
	body, _, _ := strings.Cut(other, ".ey")
	forged := other[:strings.LastIndex(other, ".")+1] + sum
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{"its own": {token, true}, "forged": {forged, false}, "cut": {body, false}} {
		config := rest.AnonymousClientConfig(cp.Admin())
		config.BearerToken = c.token
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		switch {
		case !c.ok && !apierrors.IsUnauthorized(err):
			t.Errorf("%s token: %v", name, err)
		case c.ok && (err != nil || got.Status.UserInfo.Username != "system:node:one" || !slices.Contains(got.Status.UserInfo.Groups, "system:nodes")):
			t.Errorf("%s token: %v, %v", name, got, err)
		}
	}
}

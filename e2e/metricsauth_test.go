package e2e_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scraped is the status that GET /metrics with a token is answered with, by a launcher that serves TLS; 0 while it does not.
func scraped(t *testing.T, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(shared.LauncherURL("/metrics"), "http:", "https:", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	// The launcher makes its certificate at each start.
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	response, err := c.Do(r)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

// tokenOf is a token of a new service account of the test's namespace.
func (w *world) tokenOf(account string) string {
	w.t.Helper()
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: account}})
	request, err := w.Client().CoreV1().ServiceAccounts(w.name).CreateToken(w.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return request.Status.Token
}

// The launcher asks the API server who reads its metrics, where its settings say so, and goes on with its work.
func TestMetricsAreForThoseWhoMayReadThemAlone(t *testing.T) {
	w := newWorld(t, "metrics-auth")
	w.pool("metrics-auth", nil)
	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-auth"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-auth"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "prometheus"}},
	}
	w.create(reader, binding)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := errors.Join(w.client.Delete(ctx, binding), w.client.Delete(ctx, reader)); err != nil {
			t.Error(err)
		}
	})
	tenant, prometheus := w.tokenOf("tenant"), w.tokenOf("prometheus")
	w.await(t, "the rule for prometheus to be in force", func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:                  "system:serviceaccount:" + w.name + ":prometheus",
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		}}
		return w.client.Create(t.Context(), review) == nil && review.Status.Allowed
	})
	w.restartWith(append(launcherSettings(featureGates), "metricsAuthentication: true\n"...))
	for begin := time.Now(); scraped(t, "") == 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > mostPatience {
			t.Fatalf("the launcher serves no TLS after %s", mostPatience)
		}
	}
	for who, c := range map[string]struct {
		token string
		want  int
	}{
		"nobody": {"", http.StatusUnauthorized}, "a tenant": {tenant, http.StatusForbidden}, "prometheus": {prometheus, http.StatusOK},
	} {
		if got := scraped(t, c.token); got != c.want {
			t.Errorf("%s gets %d, want %d", who, got, c.want)
		}
	}
	w.deployment("web", 1, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(1)
}

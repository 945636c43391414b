package controlplane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-k8s/slipway/e2e/controlplane"
	"github.com/slipway-k8s/slipway/launcher"
	"github.com/slipway-k8s/slipway/manifests"
)

// metricsAreForReaders serves the launcher's metrics as it does, with its rights, and reads them as nobody, as a user without the right, and
// as one with it, who verifies the certificate.
func metricsAreForReaders(t *testing.T, cp *controlplane.ControlPlane, c client.Client) {
	t.Helper()
	settings := launcher.Defaults()
	settings.MetricsAuthentication, settings.MetricsAddress = true, freeAddress(t)
	settings.MetricsCertDir = t.TempDir()
	if _, err := launcher.MetricsServer(settings); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("a certificate that is not there: %v", err)
	}
	authority := certificate(t, settings.MetricsCertDir)
	serveMetrics(t, cp, settings)
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-metrics"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "prometheus"}},
		},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	// The API server's authorizer sees new rules a moment later, and its refusal would be kept for a while.
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "prometheus", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		asked := review.DeepCopy()
		err := c.Create(ctx, asked)
		return asked.Status.Allowed, err
	}); err != nil {
		t.Fatalf("the rule that lets prometheus read metrics: %v", err)
	}
	reader := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}}}
	for user, want := range map[string]int{"": http.StatusUnauthorized, "tenant": http.StatusForbidden, "prometheus": http.StatusOK} {
		if got := scrape(t, cp, reader, settings.MetricsAddress, user); got != want {
			t.Errorf("user %q gets %d, want %d", user, got, want)
		}
	}
	// controller-runtime answers a token that the API server does not know with 500.
	if got := scrape(t, cp, reader, settings.MetricsAddress, "forged"); got == http.StatusOK {
		t.Error("a token that the API server does not know is answered with metrics")
	}
	if response, err := http.Get("http://" + settings.MetricsAddress + "/metrics"); err == nil {
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered with metrics")
		}
	}
}

// scrape is the status that a user's GET /metrics is answered with.
func scrape(t *testing.T, cp *controlplane.ControlPlane, reader *http.Client, address, user string) int {
	t.Helper()
	token := user
	if user != "" && user != "forged" {
		var err error
		if token, err = cp.Token(user, "system:authenticated"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	var response *http.Response
	var last error
	// It begins to listen a moment later.
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		response, last = reader.Do(r)
		return last == nil, nil
	})
	if err != nil {
		t.Fatal(err, last)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

func serveMetrics(t *testing.T, cp *controlplane.ControlPlane, settings launcher.Settings) {
	t.Helper()
	options, err := launcher.MetricsServer(settings)
	if err != nil {
		t.Fatal(err)
	}
	config, err := cp.RESTConfig(manifests.LauncherUser, "system:serviceaccounts", "system:serviceaccounts:kube-system")
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := server.NewServer(options, config, transport)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serving.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// certificate writes one for localhost and returns its authority.
func certificate(t *testing.T, folder string) *x509.CertPool {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(cert) {
		t.Fatal("no certificate")
	}
	return pool
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprint(listener.Addr())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

package launcher

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// Without EKS, the API server provides the same facts.
func TestAskAPIServer(t *testing.T) {
	cidrs := `["fd00::/108","10.96.0.0/12"]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major":"1","minor":"36+"}`)
		case cidrs != "" && r.URL.Path == "/apis/networking.k8s.io/v1/servicecidrs/kubernetes":
			fmt.Fprintf(w, `{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"kubernetes"},"spec":{"cidrs":%s}}`, cidrs)
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("certificate")}}
	config.CAData = nil
	got, err := AskAPIServer(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	want := Cluster{Endpoint: server.URL, ServiceCIDR: "fd00::/108", KubernetesVersion: "1.36", CertificateAuthority: base64.StdEncoding.EncodeToString(nil)}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	if got, err := AskAPIServer(t.Context(), config); err != nil || got.Endpoint != "" || got.KubernetesVersion != "1.36" {
		t.Errorf("inside the cluster: %+v, %v, want no endpoint", got, err)
	}
	cidrs = ""
	if got, err := AskAPIServer(t.Context(), config); err != nil || got.ServiceCIDR != defaultServiceCIDR {
		t.Errorf("without a ServiceCIDR: %+v, %v", got, err)
	}
	server.Close()
	if _, err := AskAPIServer(t.Context(), config); err == nil {
		t.Error("no error without an API server")
	}
}

// The address of the cluster's Service is no endpoint for nodes. A name in its place is the user's.
func TestNodeEndpoint(t *testing.T) {
	for _, tc := range []struct{ host, service, want string }{
		{"https://172.20.0.1:443", "172.20.0.1", ""},
		{"https://[fd00::1]:443", "fd00::1", ""},
		{"https://10.0.0.5:6443", "172.20.0.1", "https://10.0.0.5:6443"},
		{"https://10.0.0.5:6443", "", "https://10.0.0.5:6443"},
		{"https://api.example.com:443", "api.example.com", "https://api.example.com:443"},
	} {
		if got := nodeEndpoint(tc.host, tc.service); got != tc.want {
			t.Errorf("%s where the Service is %q: %q, want %q", tc.host, tc.service, got, tc.want)
		}
	}
}

// The cluster's DNS is Service kube-dns. A cluster may have none; one without an address is an error.
func TestDNSAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		body, want string
		fails      bool
	}{
		"IPv6":       {200, `{"kind":"Service","apiVersion":"v1","spec":{"clusterIP":"fd00::a"}}`, "fd00::a", false},
		"IPv4":       {200, `{"kind":"Service","apiVersion":"v1","spec":{"clusterIP":"10.100.0.10"}}`, "10.100.0.10", false},
		"headless":   {200, `{"kind":"Service","apiVersion":"v1","spec":{"clusterIP":"None"}}`, "", true},
		"no Service": {404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, "", false},
		"forbidden":  {403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, "", true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/namespaces/kube-system/services/kube-dns" {
				t.Errorf("%s: %s was read", name, r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.status)
			fmt.Fprint(w, tc.body)
		}))
		got, err := DNSAddress(t.Context(), &rest.Config{Host: server.URL})
		server.Close()
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

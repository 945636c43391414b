package aws

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// A stand-in for AWS without EKS answers with a page: the API server is asked instead, for what the settings leave open.
func TestClusterWithoutEKS(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("<html>not here</html>"))
	}))
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	cfg := Config{ClusterName: "prod", ServiceCIDR: "10.0.0.0/16", AWS: awssdk.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: client,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}}
	describe := func() (cluster, error) {
		t.Helper()
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c.describeCluster(t.Context())
	}
	if _, err := describe(); err == nil {
		t.Error("no error although nobody tells")
	}
	cfg.Fallback = func(context.Context) (ClusterFacts, error) {
		return ClusterFacts{Endpoint: "https://10.0.0.1", CertificateAuthority: "Y2E=", ServiceCIDR: "10.96.0.0/12", KubernetesVersion: "1.36"}, nil
	}
	got, err := describe()
	if err != nil || got.Endpoint != "https://10.0.0.1" || got.CertificateAuthority != "Y2E=" || got.version != "1.36" || got.ServiceCIDR != "10.0.0.0/16" {
		t.Errorf("%+v, %v", got, err)
	}
	cfg.Fallback = func(context.Context) (ClusterFacts, error) { return ClusterFacts{}, errors.New("no API server") }
	if _, err := describe(); err == nil {
		t.Error("no error although both are silent")
	}
}

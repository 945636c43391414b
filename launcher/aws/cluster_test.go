package aws

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
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

// eksOfOne is an EKS that has one cluster, or fails.
type eksOfOne struct{ fails error }

func (e *eksOfOne) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	status, isAnswer := errors.AsType[eksError](e.fails)
	switch {
	case e.fails == nil:
		_, _ = w.WriteString(`{"cluster":{"name":"prod","endpoint":"https://eks","version":"1.35","certificateAuthority":{"data":"RUtT"},` +
			`"kubernetesNetworkConfig":{"ipFamily":"ipv6","serviceIpv6Cidr":"fd30::/108"}}}`)
	case isAnswer:
		w.Header().Set("X-Amzn-Errortype", string(status))
		w.WriteHeader(map[eksError]int{"ThrottlingException": 429, "ServiceUnavailableException": 503, "AccessDeniedException": 403}[status])
		_, _ = w.WriteString(`{"message":"no"}`)
	default:
		return nil, e.fails
	}
	return w.Result(), nil
}

// eksError is the code of an error that EKS answers with.
type eksError string

func (r eksError) Error() string { return string(r) }

// What EKS has described stays in use when EKS fails later: the API server's answer has no endpoint for nodes, and its range of Services is a guess
// where it may not be read. Without an answer of EKS the API server's counts only where EKS will not answer a moment later.
func TestClusterWhenEKSFails(t *testing.T) {
	unreachable := errors.New("no route to host")
	for name, tc := range map[string]struct {
		fails             error
		configured, asked string
		// after is the endpoint and version once EKS has answered before, first without; empty for an error.
		after, first string
	}{
		"throttled":                          {eksError("ThrottlingException"), "", "https://10.0.0.1", "https://eks 1.35", ""},
		"out of order":                       {eksError("ServiceUnavailableException"), "", "https://10.0.0.1", "https://eks 1.35", ""},
		"out of order, with clusterEndpoint": {eksError("ServiceUnavailableException"), "https://own", "", "https://own 1.35", "https://own 1.36"},
		"denied":                             {eksError("AccessDeniedException"), "", "https://10.0.0.1", "https://eks 1.36", "https://10.0.0.1 1.36"},
		"denied, inside the cluster":         {eksError("AccessDeniedException"), "", "", "https://eks 1.36", " 1.36"},
		"denied, with clusterEndpoint":       {eksError("AccessDeniedException"), "https://own", "", "https://own 1.36", "https://own 1.36"},
		"unreachable, a kubeconfig":          {unreachable, "", "https://10.0.0.1", "https://eks 1.36", "https://10.0.0.1 1.36"},
		"unreachable, inside the cluster":    {unreachable, "", "", "https://eks 1.36", ""},
		"unreachable, with clusterEndpoint":  {unreachable, "https://own", "", "https://own 1.36", "https://own 1.36"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, before := range []bool{true, false} {
					server := &eksOfOne{}
					_, c := newShop(t, func(cfg *Config) {
						cfg.ClusterEndpoint, cfg.AWS.HTTPClient = tc.configured, &http.Client{Transport: server}
						cfg.Fallback = func(context.Context) (ClusterFacts, error) {
							return ClusterFacts{Endpoint: tc.asked, CertificateAuthority: "Y2E=", ServiceCIDR: "10.100.0.0/16", KubernetesVersion: "1.36"}, nil
						}
					})
					want := tc.first
					if before {
						want = tc.after
						if _, err := c.describeCluster(t.Context()); err != nil {
							t.Fatal(err)
						}
						time.Sleep(c.cfg.Periods.Cluster + time.Second)
					}
					server.fails = tc.fails
					got, err := c.describeCluster(t.Context())
					if answer := got.Endpoint + " " + got.version; (err == nil) != (want != "") || err == nil && answer != want {
						t.Errorf("with an answer before %v: %q, %v, want %q", before, answer, err, want)
					}
					if before && (!got.IPv6 || got.ServiceCIDR != "fd30::/108" || got.CertificateAuthority != "RUtT") {
						t.Errorf("what EKS described is lost: %+v", got)
					}
				}
			})
		})
	}
}

// EKS, or else the API server, says which IP family the cluster has. Nodes of an IPv6 cluster get the address of its DNS: the Service's, or the one
// where EKS puts it.
func TestClusterOfIPv6(t *testing.T) {
	const cidr = "fd30:1c53:5f8a::/108"
	answer := &ekstypes.Cluster{KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{IpFamily: "ipv6", ServiceIpv6Cidr: awssdk.String(cidr)}}
	for name, got := range map[string]cluster{
		"EKS": (cluster{}).completed(answer), "API server": (cluster{}).completed(ClusterFacts{ServiceCIDR: cidr}.described()),
	} {
		if !got.IPv6 || got.ServiceCIDR != cidr {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := (cluster{}).completed(ClusterFacts{ServiceCIDR: "10.96.0.0/12"}.described()); got.IPv6 || got.ServiceCIDR != "10.96.0.0/12" {
		t.Errorf("IPv4: %+v", got)
	}
	for name, tc := range map[string]struct {
		cidr, service string
		failing       error
		want          string
	}{
		"IPv6":                    {cidr, "fd30:1c53:5f8a::53", nil, "fd30:1c53:5f8a::53"},
		"IPv6 without a Service":  {cidr, "", nil, "fd30:1c53:5f8a::a"},
		"IPv6 without permission": {cidr, "", errors.New("forbidden"), "fd30:1c53:5f8a::a"},
		"IPv4":                    {"10.100.0.0/16", "10.100.0.53", nil, "10.100.0.53"},
		"IPv4 without a Service":  {"10.100.0.0/16", "", nil, ""},
	} {
		_, c := newWire(t, func(cfg *Config) {
			cfg.ServiceCIDR = tc.cidr
			cfg.ClusterDNS = func(context.Context) (string, error) { return tc.service, tc.failing }
		})
		if got, err := c.describeCluster(t.Context()); err != nil || got.DNS != tc.want {
			t.Errorf("%s: the cluster's DNS is %q (%v), want %q", name, got.DNS, err, tc.want)
		}
	}
}

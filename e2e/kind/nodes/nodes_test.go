package nodes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

const userData = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: prod, apiServerEndpoint: "https://192.168.0.2:6443", certificateAuthority: Y2E=, cidr: 10.96.0.0/16}
  kubelet:
    config: {maxPods: 20}
    flags: ['--node-labels="team=a"', '--v=4']
`

// authority makes one as kubeadm does.
func authority(t *testing.T) Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAuthority(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func testMode(t *testing.T) *Mode {
	t.Helper()
	m, err := New(Config{
		Image: "node:1", Network: "kind", KindCluster: "kind", Cluster: "prod", Endpoint: "https://192.168.0.2:6443",
		Authority: authority(t), MemoryBytes: 24 << 30, CPUs: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func launched() instance.Instance {
	return instance.Instance{
		ID: "i-1", Arch: runtime.GOARCH, Zone: "us-east-1a", CPUs: 2, MemoryMiB: 8192, PodLimit: 29, PrivateIP: "192.168.96.4",
		PrivateDNSName: "ip-192-168-96-4.ec2.internal", UserData: userData,
	}
}

func TestFirstBoot(t *testing.T) {
	t.Parallel()
	m := testMode(t)
	files, err := m.firstBoot(launched())
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		ProviderID     string            `json:"providerID"`
		MaxPods        int               `json:"maxPods"`
		ClusterDNS     []string          `json:"clusterDNS"`
		SystemReserved map[string]string `json:"systemReserved"`
	}
	if err := json.Unmarshal(files["var/lib/kubelet/config.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	if config.ProviderID != "aws:///us-east-1a/i-1" || config.MaxPods != 20 || config.ClusterDNS[0] != "10.96.0.10" {
		t.Errorf("configuration %+v", config)
	}
	// The host's two other cores, and what it has beyond 8192 MiB less 3% less 200 MiB.
	if config.SystemReserved["cpu"] != "2" || config.SystemReserved["memory"] != "16829Mi" {
		t.Errorf("systemReserved %v", config.SystemReserved)
	}
	flags := string(files["etc/default/kubelet"])
	for _, want := range []string{"--node-ip=192.168.96.4", "--node-labels=team=a", "--v=4", "--cloud-provider=external"} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q lacks %s", flags, want)
		}
	}
	kubeconfig, err := clientcmd.Load(files["etc/kubernetes/kubelet.conf"])
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(kubeconfig.AuthInfos["kubelet"].ClientCertificateData)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificate.CheckSignatureFrom(m.cfg.Authority.certificate); err != nil {
		t.Error(err)
	}
	if s := certificate.Subject; s.CommonName != "system:node:ip-192-168-96-4.ec2.internal" || s.Organization[0] != "system:nodes" {
		t.Errorf("the kubelet is %s", s)
	}
}

func TestWhatDoesNotJoin(t *testing.T) {
	t.Parallel()
	m := testMode(t)
	for want, change := range map[string]func(*instance.Instance){
		"kubernetes.io/arch": func(i *instance.Instance) { i.Arch = "s390x" },
		"fewer":              func(i *instance.Instance) { i.CPUs = 8 },
		"ask for less":       func(i *instance.Instance) { i.MemoryMiB = 64 << 10 },
		"cluster":            func(i *instance.Instance) { i.UserData = strings.Replace(userData, "prod", "other", 1) },
		"endpoint":           func(i *instance.Instance) { i.UserData = strings.Replace(userData, "192.168.0.2", "192.168.0.9", 1) },
	} {
		i := launched()
		change(&i)
		if err := m.Machine(t.Context(), i); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "i-1") {
			t.Errorf("want an error of instance i-1 about %s, got %v", want, err)
		}
	}
}

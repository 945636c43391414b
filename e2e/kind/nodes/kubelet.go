package nodes

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

// Authority is the cluster's own, with its key.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority reads /etc/kubernetes/pki/ca.crt and ca.key of a control plane that kubeadm made.
func NewAuthority(certificate, key []byte) (Authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Authority{}, fmt.Errorf("nodes: authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return Authority{}, errors.New("nodes: authority: the key does not sign")
	}
	parsed, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return Authority{}, fmt.Errorf("nodes: authority: %w", err)
	}
	return Authority{certificate: parsed, key: signer}, nil
}

// issue makes a client certificate for a day.
func (a Authority) issue(user, group string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: []string{group}},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// kubeconfig of the node's kubelet.
func (m *Mode) kubeconfig(i instance.Instance, endpoint string, authority []byte) ([]byte, error) {
	certificate, key, err := m.cfg.Authority.issue("system:node:"+i.PrivateDNSName, "system:nodes")
	if err != nil {
		return nil, err
	}
	const name = "kubelet"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: authority}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// kubeletConfig is nodeadm's with what kind's image asks for: its cgroups, and cgroup v1 where the host has it.
func (m *Mode) kubeletConfig(i instance.Instance, user userdata.Config) ([]byte, error) {
	dns, err := clusterDNS(user.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("user data: spec.cluster.cidr: %w", err)
	}
	config := map[string]any{
		"apiVersion":     "kubelet.config.k8s.io/v1beta1",
		"kind":           "KubeletConfiguration",
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}, "x509": map[string]any{"clientCAFile": authorityFile}},
		"authorization":  map[string]any{"mode": "Webhook"},
		"cgroupDriver":   "systemd", "cgroupRoot": "/kubelet", "failCgroupV1": false, "failSwapOn": false,
		"clusterDNS":               []string{dns},
		"clusterDomain":            "cluster.local",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		// The disk is the host's, which all nodes share.
		"evictionHard":                map[string]string{"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
		"imageGCHighThresholdPercent": 100,
		"kubeReserved":                map[string]string{"cpu": strconv.FormatInt(i.ReservedMilliCPU(), 10) + "m", "memory": strconv.FormatInt(255+11*i.PodLimit, 10) + "Mi"},
		"maxPods":                     i.PodLimit,
		"oomScoreAdj":                 0,
		"providerID":                  i.ProviderID(),
	}
	maps.Copy(config, user.Kubelet)
	// What the host has and the instance has not is the system's.
	config["systemReserved"] = map[string]string{
		"cpu": strconv.FormatInt(m.cfg.CPUs-i.CPUs, 10), "memory": strconv.FormatInt((m.cfg.MemoryBytes-i.SeenMemory())>>20, 10) + "Mi",
	}
	return json.MarshalIndent(config, "", "  ")
}

// authorityFile is where the cluster's authority is written for the kubelet.
const authorityFile = "/etc/kubernetes/pki/ca.crt"

// clusterDNS is the tenth address of the services' range, where EKS and kubeadm put it.
func clusterDNS(cidr string) (string, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	address := network.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	return address.String(), nil
}

// arguments are the kubelet's flags: kind's, nodeadm's, and those of the user data.
func arguments(i instance.Instance, user userdata.Config) []string {
	own := []string{
		"--runtime-cgroups=/system.slice/containerd.service", "--cloud-provider=external",
		"--hostname-override=" + i.PrivateDNSName, "--node-ip=" + i.PrivateIP,
	}
	return append(own, user.Arguments()...)
}

// pack returns the files as an archive without folders, which the extraction must create.
func pack(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

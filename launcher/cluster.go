package launcher

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Cluster holds the cluster's properties that nodes need to join.
type Cluster struct {
	// Endpoint is the API server's URL; empty if none is known that nodes can reach.
	Endpoint string
	// CertificateAuthority is the API server's, PEM in base64.
	CertificateAuthority string
	// ServiceCIDR is the range of the cluster's Services, in the cluster's IP family.
	ServiceCIDR string
	// KubernetesVersion such as 1.36.
	KubernetesVersion string
}

// defaultServiceCIDR is EKS's default if the VPC is in 192.168.0.0/16 or 172.16.0.0/12.
const defaultServiceCIDR = "10.100.0.0/16"

// AskAPIServer returns what EKS would return for the cluster: the endpoint and certificate authority that the launcher itself uses, as far as nodes
// can use them too, the server's version, and the Services' range from its ServiceCIDR, or a default if it has none.
func AskAPIServer(ctx context.Context, config *rest.Config) (Cluster, error) {
	ca, err := certificateAuthority(config)
	if err != nil {
		return Cluster{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Cluster{}, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return Cluster{}, fmt.Errorf("asking the API server for its version: %w", err)
	}
	return Cluster{
		Endpoint: nodeEndpoint(config.Host, os.Getenv(serviceHost)), CertificateAuthority: ca,
		ServiceCIDR:       serviceCIDR(ctx, client),
		KubernetesVersion: version.Major + "." + strings.TrimRight(version.Minor, "+"),
	}, nil
}

// serviceHost is the variable in which a Pod has the address of Service default/kubernetes.
const serviceHost = "KUBERNETES_SERVICE_HOST"

// nodeEndpoint returns the URL at which nodes reach the API server, by the one at which the launcher does. It is empty if that is the address of the
// cluster's Service: a machine that boots has no route to it. A service that is a name was set by the user, to what is no Service.
func nodeEndpoint(host, service string) string {
	address, err := url.Parse(host)
	if _, ip := netip.ParseAddr(service); err == nil && ip == nil && address.Hostname() == service {
		return ""
	}
	return host
}

// certificateAuthority returns the API server's from its client's configuration, PEM in base64.
func certificateAuthority(config *rest.Config) (string, error) {
	copied := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(copied); err != nil {
		return "", fmt.Errorf("the API server's certificate authority: %w", err)
	}
	return base64.StdEncoding.EncodeToString(copied.CAData), nil
}

// serviceCIDR returns the first range of the ServiceCIDR that the API server creates from its flags. The first one is of the cluster's IP family:
// a Service without ipFamilies gets its address from that range, as kube-dns does.
func serviceCIDR(ctx context.Context, client kubernetes.Interface) string {
	object, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil {
		if len(object.Spec.CIDRs) > 0 {
			return object.Spec.CIDRs[0]
		}
		err = errors.New("it has no range")
	}
	klog.FromContext(ctx).Info("ServiceCIDR kubernetes could not be read: nodes get the default range; set serviceCIDR if it is another",
		"why", err.Error(), "serviceCIDR", defaultServiceCIDR)
	return defaultServiceCIDR
}

// The Service of the cluster's DNS, which EKS, kubeadm and kOps call so (Karpenter reads the same one).
const (
	dnsNamespace = "kube-system"
	dnsService   = "kube-dns"
)

// DNSAddress returns the cluster IP of Service kube-system/kube-dns; empty if there is no such Service.
func DNSAddress(ctx context.Context, config *rest.Config) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	service, err := client.CoreV1().Services(dnsNamespace).Get(ctx, dnsService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Service %s/%s: %w", dnsNamespace, dnsService, err)
	}
	if _, err := netip.ParseAddr(service.Spec.ClusterIP); err != nil {
		return "", fmt.Errorf("reading Service %s/%s: spec.clusterIP is %q, an IP address is expected", dnsNamespace, dnsService, service.Spec.ClusterIP)
	}
	return service.Spec.ClusterIP, nil
}

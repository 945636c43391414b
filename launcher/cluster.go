package launcher

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Cluster holds the cluster's properties that nodes need to join.
type Cluster struct {
	// Endpoint is the API server's URL.
	Endpoint string
	// CertificateAuthority is the API server's, PEM in base64.
	CertificateAuthority string
	// ServiceCIDR is the range of the cluster's Services, IPv4.
	ServiceCIDR string
	// KubernetesVersion such as 1.36.
	KubernetesVersion string
}

// defaultServiceCIDR is EKS's default if the VPC is in 192.168.0.0/16 or 172.16.0.0/12.
const defaultServiceCIDR = "10.100.0.0/16"

// AskAPIServer returns what EKS would return for the cluster: the endpoint and certificate authority that the launcher itself uses, the
// server's version, and the Services' range from its ServiceCIDR, or a default if it has none.
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
		Endpoint: config.Host, CertificateAuthority: ca,
		ServiceCIDR:       serviceCIDR(ctx, client),
		KubernetesVersion: version.Major + "." + strings.TrimRight(version.Minor, "+"),
	}, nil
}

// certificateAuthority returns the API server's from its client's configuration, PEM in base64.
func certificateAuthority(config *rest.Config) (string, error) {
	copied := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(copied); err != nil {
		return "", fmt.Errorf("the API server's certificate authority: %w", err)
	}
	return base64.StdEncoding.EncodeToString(copied.CAData), nil
}

// serviceCIDR returns the first IPv4 range of the ServiceCIDR that the API server creates from its flags.
func serviceCIDR(ctx context.Context, client kubernetes.Interface) string {
	object, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil {
		for _, text := range object.Spec.CIDRs {
			if prefix, bad := netip.ParsePrefix(text); bad == nil && prefix.Addr().Is4() {
				return text
			}
		}
		err = errors.New("it has no IPv4 range")
	}
	klog.FromContext(ctx).Info("ServiceCIDR kubernetes could not be read: nodes get the default range; set serviceCIDR if it is another",
		"why", err.Error(), "serviceCIDR", defaultServiceCIDR)
	return defaultServiceCIDR
}

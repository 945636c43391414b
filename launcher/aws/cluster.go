package aws

import (
	"context"
	"errors"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/slipway-k8s/slipway/launcher/aws/userdata"
)

// cluster holds the properties of the EKS cluster that launches depend on.
type cluster struct {
	userdata.Cluster
	// version is the Kubernetes version, such as 1.36.
	version string
	// fromEKS means that EKS described the cluster.
	fromEKS bool
}

// describeCluster returns the cluster's properties from the configuration, from EKS those that the configuration leaves empty, and the address
// of the cluster's DNS.
func (c *Cloud) describeCluster(ctx context.Context) (cluster, error) {
	own := cluster{
		Cluster: userdata.Cluster{
			Name: c.cfg.ClusterName, Endpoint: c.cfg.ClusterEndpoint,
			CertificateAuthority: c.cfg.ClusterCA, ServiceCIDR: c.cfg.ServiceCIDR, IPv6: isIPv6(c.cfg.ServiceCIDR),
		},
		version: c.cfg.KubernetesVersion,
	}
	if own.Endpoint != "" && own.CertificateAuthority != "" && own.ServiceCIDR != "" && own.version != "" {
		return own.withDNS(c.dns.address(ctx)), nil
	}
	known, err := c.clusters.get(ctx, own.Name, func(ctx context.Context) (cluster, error) {
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &own.Name}, soon)
		if err == nil {
			own.fromEKS = true
			return own.completed(out.Cluster), nil
		}
		err = fmt.Errorf("describing EKS cluster %s: %w", own.Name, err)
		last := c.clusters.latest(own.Name)
		// The user's endpoint is not in doubt: nodes join while EKS fails.
		other := isWithoutEKS(err) || own.Endpoint != "" && !last.fromEKS
		if c.cfg.Fallback == nil || ctx.Err() != nil || !other {
			return cluster{}, err
		}
		return own.otherwise(ctx, c.cfg, last, err)
	})
	if err != nil {
		return cluster{}, err
	}
	return known.withDNS(c.dns.address(ctx)), nil
}

// isWithoutEKS reports whether EKS is not expected to describe the cluster a moment later: it refuses to, does not exist at a stand-in, or cannot be
// reached, as in a VPC without an endpoint of EKS.
func isWithoutEKS(err error) bool {
	return !isTransient(err) || isNotImplemented(err) || isUnreachable(err)
}

// otherwise completes the cluster's properties with those of the configuration's Fallback, because EKS did not describe the cluster. What EKS has
// described before stays in use, but for the version: nothing else of it changes.
func (c cluster) otherwise(ctx context.Context, cfg Config, last cluster, why error) (cluster, error) {
	facts, err := cfg.Fallback(ctx)
	if err != nil {
		return cluster{}, errors.Join(why, err)
	}
	c = c.completed(facts.described())
	if last.fromEKS {
		last.version = c.version
		c = last
	}
	if c.Endpoint == "" && isTransient(why) {
		return cluster{}, fmt.Errorf("%w; set clusterEndpoint if EKS cannot be reached", why)
	}
	cfg.Logger.Info("EKS does not describe the cluster: its API server was asked instead", "why", why.Error(),
		"endpoint", c.Endpoint, "serviceCIDR", c.ServiceCIDR, "kubernetesVersion", c.version)
	return c, nil
}

// withDNS returns the cluster with the address of its DNS. The AMIs of an IPv6 cluster have none of their own.
func (c cluster) withDNS(ip string) cluster {
	if c.DNS = ip; ip == "" && c.IPv6 {
		c.DNS = usualDNS(c.ServiceCIDR)
	}
	return c
}

// soon limits the SDK's retries: the configuration's Fallback can answer instead, or the last answer is used, or the caller asks again.
func soon(o *eks.Options) { o.Retryer = retry.AddWithMaxAttempts(o.Retryer, reportedAfter) }

// ClusterFacts are the cluster's properties that a node needs to join.
type ClusterFacts struct {
	// Endpoint is the API server's URL; empty if none is known that nodes can reach.
	Endpoint string
	// CertificateAuthority is the API server's, PEM in base64.
	CertificateAuthority string
	// ServiceCIDR is the range of the cluster's Services, in the cluster's IP family.
	ServiceCIDR string
	// KubernetesVersion is the control plane's, such as 1.36.
	KubernetesVersion string
}

// described returns the facts in the form in which EKS returns them.
func (f ClusterFacts) described() *ekstypes.Cluster {
	network := &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv4Cidr: &f.ServiceCIDR, IpFamily: ekstypes.IpFamilyIpv4}
	if isIPv6(f.ServiceCIDR) {
		network = &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv6Cidr: &f.ServiceCIDR, IpFamily: ekstypes.IpFamilyIpv6}
	}
	return &ekstypes.Cluster{
		Endpoint: &f.Endpoint, Version: &f.KubernetesVersion, CertificateAuthority: &ekstypes.Certificate{Data: &f.CertificateAuthority},
		KubernetesNetworkConfig: network,
	}
}

func (c cluster) completed(from *ekstypes.Cluster) cluster {
	if from == nil {
		return c
	}
	fill := func(field *string, value *string) {
		if *field == "" {
			*field = awssdk.ToString(value)
		}
	}
	fill(&c.Endpoint, from.Endpoint)
	fill(&c.version, from.Version)
	if from.CertificateAuthority != nil {
		fill(&c.CertificateAuthority, from.CertificateAuthority.Data)
	}
	if network := from.KubernetesNetworkConfig; network != nil {
		c.IPv6 = network.IpFamily == ekstypes.IpFamilyIpv6
		if c.IPv6 {
			fill(&c.ServiceCIDR, network.ServiceIpv6Cidr)
		} else {
			fill(&c.ServiceCIDR, network.ServiceIpv4Cidr)
		}
	}
	return c
}

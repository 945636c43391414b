package aws

import (
	"context"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/slipway-k8s/slipway/launcher/aws/userdata"
)

// cluster is what the launcher knows of the EKS cluster.
type cluster struct {
	userdata.Cluster
	// version such as 1.36.
	version string
	// ipv6 says that pods and Services have IPv6 addresses.
	ipv6 bool
}

// describeCluster returns what the configuration says, and what it leaves open from EKS.
func (c *Cloud) describeCluster(ctx context.Context) (cluster, error) {
	own := cluster{
		Cluster: userdata.Cluster{
			Name: c.cfg.ClusterName, Endpoint: c.cfg.ClusterEndpoint,
			CertificateAuthority: c.cfg.ClusterCA, ServiceCIDR: c.cfg.ServiceCIDR,
		},
		version: c.cfg.KubernetesVersion,
	}
	if own.Endpoint != "" && own.CertificateAuthority != "" && own.ServiceCIDR != "" && own.version != "" {
		return own, nil
	}
	return c.clusters.get(ctx, own.Name, func(ctx context.Context) (cluster, error) {
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &own.Name})
		if err != nil {
			return cluster{}, fmt.Errorf("describing EKS cluster %s: %w", own.Name, err)
		}
		return own.completed(out.Cluster), nil
	})
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
		fill(&c.ServiceCIDR, network.ServiceIpv4Cidr)
		c.ipv6 = network.IpFamily == ekstypes.IpFamilyIpv6
	}
	return c
}

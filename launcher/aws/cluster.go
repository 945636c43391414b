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
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &own.Name}, c.fewAttempts)
		if err == nil {
			return own.completed(out.Cluster), nil
		}
		err = fmt.Errorf("describing EKS cluster %s: %w", own.Name, err)
		if c.cfg.Fallback == nil || ctx.Err() != nil {
			return cluster{}, err
		}
		facts, other := c.cfg.Fallback(ctx)
		if other != nil {
			return cluster{}, errors.Join(err, other)
		}
		c.cfg.Logger.Info("EKS does not describe the cluster: its API server was asked instead", "why", err.Error(),
			"endpoint", facts.Endpoint, "serviceCIDR", facts.ServiceCIDR, "kubernetesVersion", facts.KubernetesVersion)
		return own.completed(facts.described()), nil
	})
}

// fewAttempts has the SDK give up soon where somebody else can be asked.
func (c *Cloud) fewAttempts(o *eks.Options) {
	if c.cfg.Fallback != nil {
		o.Retryer = retry.AddWithMaxAttempts(o.Retryer, optionalAttempts)
	}
}

// ClusterFacts is what nodes are told of their cluster.
type ClusterFacts struct {
	// Endpoint is the API server's URL.
	Endpoint string
	// CertificateAuthority of the API server, PEM in base64.
	CertificateAuthority string
	// ServiceCIDR of the cluster's Services, IPv4.
	ServiceCIDR string
	// KubernetesVersion such as 1.36.
	KubernetesVersion string
}

// described is the same as EKS would tell it.
func (f ClusterFacts) described() *ekstypes.Cluster {
	return &ekstypes.Cluster{
		Endpoint: &f.Endpoint, Version: &f.KubernetesVersion, CertificateAuthority: &ekstypes.Certificate{Data: &f.CertificateAuthority},
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv4Cidr: &f.ServiceCIDR, IpFamily: ekstypes.IpFamilyIpv4},
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
		fill(&c.ServiceCIDR, network.ServiceIpv4Cidr)
		c.ipv6 = network.IpFamily == ekstypes.IpFamilyIpv6
	}
	return c
}

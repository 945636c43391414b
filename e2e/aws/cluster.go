package aws

import (
	"net/http"
	"strings"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// clusterStore is what is told of the cluster when its API server is there.
type clusterStore struct {
	mu                 sync.Mutex
	endpoint, caBase64 string
}

func (c *clusterStore) set(endpoint, caBase64 string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint, c.caBase64 = endpoint, caBase64
}

func (c *clusterStore) get() (endpoint, caBase64 string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoint, c.caBase64
}

// eks answers the REST API of EKS: GET /clusters and GET /clusters/NAME.
func (s *Server) eks(r request) (any, error) {
	path, ok := strings.CutPrefix(r.Action, http.MethodGet+" /clusters")
	if !ok {
		return nil, wire.UnknownAction(r.Request)
	}
	name := strings.TrimPrefix(path, "/")
	switch {
	case name == "":
		return map[string]any{"clusters": []string{s.cfg.ClusterName}}, nil
	case strings.Contains(name, "/"):
		return nil, wire.UnknownAction(r.Request)
	case name != s.cfg.ClusterName:
		return nil, wire.Errorf("ResourceNotFoundException", "No cluster found for name: %s.", name).WithStatus(http.StatusNotFound)
	}
	return map[string]any{"cluster": s.describeCluster()}, nil
}

func (s *Server) describeCluster() map[string]any {
	endpoint, ca := s.cluster.get()
	status := "ACTIVE"
	if endpoint == "" {
		status = "CREATING"
	}
	var subnets []string
	for _, subnet := range s.resources.Subnets {
		subnets = append(subnets, subnet.ID)
	}
	return map[string]any{
		"name":            s.cfg.ClusterName,
		"arn":             "arn:aws:eks:" + s.cfg.Region + ":" + s.cfg.AccountID + ":cluster/" + s.cfg.ClusterName,
		"createdAt":       wire.EpochSeconds(s.started),
		"version":         s.cfg.KubernetesVersion,
		"platformVersion": "eks.1",
		"endpoint":        endpoint,
		"status":          status,
		"roleArn":         s.iamARN("role/eksctl-" + s.cfg.ClusterName + "-cluster-ServiceRole"),
		"certificateAuthority": map[string]any{
			"data": ca,
		},
		"kubernetesNetworkConfig": map[string]any{
			"serviceIpv4Cidr": s.cfg.ServiceCIDR, "ipFamily": "ipv4",
		},
		"resourcesVpcConfig": map[string]any{
			"vpcId": s.resources.VPC.ID, "subnetIds": subnets,
			"clusterSecurityGroupId": s.resources.SecurityGroups[0].ID, "securityGroupIds": []string{},
			"endpointPublicAccess": true, "endpointPrivateAccess": true, "publicAccessCidrs": []string{"0.0.0.0/0"},
		},
		"tags": map[string]string{},
	}
}

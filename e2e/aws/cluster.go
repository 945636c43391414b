package aws

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// clusterStore holds the EKS clusters, and the endpoint of the API server once it runs.
type clusterStore struct {
	mu                 sync.Mutex
	endpoint, caBase64 string
	// created are the names of the clusters in EKS.
	created map[string]bool
}

func (c *clusterStore) create(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.created[name] {
		return false
	}
	if c.created == nil {
		c.created = map[string]bool{}
	}
	c.created[name] = true
	return true
}

func (c *clusterStore) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.created))
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

// eks serves the REST API of EKS: GET and POST /clusters, GET /clusters/NAME.
func (s *Server) eks(r request) (any, error) {
	if r.Action == http.MethodPost+" /clusters" {
		return s.createCluster(r)
	}
	path, ok := strings.CutPrefix(r.Action, http.MethodGet+" /clusters")
	if !ok {
		return nil, wire.UnknownAction(r.Request)
	}
	name := strings.TrimPrefix(path, "/")
	switch {
	case name == "":
		return map[string]any{"clusters": s.cluster.list()}, nil
	case strings.Contains(name, "/"):
		return nil, wire.UnknownAction(r.Request)
	case !slices.Contains(s.cluster.list(), name):
		return nil, wire.Errorf("ResourceNotFoundException", "No cluster found for name: %s.", name).WithStatus(http.StatusNotFound)
	}
	return map[string]any{"cluster": s.describeCluster(name)}, nil
}

func (s *Server) createCluster(r request) (any, error) {
	var in struct {
		Name               string `json:"name"`
		RoleARN            string `json:"roleArn"`
		ResourcesVPCConfig any    `json:"resourcesVpcConfig"`
	}
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	if in.Name == "" || in.RoleARN == "" || in.ResourcesVPCConfig == nil {
		return nil, wire.Errorf("InvalidParameterException", "name, roleArn and resourcesVpcConfig are required")
	}
	if !s.cluster.create(in.Name) {
		return nil, wire.Errorf("ResourceInUseException", "Cluster already exists with name: %s", in.Name).WithStatus(http.StatusConflict)
	}
	return map[string]any{"cluster": s.describeCluster(in.Name)}, nil
}

func (s *Server) describeCluster(name string) map[string]any {
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
		"name":            name,
		"arn":             "arn:aws:eks:" + s.cfg.Region + ":" + s.cfg.AccountID + ":cluster/" + name,
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
			map[bool]string{false: "serviceIpv4Cidr", true: "serviceIpv6Cidr"}[s.cfg.IPv6]: s.cfg.ServiceCIDR,
			"ipFamily": map[bool]string{false: "ipv4", true: "ipv6"}[s.cfg.IPv6],
		},
		"resourcesVpcConfig": map[string]any{
			"vpcId": s.resources.VPC.ID, "subnetIds": subnets,
			"clusterSecurityGroupId": s.resources.SecurityGroups[0].ID, "securityGroupIds": []string{},
			"endpointPublicAccess": true, "endpointPrivateAccess": true, "publicAccessCidrs": []string{"0.0.0.0/0"},
		},
		"tags": map[string]string{},
	}
}

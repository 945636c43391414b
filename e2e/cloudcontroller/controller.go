package cloudcontroller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
)

const (
	// monitorPeriod is --node-monitor-period of the cloud-controller-manager, refreshPeriod its --node-status-update-frequency.
	monitorPeriod = 5 * time.Second
	refreshPeriod = 5 * time.Minute
	// defaultNodeSyncs is the default of --concurrent-node-syncs, refreshers the number of workers of a refresh.
	defaultNodeSyncs = 1
	refreshers       = 1
)

// Config is what the cloud controller depends on.
type Config struct {
	// Client acts with the rights of a cloud-controller-manager.
	Client kubernetes.Interface
	// EC2 is asked about instances.
	EC2 EC2
	// Region is the region of all Nodes.
	Region string
	// IPv6 gives Nodes the IPv6 addresses of their instances instead of the IPv4 ones (NodeIPFamilies of cloud-provider-aws).
	IPv6 bool
	// NodeSyncs is --concurrent-node-syncs: how many Nodes are initialized at a time. 0 is the default, 1; kops gives its large clusters 10
	// (kubernetes/kops#16256).
	NodeSyncs int32
}

// Controller is the cloud-controller-manager's part for Nodes.
type Controller struct {
	factory   informers.SharedInformerFactory
	lifecycle *nodelifecycle.CloudNodeLifecycleController
	nodes     *node.CloudNodeController
}

// New returns the controllers; nothing starts before Run.
func New(cfg Config) (*Controller, error) {
	if cfg.Client == nil || cfg.EC2 == nil || cfg.Region == "" {
		return nil, errors.New("cloud controller: Client, EC2 and Region are required")
	}
	c := &Controller{factory: informers.NewSharedInformerFactory(cfg.Client, 0)}
	provider := cloud{instances: instances{ec2: cfg.EC2, region: cfg.Region, ipv6: cfg.IPv6}}
	var err error
	if c.lifecycle, err = nodelifecycle.NewCloudNodeLifecycleController(c.factory.Core().V1().Nodes(), cfg.Client, provider, monitorPeriod); err != nil {
		return nil, fmt.Errorf("cloud controller: %w", err)
	}
	if c.nodes, err = node.NewCloudNodeController(c.factory.Core().V1().Nodes(), cfg.Client, provider, refreshPeriod, cmp.Or(cfg.NodeSyncs, defaultNodeSyncs), refreshers); err != nil {
		return nil, fmt.Errorf("cloud controller: %w", err)
	}
	return c, nil
}

// NewEC2 returns the SDK's client for the AWS at the endpoint, with the SDK's own retries.
func NewEC2(endpoint, region string) EC2 {
	return ec2.New(ec2.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       region,
		Credentials:  credentials.NewStaticCredentialsProvider("AKIACLOUDCONTROLLER0", "sandbox", ""),
	})
}

// Run runs the controllers until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	c.factory.StartWithContext(ctx)
	defer c.factory.Shutdown()
	for kind, ok := range c.factory.WaitForCacheSync(ctx.Done()) {
		if !ok && ctx.Err() == nil {
			return fmt.Errorf("cloud controller: the cache of %v did not fill", kind)
		}
	}
	metrics := controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager")
	var wg sync.WaitGroup
	wg.Go(func() { c.nodes.RunWithContext(ctx, metrics) })
	wg.Go(func() { c.lifecycle.Run(ctx, metrics) })
	wg.Wait()
	return nil
}

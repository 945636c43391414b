package aws

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

// Config configures a Server. Only ClusterName is required.
type Config struct {
	// Listen is the listen address; default 127.0.0.1:0, any free port.
	Listen string
	// Region is the region; default us-east-1. Its zones are a, b and c.
	Region string
	// AccountID is the account; default 123456789012.
	AccountID string
	// ClusterName is the name of the EKS cluster.
	ClusterName string
	// KubernetesVersion is that of the EKS cluster; default 1.36.
	KubernetesVersion string
	// QueueName is the name of the interruption queue, which exists from the start; default the ClusterName.
	QueueName string
	// IPv6 gives the EKS cluster the IP family ipv6, and its VPC and subnets IPv6 ranges as well.
	IPv6 bool
	// WithoutIPv6 are the zones whose subnet has no IPv6 range although the cluster has IPv6; default none.
	WithoutIPv6 []string
	// ServiceCIDR is that of the EKS cluster; default 10.100.0.0/16, with IPv6 fd30:1c53:5f8a::/108.
	ServiceCIDR string
	// Roles are the IAM roles; default one named as in Karpenter's guide, KarpenterNodeRole-CLUSTER.
	Roles []string
	// Clock determines simulated time; default real time.
	Clock *clock.Clock
	// Seed determines prices, ids and all other random values.
	Seed int64
	// VisibleAfter is how long after CreateFleet DescribeInstances lists an instance; default 1 s, negative means at once.
	VisibleAfter time.Duration
	// TagsAfter is how much later than an instance its tags are listed, and how late changes of tags are listed; default at
	// once.
	TagsAfter time.Duration
	// RunningAfter is how long instances are pending; default 4 s, negative means no time.
	RunningAfter time.Duration
	// StoppedAfter is how long instances are stopping; default 20 s, negative means no time.
	StoppedAfter time.Duration
	// HibernatedAfter is the same for one that is hibernated; default 30 s, negative means no time. HibernatesFrom is its least age; default 2 min (EC2
	// user guide, "Troubleshoot EC2 instance hibernation"), negative means none.
	HibernatedAfter, HibernatesFrom time.Duration
	// TerminatedAfter is how long instances shut down; default 20 s, negative means no time.
	TerminatedAfter time.Duration
	// ForgottenAfter is how long DescribeInstances lists terminated instances; default 1 h.
	ForgottenAfter time.Duration
	// AnswerAfter is the least duration of every call in real time; default 5 ms, negative means none. A response that
	// arrives before its request was sent completely breaks the SDK's connection (smithy-go 1.27: the closed request body
	// reports io.EOF to net/http's writer). Over a real network this does not happen.
	AnswerAfter time.Duration
	// FleetTakes is the duration of CreateFleet and RunInstances; default none.
	FleetTakes time.Duration
	// SpotNotice is the time between a spot instance's interruption notice and its end; default 2 min (EC2 user guide, "Spot
	// Instance interruption notices").
	SpotNotice time.Duration
	// SpotInterruptions is the number of interruptions of random spot instances per hour; default none.
	SpotInterruptions float64
	// Policies are the policies of callers, by access key. A caller without one may do everything.
	Policies map[string]policy.Policy
	// LimitedKeys are the access keys whose EC2 requests are throttled as EC2 does, in simulated time; default none.
	LimitedKeys []string
	// Bare makes an account that was not set up for a cluster: it has the default VPC's subnets without tags, no role, no
	// queue and no EKS cluster, and SSM has no parameters of EKS.
	Bare bool
	// Lacks are services that do not exist, as in stand-ins for AWS: requests to them get status 501.
	Lacks []string
	// Logger logs what the server does by itself; the zero value logs nothing.
	Logger logr.Logger
}

func (c *Config) setDefaults() {
	if c.IPv6 && c.ServiceCIDR == "" {
		c.ServiceCIDR = "fd30:1c53:5f8a::/108"
	}
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Listen, "127.0.0.1:0"},
		{&c.Region, "us-east-1"},
		{&c.AccountID, "123456789012"},
		{&c.KubernetesVersion, "1.36"},
		{&c.QueueName, c.ClusterName},
		{&c.ServiceCIDR, "10.100.0.0/16"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.VisibleAfter, time.Second},
		{&c.SpotNotice, 2 * time.Minute},
		{&c.RunningAfter, 4 * time.Second},
		{&c.StoppedAfter, 20 * time.Second},
		{&c.HibernatedAfter, 30 * time.Second},
		{&c.HibernatesFrom, 2 * time.Minute},
		{&c.TerminatedAfter, 20 * time.Second},
		{&c.ForgottenAfter, time.Hour},
		{&c.AnswerAfter, 5 * time.Millisecond},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		*d.field = max(*d.field, 0)
	}
	if c.Roles == nil && !c.Bare {
		c.Roles = []string{"KarpenterNodeRole-" + c.ClusterName}
	}
	if c.Clock == nil {
		c.Clock = clock.New(1)
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.ClusterName == "" {
		errs = append(errs, errors.New("validating aws.Config: ClusterName is empty"))
	}
	if major, minor, ok := strings.Cut(c.KubernetesVersion, "."); !ok || major != "1" || strings.Contains(minor, ".") {
		errs = append(errs, fmt.Errorf("validating aws.Config: KubernetesVersion %q is not of the form 1.36", c.KubernetesVersion))
	}
	if c.SpotInterruptions < 0 {
		errs = append(errs, fmt.Errorf("validating aws.Config: SpotInterruptions %v is negative", c.SpotInterruptions))
	}
	return errors.Join(errs...)
}

// zones returns the zones of the region.
func (c *Config) zones() []string { return []string{c.Region + "a", c.Region + "b", c.Region + "c"} }

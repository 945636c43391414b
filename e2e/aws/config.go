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

// Config is what a Server depends on. Only ClusterName is required.
type Config struct {
	// Listen is the address to serve on; default 127.0.0.1:0, any free port.
	Listen string
	// Region default us-east-1; its zones are a, b and c.
	Region string
	// AccountID default 123456789012.
	AccountID string
	// ClusterName of the EKS cluster.
	ClusterName string
	// KubernetesVersion of the EKS cluster, default 1.36.
	KubernetesVersion string
	// QueueName of the interruption queue, which exists from the start; default the ClusterName.
	QueueName string
	// ServiceCIDR of the EKS cluster, default 10.100.0.0/16.
	ServiceCIDR string
	// Roles are the IAM roles there are; default one that is named as Karpenter's guide does, KarpenterNodeRole-CLUSTER.
	Roles []string
	// Clock that simulated time passes on; default real time.
	Clock *clock.Clock
	// Seed of prices, ids and all that is random.
	Seed int64
	// VisibleAfter is how long after CreateFleet DescribeInstances sees an instance; default 1 s, negative is at once.
	VisibleAfter time.Duration
	// TagsAfter is how long after an instance EC2 tells its tags, and how long after a change those that were changed;
	// default no time.
	TagsAfter time.Duration
	// RunningAfter is how long instances are pending; default 4 s, negative is no time.
	RunningAfter time.Duration
	// TerminatedAfter is how long instances shut down; default 20 s, negative is no time.
	TerminatedAfter time.Duration
	// ForgottenAfter is how long DescribeInstances shows terminated instances; default 1 h.
	ForgottenAfter time.Duration
	// AnswerAfter is how long every answer takes at least, whatever the clock; default 5 ms, negative is no time. An answer
	// that overtakes the end of its own request breaks the SDK's connection (smithy-go 1.27: the closed request body
	// reports io.EOF to net/http's writer), which over a real network does not happen.
	AnswerAfter time.Duration
	// FleetTakes is how long CreateFleet and RunInstances take to answer; default no time.
	FleetTakes time.Duration
	// SpotNotice is how long before its end a spot instance is warned; default 2 min (EC2 user guide, "Spot Instance
	// interruption notices").
	SpotNotice time.Duration
	// SpotInterruptions per hour, of random spot instances; default none.
	SpotInterruptions float64
	// Policies say what callers may do, by their access keys; whoever has none may do everything.
	Policies map[string]policy.Policy
	// LimitedKeys are the access keys whose requests to EC2 are limited as EC2 limits them, on the clock; default none.
	LimitedKeys []string
	// Bare is an account that nobody has set up for a cluster: the subnets are the default VPC's, nothing is tagged, there is
	// no role, no queue, no EKS cluster, and SSM has no parameters of EKS.
	Bare bool
	// Lacks names services that are not there, as stand-ins for AWS lack some: requests for them are answered with status 501.
	Lacks []string
	// Logger for what the server does by itself; the zero value logs nothing.
	Logger logr.Logger
}

func (c *Config) setDefaults() {
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
		errs = append(errs, errors.New("aws: Config.ClusterName is empty"))
	}
	if major, minor, ok := strings.Cut(c.KubernetesVersion, "."); !ok || major != "1" || strings.Contains(minor, ".") {
		errs = append(errs, fmt.Errorf("aws: Config.KubernetesVersion %q is not written like 1.36", c.KubernetesVersion))
	}
	if c.SpotInterruptions < 0 {
		errs = append(errs, fmt.Errorf("aws: Config.SpotInterruptions %v is negative", c.SpotInterruptions))
	}
	return errors.Join(errs...)
}

// zones are those of the region.
func (c *Config) zones() []string { return []string{c.Region + "a", c.Region + "b", c.Region + "c"} }

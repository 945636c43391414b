package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a Cloud depends on.
type Config struct {
	// AWS holds region, credentials, endpoint and retry policy: see LoadConfig. The region is required.
	AWS awssdk.Config
	// ClusterName of the EKS cluster; required.
	ClusterName string
	// ClusterEndpoint is the API server's URL; empty asks EKS.
	ClusterEndpoint string
	// ClusterCA is the API server's certificate authority, PEM in base64; empty asks EKS.
	ClusterCA string
	// ServiceCIDR of the cluster's Services, IPv4; empty asks EKS.
	ServiceCIDR string
	// KubernetesVersion such as 1.36, which AMI aliases depend on; empty asks EKS.
	KubernetesVersion string
	// Fallback tells of the cluster where EKS does not; nil asks nobody else.
	Fallback func(ctx context.Context) (ClusterFacts, error)
	// InterruptionQueue is the name of the SQS queue; empty receives nothing.
	InterruptionQueue string
	// ReservedENIs are network interfaces of each node that pods get no addresses of.
	ReservedENIs int64
	// MemoryOverhead is the share of an instance type's memory that firmware and kernel are taken to keep until a node has
	// told; nil means 0.075.
	MemoryOverhead *float64
	// IsolatedVPC says that the Price List API, which has no VPC endpoint, cannot be reached: the built-in prices count.
	IsolatedVPC bool
	// Logger for what happens in Refresh; other methods take theirs from ctx.
	Logger logr.Logger
	// Metrics to register with; nil registers nothing.
	Metrics prometheus.Registerer
	// Periods of the caches; a zero period means Karpenter's.
	Periods Periods
}

// Periods says how long what AWS told is believed.
type Periods struct {
	// InstanceTypes and the zones they are offered in; default 12 h.
	InstanceTypes time.Duration
	// OnDemandPrices and SpotPrices; default 12 h.
	OnDemandPrices, SpotPrices time.Duration
	// Subnets and Images; default 1 min.
	Subnets, Images time.Duration
	// Reservations of capacity; default 1 min.
	Reservations time.Duration
	// SecurityGroups and Cluster; default 5 min.
	SecurityGroups, Cluster time.Duration
	// InstanceProfiles; default 15 min.
	InstanceProfiles time.Duration
	// Parameters of SSM that name one version; default 24 h. Those that move, such as recommended, 5 min at most.
	Parameters time.Duration
	// Unavailable is how long an offering without capacity is not tried again; default 3 min.
	Unavailable time.Duration
	// LaunchTemplates that no launch has used for so long are deleted; default 1 h.
	LaunchTemplates time.Duration
	// Profiles is how long an instance profile of ours may be no class's and no instance's before it is deleted; default 1 h.
	Profiles time.Duration
}

func (p *Periods) setDefaults() {
	for _, d := range []struct {
		period *time.Duration
		normal time.Duration
	}{
		{&p.InstanceTypes, 12 * time.Hour},
		{&p.OnDemandPrices, 12 * time.Hour},
		{&p.SpotPrices, 12 * time.Hour},
		{&p.Subnets, time.Minute},
		{&p.Images, time.Minute},
		{&p.Reservations, time.Minute},
		{&p.SecurityGroups, 5 * time.Minute},
		{&p.Cluster, 5 * time.Minute},
		{&p.InstanceProfiles, 15 * time.Minute},
		{&p.Parameters, 24 * time.Hour},
		{&p.Unavailable, 3 * time.Minute},
		{&p.LaunchTemplates, time.Hour},
		{&p.Profiles, time.Hour},
	} {
		if *d.period == 0 {
			*d.period = d.normal
		}
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.AWS.Region == "" {
		errs = append(errs, errors.New("aws: Config.AWS.Region is empty: set AWS_REGION"))
	}
	if c.ClusterName == "" {
		errs = append(errs, errors.New("aws: Config.ClusterName is empty"))
	}
	if strings.ContainsAny(c.ClusterName, "'\"\\ \n") {
		errs = append(errs, fmt.Errorf("aws: Config.ClusterName %q is not a name of EKS", c.ClusterName))
	}
	if c.ReservedENIs < 0 {
		errs = append(errs, fmt.Errorf("aws: Config.ReservedENIs %d is negative", c.ReservedENIs))
	}
	if o := c.MemoryOverhead; o != nil && !(*o >= 0 && *o < 1) {
		errs = append(errs, fmt.Errorf("aws: Config.MemoryOverhead %v is not a share from 0 up to 1", *o))
	}
	return errors.Join(errs...)
}

// answerWithin is how long one attempt may take: three times the longest poll of SQS. Without it an endpoint that takes
// connections and never answers would hold a call for ever.
const answerWithin = time.Minute

// maxAttempts of the SDK for one call: with its backoff of 20 s at most, throttling for a minute or two passes unseen.
const maxAttempts = 10

// LoadConfig reads the SDK's default configuration (environment, shared files, IRSA or Pod Identity; AWS_ENDPOINT_URL
// moves every service) with more attempts than the SDK's own three, exponential backoff with jitter, and the SDK's adaptive mode,
// which slows a client down where AWS throttles it.
func LoadConfig(ctx context.Context) (awssdk.Config, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx,
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(answerWithin)),
		awsconfig.WithRetryer(func() awssdk.Retryer {
			return retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
				o.StandardOptions = append(o.StandardOptions, func(o *retry.StandardOptions) {
					o.MaxAttempts = maxAttempts
					o.MaxBackoff = 20 * time.Second
					// The SDK's retry quota would fail calls early just when EC2 throttles many at once.
					o.RateLimiter = ratelimit.None
				})
			})
		}))
	if err != nil {
		return awssdk.Config{}, fmt.Errorf("aws: reading the SDK's configuration: %w", err)
	}
	return cfg, nil
}

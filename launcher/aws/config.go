package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Config holds the dependencies and settings of a Cloud.
type Config struct {
	// AWS holds region, credentials, endpoint and retry policy: see LoadConfig. The region is required.
	AWS awssdk.Config
	// ClusterName is the name of the EKS cluster; required.
	ClusterName string
	// ClusterEndpoint is the API server's URL; empty means that EKS is asked.
	ClusterEndpoint string
	// ClusterCA is the API server's certificate authority, PEM in base64; empty means that EKS is asked.
	ClusterCA string
	// ServiceCIDR is the range of the cluster's Services, in the cluster's IP family; empty means that EKS is asked.
	ServiceCIDR string
	// ClusterDNS returns the address of the cluster's DNS, empty for none; nil means that it is not known. Nodes get it unless spec.kubelet.clusterDNS
	// of their class is set.
	ClusterDNS func(ctx context.Context) (string, error)
	// KubernetesVersion is the version that AMI aliases are resolved for, such as 1.36; empty means that EKS is asked.
	KubernetesVersion string
	// Fallback returns the cluster's facts where EKS refuses to, or does not exist; nil means that there is no second source.
	Fallback func(ctx context.Context) (ClusterFacts, error)
	// InterruptionQueue is the name of the SQS queue; with an empty name no message is received.
	InterruptionQueue string
	// ReservedENIs is the number of network interfaces of each node that give no addresses to pods.
	ReservedENIs int64
	// MemoryOverhead is the share of an instance type's memory that firmware and kernel are assumed to use until a node has reported its
	// capacity; nil means 0.075.
	MemoryOverhead *float64
	// IsolatedVPC means that services without a VPC endpoint cannot be reached. The built-in prices are used, and IAM is called for classes with a role
	// alone.
	IsolatedVPC bool
	// ZonalShift has the zonal shifts of the cluster read: the offerings of zones that one is away from are unavailable, and ShiftedZones returns them.
	ZonalShift bool
	// OpenReservations lets the instances of classes that select no capacity reservation run in open ones, as EC2 does by default.
	OpenReservations bool
	// Logger logs what happens in Refresh; other methods take their logger from ctx.
	Logger logr.Logger
	// Metrics is the registry for the metrics; nil registers none.
	Metrics prometheus.Registerer
	// Periods are the lifetimes of the caches; a zero period means Karpenter's.
	Periods Periods
}

// Periods says for how long each part of AWS's answers is cached, and how long the first prices are waited for.
type Periods struct {
	// InstanceTypes and the zones in which they are offered; default 12 h.
	InstanceTypes time.Duration
	// OnDemandPrices and SpotPrices; default 12 h.
	OnDemandPrices, SpotPrices time.Duration
	// FirstPrices is how long a process that starts waits for AWS's prices; after that it uses the built-in ones until AWS answers; default 15 s.
	FirstPrices time.Duration
	// Subnets and Images; default 1 min.
	Subnets, Images time.Duration
	// Reservations of capacity, and placement groups; default 1 min.
	Reservations time.Duration
	// SecurityGroups and Cluster; default 5 min.
	SecurityGroups, Cluster time.Duration
	// InstanceProfiles are cached for this long; default 15 min.
	InstanceProfiles time.Duration
	// Parameters of SSM that name one version; default 24 h. Those whose value changes, such as recommended, are cached for at most 5 min.
	Parameters time.Duration
	// Unavailable is how long an offering without capacity is not tried again; default 3 min.
	Unavailable time.Duration
	// LaunchTemplates is how long a launch template stays unused before it is deleted; default 1 h.
	LaunchTemplates time.Duration
	// ZonalShifts are read this often; default 30 s.
	ZonalShifts time.Duration
	// Profiles is how long one of the launcher's instance profiles stays without a class and an instance before it is deleted; default 1 h.
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
		{&p.FirstPrices, 15 * time.Second},
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
		{&p.ZonalShifts, 30 * time.Second},
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

// answerWithin bounds one attempt of a call: three times the longest poll of SQS. Without it, an endpoint that accepts connections and never
// answers would block a call forever.
const answerWithin = time.Minute

// maxAttempts is the number of attempts for one call, but for those of reportedAfter. With pauses of at most 20 s, a call
// outlasts one to two minutes of throttling.
const maxAttempts = 10

// longestPause bounds the pause before an attempt.
const longestPause = 20 * time.Second

// pause returns how long to wait after so many failed attempts: half a second to a second after the first, twice as long after each more, up to longestPause. The
// SDK's own backoff may be nothing at all, so that all attempts end within a moment of throttling.
func pause(failed int, _ error) (time.Duration, error) {
	longest := min(time.Second<<min(max(failed-1, 0), 5), longestPause)
	return longest/2 + rand.N(longest/2), nil
}

// LoadConfig reads the SDK's default configuration: environment, shared files, IRSA or Pod Identity. AWS_ENDPOINT_URL moves every service.
// It allows more attempts than the SDK's three, with exponential backoff and jitter. The SDK's adaptive mode is not used: it slows a client down for all of its
// calls once AWS throttles one of them, for as long as the process runs, and starts again at one call in two seconds after each pause. EC2 has a limit for each
// action, and so has throttle.
func LoadConfig(ctx context.Context) (awssdk.Config, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx,
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(answerWithin)),
		awsconfig.WithRetryer(func() awssdk.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = maxAttempts
				o.Backoff = retry.BackoffDelayerFunc(pause)
				// The SDK's retry quota would fail calls early exactly when EC2 throttles many at once.
				o.RateLimiter = ratelimit.None
			})
		}))
	if err != nil {
		return awssdk.Config{}, fmt.Errorf("aws: reading the SDK's configuration: %w", err)
	}
	return cfg, nil
}

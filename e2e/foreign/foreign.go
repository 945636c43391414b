package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/go-logr/logr"
)

// Config of an AWS. Endpoint and ClusterName are required.
type Config struct {
	// Endpoint is the URL that all services answer at.
	Endpoint string
	// Region; default that of AWS_REGION or AWS_DEFAULT_REGION, else us-east-1.
	Region string
	// ClusterName is what subnets, security groups, role, queue and EKS cluster are named and tagged after.
	ClusterName string
	// Role of the nodes.
	Role string
	// Poll is how long Watch waits between two questions; default 1 s.
	Poll time.Duration
	// Logger for questions that fail; the zero value logs nothing.
	Logger logr.Logger
}

// AWS is an AWS at an endpoint.
type AWS struct {
	cfg  Config
	keys awssdk.Credentials

	ec2 *ec2.Client
	eks *eks.Client
	iam *iam.Client
	sqs *sqs.Client
	ssm *ssm.Client
}

// New checks the configuration and makes the clients. The real AWS is refused: there an instance is no simulated machine
// and costs money.
func New(cfg Config) (*AWS, error) {
	cfg.Region = cmp.Or(cfg.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	cfg.Poll = cmp.Or(cfg.Poll, time.Second)
	at, err := url.Parse(cfg.Endpoint)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return nil, fmt.Errorf("AWS endpoint %q: want a URL such as http://127.0.0.1:5000", cfg.Endpoint)
	case strings.HasSuffix(at.Hostname(), ".amazonaws.com"), strings.HasSuffix(at.Hostname(), ".amazonaws.com.cn"),
		strings.HasSuffix(at.Hostname(), ".api.aws"):
		return nil, fmt.Errorf("AWS endpoint %s is the real AWS: the sandbox stands on a stand-in for it only", cfg.Endpoint)
	case cfg.ClusterName == "":
		return nil, errors.New("foreign: Config.ClusterName is empty")
	}
	a := &AWS{cfg: cfg, keys: awssdk.Credentials{
		AccessKeyID: cmp.Or(os.Getenv("AWS_ACCESS_KEY_ID"), "test"), SecretAccessKey: cmp.Or(os.Getenv("AWS_SECRET_ACCESS_KEY"), "test"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
	}}
	sdk := awssdk.Config{
		Region: cfg.Region, BaseEndpoint: &cfg.Endpoint, HTTPClient: &http.Client{Timeout: time.Minute},
		Credentials: credentials.NewStaticCredentialsProvider(a.keys.AccessKeyID, a.keys.SecretAccessKey, a.keys.SessionToken),
	}
	a.ec2, a.eks, a.iam = ec2.NewFromConfig(sdk), eks.NewFromConfig(sdk), iam.NewFromConfig(sdk)
	a.sqs, a.ssm = sqs.NewFromConfig(sdk), ssm.NewFromConfig(sdk)
	return a, nil
}

// URL of the endpoint.
func (a *AWS) URL() string { return a.cfg.Endpoint }

// Region returns the region of all calls.
func (a *AWS) Region() string { return a.cfg.Region }

// Variables returns the environment variables, as NAME=value, that point an AWS client at this AWS. The credentials are the
// user's: LocalStack derives the account from them.
func (a *AWS) Variables() []string {
	out := []string{
		"AWS_ENDPOINT_URL=" + a.cfg.Endpoint, "AWS_REGION=" + a.cfg.Region, "AWS_DEFAULT_REGION=" + a.cfg.Region,
		"AWS_ACCESS_KEY_ID=" + a.keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + a.keys.SecretAccessKey,
	}
	if a.keys.SessionToken != "" {
		out = append(out, "AWS_SESSION_TOKEN="+a.keys.SessionToken)
	}
	return out
}

// Check asks whether anybody answers.
func (a *AWS) Check(ctx context.Context) error {
	if _, err := a.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{}); err != nil {
		return fmt.Errorf("no EC2 answers at %s: %w", a.cfg.Endpoint, err)
	}
	return nil
}

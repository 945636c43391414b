package aws_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// everyService makes one call of each service that works unless all are broken.
func everyService(t *testing.T, cfg awssdk.Config) map[string]error {
	t.Helper()
	ctx := t.Context()
	out := map[string]error{}
	_, out["ec2"] = ec2.NewFromConfig(cfg).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	_, out["iam"] = iam.NewFromConfig(cfg).ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{})
	_, out["sts"] = sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	_, out["sqs"] = sqs.NewFromConfig(cfg).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: awssdk.String("test")})
	_, out["ssm"] = ssm.NewFromConfig(cfg).GetParameter(ctx, &ssm.GetParameterInput{
		Name: awssdk.String("/aws/service/bottlerocket/aws-k8s-1.36/arm64/latest/image_id"),
	})
	_, out["pricing"] = pricing.NewFromConfig(cfg).GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2"), MaxResults: awssdk.Int32(1)})
	_, out["eks"] = eks.NewFromConfig(cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: awssdk.String("test")})
	return out
}

func TestThrottling(t *testing.T) {
	server := start(t, nil)
	server.Throttle(time.Minute)
	codes := map[string]string{
		"ec2": "RequestLimitExceeded", "iam": "Throttling", "sts": "Throttling", "sqs": "RequestThrottled",
		"ssm": "ThrottlingException", "pricing": "ThrottlingException", "eks": "ThrottlingException",
	}
	for service, err := range everyService(t, config(server)) {
		wantCode(t, err, codes[service])
	}
	for _, c := range server.Calls() {
		if c.Error != codes[c.Service] || c.AccessKey != "AKIATEST" || c.At.IsZero() {
			t.Errorf("recorded %+v", c)
		}
	}
	server.Throttle(0)
	// The SDK's own retries get over a short one.
	server.Throttle(100 * time.Millisecond)
	cfg := config(server)
	cfg.RetryMaxAttempts = 10
	for service, err := range everyService(t, cfg) {
		if err != nil {
			t.Errorf("%s: %v", service, err)
		}
	}
}

func TestOutage(t *testing.T) {
	server := start(t, nil)
	server.Down(time.Minute)
	for round := range 2 {
		for service, err := range everyService(t, config(server)) {
			if err == nil {
				t.Errorf("round %d: %s works", round, service)
			}
		}
	}
	server.Down(0)
	for service, err := range everyService(t, config(server)) {
		if err != nil {
			t.Errorf("%s does not work again: %v", service, err)
		}
	}
}

// Requests without a signature are refused, each in the shape of its protocol.
func TestUnsigned(t *testing.T) {
	server := start(t, nil)
	for name, c := range map[string]struct {
		path, target string
		form         url.Values
		want         string
	}{
		"ec2": {"/", "", url.Values{"Action": {"DescribeInstances"}, "Version": {"2016-11-15"}}, "<Response><Errors><Error><Code>MissingAuthenticationToken</Code>"},
		"iam": {"/", "", url.Values{"Action": {"GetRole"}, "Version": {"2010-05-08"}}, "<Error><Type>Sender</Type><Code>MissingAuthenticationToken</Code>"},
		"sqs": {"/", "AmazonSQS.GetQueueUrl", nil, `"__type":"com.amazonaws.sqs#MissingAuthenticationTokenException"`},
		"ssm": {"/", "AmazonSSM.GetParameter", nil, `"__type":"MissingAuthenticationTokenException"`},
		"eks": {"/clusters/test", "", nil, `{"message":"Missing Authentication Token"}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL()+c.path, strings.NewReader(c.form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if c.target != "" {
			request.Header.Set("X-Amz-Target", c.target)
			request.Header.Set("Content-Type", "application/x-amz-json-1.1")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusForbidden || !strings.Contains(string(body), c.want) || response.Header.Get("X-Amzn-Requestid") == "" {
			t.Errorf("%s: got %d %s (%v), want %s", name, response.StatusCode, body, err, c.want)
		}
	}
}

func TestUnknownActions(t *testing.T) {
	cfg := config(start(t, nil))
	_, err := ec2.NewFromConfig(cfg).DescribeKeyPairs(t.Context(), &ec2.DescribeKeyPairsInput{})
	wantCode(t, err, "InvalidAction")
	_, err = iam.NewFromConfig(cfg).ListUsers(t.Context(), &iam.ListUsersInput{})
	wantCode(t, err, "InvalidAction")
	_, err = ssm.NewFromConfig(cfg).DescribeParameters(t.Context(), &ssm.DescribeParametersInput{})
	wantCode(t, err, "UnknownOperationException")
	_, err = eks.NewFromConfig(cfg).ListAddons(t.Context(), &eks.ListAddonsInput{ClusterName: awssdk.String("test")})
	wantCode(t, err, "UnknownOperationException")
}

func TestConfig(t *testing.T) {
	first := start(t, nil)
	address := strings.TrimPrefix(first.URL(), "http://")
	if _, err := aws.New(aws.Config{ClusterName: "test", Listen: address}); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("an address in use: got %v", err)
	}
	for _, cfg := range []aws.Config{{}, {ClusterName: "test", KubernetesVersion: "v1.36.2"}, {ClusterName: "test", SpotInterruptions: -1}} {
		if _, err := aws.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	// A second one beside the first has an address of its own, and gives it back if it never runs.
	second, err := aws.New(aws.Config{ClusterName: "test"})
	if err != nil || second.URL() == first.URL() {
		t.Fatalf("got %v, %v", second, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestClient(t *testing.T) {
	server := start(t, nil)
	client, ctx := aws.NewClient(server.URL()+"/"), t.Context()
	id := launched(createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "lowest-price")))[0]
	eventually(t, "the instance to run", func() bool {
		all, err := client.Instances(ctx)
		return err == nil && len(all) == 1 && all[0].ID == id && all[0].State == aws.StateRunning
	})
	if calls, err := client.Calls(ctx); err != nil || len(calls) < 3 {
		t.Errorf("got %d calls, %v", len(calls), err)
	}
	for what, err := range map[string]error{
		"rebalance": client.Rebalance(ctx, id), "scheduled change": client.ScheduledChange(ctx, id), "send": client.SendRaw(ctx, "x"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if chosen, err := client.InterruptOne(ctx); err != nil || chosen != id {
		t.Errorf("interrupted %s, %v", chosen, err)
	}
}

func TestClientFaults(t *testing.T) {
	server := start(t, nil)
	client, ctx := aws.NewClient(server.URL()), t.Context()
	if err := errors.Join(client.FailNextJoins(ctx, 1), client.ICE(ctx, "m6i.large", "all", "spot", time.Minute)); err != nil {
		t.Fatal(err)
	}
	if out := createFleet(t, server, asSpot(fleetInput(t, server, 1, "m6i.large"), "lowest-price")); len(launched(out)) != 0 {
		t.Error("m6i.large has capacity")
	}
	if err := client.ClearICE(ctx); err != nil {
		t.Error(err)
	}
	other := launched(createFleet(t, server, asSpot(fleetInput(t, server, 1, "m6i.large"), "lowest-price")))[0]
	if !instance(t, server, other).FailJoin {
		t.Error("the instance is to join")
	}
	if err := client.Interrupt(ctx, other); err != nil {
		t.Error(err)
	}
	if err := client.Terminate(ctx, other); err != nil {
		t.Error(err)
	}
}

func TestClientRefused(t *testing.T) {
	server := start(t, nil)
	client, ctx := aws.NewClient(server.URL()), t.Context()
	for what, err := range map[string]error{
		"no such instance": client.Interrupt(ctx, "i-1"), "no instance": client.Interrupt(ctx, ""),
		"no such type": client.ICE(ctx, "m5.tiny", "all", "all", time.Minute), "no such zone": client.ICE(ctx, "all", "mars-1a", "all", time.Minute),
		"no such capacity type": client.ICE(ctx, "all", "all", "stolen", time.Minute), "no time": client.Throttle(ctx, 0),
		"no joins": client.FailNextJoins(ctx, 0),
	} {
		if err == nil {
			t.Errorf("%s is no error", what)
		}
	}
	if _, err := aws.NewClient("http://127.0.0.1:1").Instances(ctx); err == nil {
		t.Error("somebody answers where nobody listens")
	}
	if err := client.Throttle(ctx, time.Minute); err != nil {
		t.Error(err)
	}
	_, err := ec2Client(server).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	wantCode(t, err, "RequestLimitExceeded")
	if err := client.Down(ctx, time.Minute); err != nil {
		t.Error(err)
	}
}

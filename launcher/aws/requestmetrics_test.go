package aws

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// unreachable fails each request, as a broken connection does.
type unreachable struct{}

func (unreachable) Do(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// A call that EC2 throttles counts once by its last status, each of its attempts by its own, with the retries between them.
func TestRequestsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	w, c := newWire(t, func(cfg *Config) {
		var err error
		if cfg.AWS, err = WithMetrics(cfg.AWS, registry); err != nil {
			t.Fatal(err)
		}
	})
	throttled, subnets := refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."), ok("<DescribeSubnetsResponse/>")
	w.on("DescribeSubnets", throttled, throttled, subnets)
	if _, err := c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
		t.Fatal(err)
	}
	w.on("DescribeImages", refuse(http.StatusForbidden, "UnauthorizedOperation", "no"))
	if _, err := c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{}); err == nil {
		t.Error("a denied call succeeds")
	}
	if _, err := c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}, func(o *ec2.Options) { o.HTTPClient = unreachable{} }); err == nil {
		t.Error("a call without a connection succeeds")
	}
	want := `
# HELP aws_sdk_go_request_attempt_total Attempts of requests to AWS, by their HTTP status: 0 without an answer.
# TYPE aws_sdk_go_request_attempt_total counter
aws_sdk_go_request_attempt_total{action="DescribeImages",code="403",service="EC2"} 1
aws_sdk_go_request_attempt_total{action="DescribeInstances",code="0",service="EC2"} 4
aws_sdk_go_request_attempt_total{action="DescribeSubnets",code="200",service="EC2"} 1
aws_sdk_go_request_attempt_total{action="DescribeSubnets",code="503",service="EC2"} 2
# HELP aws_sdk_go_request_total Requests to AWS, by the HTTP status of their last attempt: 0 without an answer, -1 if nothing was sent.
# TYPE aws_sdk_go_request_total counter
aws_sdk_go_request_total{action="DescribeImages",code="403",service="EC2"} 1
aws_sdk_go_request_total{action="DescribeInstances",code="0",service="EC2"} 1
aws_sdk_go_request_total{action="DescribeSubnets",code="200",service="EC2"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "aws_sdk_go_request_total", "aws_sdk_go_request_attempt_total"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	retries, samples := map[string]float64{}, map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				samples[f.GetName()] += int(h.GetSampleCount())
				if f.GetName() == "aws_sdk_go_request_retry_count" {
					retries[m.GetLabel()[0].GetValue()] = h.GetSampleSum()
				}
			}
		}
	}
	if diff := cmp.Diff(map[string]float64{"DescribeSubnets": 2, "DescribeImages": 0, "DescribeInstances": reportedAfter - 1}, retries); diff != "" {
		t.Errorf("retries: -want +got\n%s", diff)
	}
	wantSamples := map[string]int{"aws_sdk_go_request_duration_seconds": 3, "aws_sdk_go_request_attempt_duration_seconds": 3 + 1 + reportedAfter, "aws_sdk_go_request_retry_count": 3}
	if diff := cmp.Diff(wantSamples, samples); diff != "" {
		t.Errorf("observations: -want +got\n%s", diff)
	}
}

package aws

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/prometheus/client_golang/prometheus"
)

// requestMetrics are metrics of the requests to AWS. Names, labels and buckets are those that Karpenter 1.14 has from
// github.com/jonathan-innis/aws-sdk-go-prometheus v0.1.1.
type requestMetrics struct {
	requests       *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	attemptSeconds *prometheus.HistogramVec
	retries        *prometheus.HistogramVec
}

// WithMetrics returns a configuration whose clients count and time their requests to AWS, and registers the metrics. cfg is not changed.
func WithMetrics(cfg awssdk.Config, registerer prometheus.Registerer) (awssdk.Config, error) {
	labels := []string{"service", "action", "code"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	seconds := prometheus.ExponentialBuckets(0.01, 1.5, 20)
	m := &requestMetrics{
		requests:       counter("aws_sdk_go_request_total", "Requests to AWS, by the HTTP status of their last attempt: 0 without an answer, -1 if nothing was sent."),
		attempts:       counter("aws_sdk_go_request_attempt_total", "Attempts of requests to AWS, by their HTTP status: 0 without an answer."),
		requestSeconds: histogram("aws_sdk_go_request_duration_seconds", "Duration of requests to AWS, with the waits between their attempts.", seconds),
		attemptSeconds: histogram("aws_sdk_go_request_attempt_duration_seconds", "Duration of attempts of requests to AWS.", seconds),
		retries:        histogram("aws_sdk_go_request_retry_count", "Attempts of a request to AWS after its first.", prometheus.LinearBuckets(0, 1, 11)),
	}
	for _, c := range []prometheus.Collector{m.requests, m.attempts, m.requestSeconds, m.attemptSeconds, m.retries} {
		if err := registerer.Register(c); err != nil {
			return awssdk.Config{}, fmt.Errorf("aws: registering metrics of requests: %w", err)
		}
	}
	cfg.APIOptions = append(slices.Clip(cfg.APIOptions), m.install)
	return cfg, nil
}

// install adds the metrics to a client's calls: around all attempts of one, and around each attempt at the connection.
func (m *requestMetrics) install(stack *middleware.Stack) error {
	if err := stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("RequestMetrics", m.request), middleware.Before); err != nil {
		return err
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("AttemptMetrics", m.attempt), middleware.After)
}

func (m *requestMetrics) request(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	began := time.Now()
	out, metadata, err := next.HandleFinalize(ctx, in)
	labels := requestLabels(ctx, awsmiddleware.GetRawResponse(metadata))
	m.requests.WithLabelValues(labels...).Inc()
	m.requestSeconds.WithLabelValues(labels...).Observe(time.Since(began).Seconds())
	made, _ := retry.GetAttemptResults(metadata)
	m.retries.WithLabelValues(labels...).Observe(float64(max(0, len(made.Results)-1)))
	return out, metadata, err
}

func (m *requestMetrics) attempt(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	middleware.DeserializeOutput, middleware.Metadata, error,
) {
	began := time.Now()
	out, metadata, err := next.HandleDeserialize(ctx, in)
	labels := requestLabels(ctx, out.RawResponse)
	m.attempts.WithLabelValues(labels...).Inc()
	m.attemptSeconds.WithLabelValues(labels...).Observe(time.Since(began).Seconds())
	return out, metadata, err
}

// requestLabels returns service, action and HTTP status. smithy has status 0 for a request without an answer; -1 means that response is none.
func requestLabels(ctx context.Context, response any) []string {
	status := -1
	if r, ok := response.(*smithyhttp.Response); ok && r != nil && r.Response != nil {
		status = r.StatusCode
	}
	return []string{awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), strconv.Itoa(status)}
}

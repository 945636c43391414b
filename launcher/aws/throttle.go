package aws

import (
	"context"
	"fmt"
	"strings"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"golang.org/x/time/rate"
)

// requestBucket is one of EC2's token buckets: burst requests at once, and then the given number per second.
type requestBucket struct {
	burst     int
	perSecond float64
}

// bucketOf returns EC2's default limit for an action, which holds per account and region (EC2 developer guide, "Request throttling for the
// Amazon EC2 API": categories, and the actions with limits of their own).
func bucketOf(action string) requestBucket {
	switch {
	case action == "RunInstances" || action == "StartInstances":
		return requestBucket{5, 2}
	case action == "CreateTags" || action == "DeleteTags":
		return requestBucket{100, 10}
	case action == "TerminateInstances":
		return requestBucket{100, 5}
	case strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get"):
		return requestBucket{100, 20}
	}
	return requestBucket{50, 5}
}

// share is the part of EC2's limits that the launcher uses: the account has other users, and the two clocks drift.
const share = 0.9

// terminatePerSecond and terminateBurst describe EC2's second bucket for TerminateInstances, which counts instances.
const (
	terminateBurst     = 1000
	terminatePerSecond = 20
)

// throttle keeps the launcher inside EC2's request limits. A burst of launches waits here for a moment, instead of being throttled by EC2
// together with all other calls of the account.
type throttle struct {
	limiters map[string]*rate.Limiter
	// instances limits the instances that are terminated.
	instances *rate.Limiter
	waited    func(action string, d time.Duration)
}

// actions lists the EC2 actions that the launcher calls; each has its own bucket in EC2.
func actions() []string {
	return []string{
		"CreateFleet", "CreateLaunchTemplate", "DeleteLaunchTemplate", "CreateTags", "TerminateInstances", "RunInstances", "StopInstances", "StartInstances",
		"DescribeInstances", "DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "DescribeImages",
		"DescribeSubnets", "DescribeSecurityGroups", "DescribeLaunchTemplates", "DescribeCapacityReservations",
		"DescribeInstanceStatus",
	}
}

func newThrottle(waited func(action string, d time.Duration)) *throttle {
	t := &throttle{
		limiters: map[string]*rate.Limiter{}, waited: waited,
		instances: rate.NewLimiter(terminatePerSecond*share, int(terminateBurst*share)),
	}
	for _, action := range actions() {
		b := bucketOf(action)
		t.limiters[action] = rate.NewLimiter(rate.Limit(b.perSecond*share), max(1, int(float64(b.burst)*share)))
	}
	return t
}

// wait waits until the action's bucket has a token.
func (t *throttle) wait(ctx context.Context, action string) error {
	limiter, ok := t.limiters[action]
	if !ok {
		return nil
	}
	began := time.Now()
	if err := limiter.Wait(ctx); err != nil {
		return fmt.Errorf("waiting for the launcher's own limit on %s: %w", action, err)
	}
	if d := time.Since(began); d > time.Millisecond {
		t.waited(action, d)
	}
	return nil
}

// install makes every attempt of every call of a client wait for a token: the SDK's retries use tokens of EC2's buckets too.
func (t *throttle) install(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("RequestLimits", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if err := t.wait(ctx, awsmiddleware.GetOperationName(ctx)); err != nil {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, err
		}
		return next.HandleFinalize(ctx, in)
	}), "Retry", middleware.After)
}

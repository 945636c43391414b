package aws_test

import (
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/launcher/aws"
)

// EC2 has a limit for each action: a call that it throttles slows no call of another one, neither at once nor after a pause.
func TestThrottledCallSlowsNoOther(t *testing.T) {
	cfg, err := aws.LoadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		retryer, ok := cfg.Retryer().(awssdk.RetryerV2)
		if !ok {
			t.Fatal("the SDK asks the retryer for no token of an attempt")
		}
		attempt := func(answer error) {
			t.Helper()
			release, err := retryer.GetAttemptToken(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := release(answer); err != nil {
				t.Fatal(err)
			}
		}
		attempt(&smithy.GenericAPIError{Code: "RequestLimitExceeded"})
		for _, pause := range []time.Duration{0, time.Hour} {
			time.Sleep(pause)
			begin := time.Now()
			for range 20 {
				attempt(nil)
			}
			if took := time.Since(begin); took > 0 {
				t.Errorf("after %s 20 attempts wait %s", pause, took)
			}
		}
	})
}

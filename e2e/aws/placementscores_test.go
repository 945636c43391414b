package aws_test

import (
	"errors"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/aws/spotscore"
)

// Placement scores are asked for over the wire: by zone, and low for few instance types.
func TestPlacementScores(t *testing.T) {
	server := start(t, nil)
	server.Scores.Set("m5", "us-east-1a", 3)
	scores := spotscore.New(config(server))
	ids := map[string]string{}
	for _, n := range server.Resources().Subnets {
		ids[n.Zone] = n.ZoneID
	}
	got, err := scores.PlacementScores(t.Context(), []string{"m5.large", "m5.xlarge", "m5.2xlarge"})
	if err != nil || len(got) != len(ids) || got[ids["us-east-1a"]] != 3 || got[ids["us-east-1b"]] != 9 {
		t.Errorf("scores %v, %v; want 3 in the zone %s", got, err, ids["us-east-1a"])
	}
	if got, err := scores.PlacementScores(t.Context(), []string{"m5.large", "m5.xlarge"}); err != nil || got[ids["us-east-1b"]] != 1 {
		t.Errorf("scores %v, %v of two instance types, want 1", got, err)
	}
	if _, err := scores.PlacementScores(t.Context(), []string{"m5.large", "m5.xlarge", "nothing.large"}); err == nil {
		t.Error("an unknown instance type has scores")
	}
	if broken := server.Violations(); len(broken) > 0 {
		t.Errorf("requests that differ from AWS's models: %q", broken)
	}
}

// A day has ten new configurations; those that are known are answered after that.
func TestPlacementScoresAreLimited(t *testing.T) {
	scores := spotscore.New(config(start(t, nil)))
	got, err := scores.PlacementScores(t.Context(), []string{"m5.large", "m5.xlarge", "m5.2xlarge"})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge", "large", "xlarge", "metal"} {
		if _, err := scores.PlacementScores(t.Context(), []string{"c5.large", "c5.xlarge", "m5." + size}); err != nil {
			t.Error(err)
		}
	}
	_, err = scores.PlacementScores(t.Context(), []string{"r5.large", "r5.xlarge", "r5.2xlarge"})
	if refused, ok := errors.AsType[smithy.APIError](err); !ok || refused.ErrorCode() != "MaxConfigLimitExceeded" {
		t.Errorf("the 11th configuration: %v", err)
	}
	again, err := scores.PlacementScores(t.Context(), []string{"m5.2xlarge", "m5.large", "m5.xlarge"})
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("a known configuration after that: %v\n%s", err, diff)
	}
}

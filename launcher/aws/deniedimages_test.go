package aws_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsfake "github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/policy"
)

// denying adds to the launcher's policy that it may not read some SSM parameters.
func denying(t *testing.T, parameters string) func(*awsfake.Config) {
	t.Helper()
	deny, err := policy.Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"ssm:GetParameter",` +
		`"Resource":"arn:aws:ssm:*::parameter` + parameters + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *awsfake.Config) { cfg.Policies[launcherKey] = cfg.Policies[launcherKey].With(deny) }
}

// An alias has the AMIs whose SSM parameters the launcher may read. If it may read none, and no other exists, the class says what is denied.
func TestAliasWithoutPermissions(t *testing.T) {
	for what, tc := range map[string]struct {
		alias, denied string
		amis          int
		ready         metav1.ConditionStatus
	}{
		"nothing is denied":          {"al2023@latest", "/none", 5, metav1.ConditionTrue},
		"one kind of AMI":            {"al2023@latest", "/aws/service/*/nvidia/*", 3, metav1.ConditionTrue},
		"the first":                  {"bottlerocket@latest", "/aws/service/bottlerocket/aws-k8s-*.??/x86_64/*", 3, metav1.ConditionTrue},
		"all":                        {"al2023@latest", "/aws/*", 0, metav1.ConditionFalse},
		"one, and there is no other": {"al2@latest", "/aws/service/*/amazon-linux-2-gpu/*", 0, metav1.ConditionFalse},
	} {
		t.Run(what, func(t *testing.T) {
			of := class()
			of.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: tc.alias}}
			status, err := newCloud(t, startAWS(t, denying(t, tc.denied))).Resolve(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			of.Status = status
			got := of.StatusConditions().Get(awsv1.ConditionTypeAMIsReady)
			if len(status.AMIs) != tc.amis || got.Status != tc.ready {
				t.Errorf("%d AMIs, want %d; %+v", len(status.AMIs), tc.amis, got)
			}
			if !got.IsTrue() && (got.Reason != "Unauthorized" || !strings.Contains(got.Message, "ssm:GetParameter")) {
				t.Errorf("%s: %s", got.Reason, got.Message)
			}
		})
	}
}

package manifests_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/manifests"
)

type statement struct {
	Sid, Effect string
	Action      any
	Resource    any
	Condition   map[string]map[string]any
}

func texts(v any) []string {
	if one, ok := v.(string); ok {
		return []string{one}
	}
	var out []string
	for _, e := range v.([]any) {
		out = append(out, e.(string))
	}
	return out
}

func policyValues() manifests.PolicyValues {
	return manifests.PolicyValues{
		Region: "eu-west-1", AccountID: "123456789012", ClusterName: "prod", NodeRole: "KarpenterNodeRole-prod", InterruptionQueue: "prod",
	}
}

func policy(t *testing.T) []statement {
	t.Helper()
	document, err := manifests.LauncherPolicy(policyValues())
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Version   string
		Statement []statement
	}
	if err := json.Unmarshal(document, &p); err != nil {
		t.Fatal(err)
	}
	if p.Version != "2012-10-17" || strings.Contains(string(document), "${") {
		t.Errorf("version %q, document %s", p.Version, document)
	}
	return p.Statement
}

// standbyPolicy is what the launcher may do beside for standby buffers.
func standbyPolicy(t *testing.T) []statement {
	t.Helper()
	return readPolicy(t, func() ([]byte, error) { return manifests.StandbyPolicy(policyValues()) })
}

// Only the cluster's own instances are stopped and started.
func TestStandbyPolicyIsScoped(t *testing.T) {
	for _, s := range standbyPolicy(t) {
		owned := s.Condition["StringEquals"]["aws:ResourceTag/kubernetes.io/cluster/prod"]
		if s.Effect != "Allow" || owned != "owned" || s.Condition["StringLike"]["aws:ResourceTag/karpenter.sh/nodepool"] != "*" {
			t.Errorf("%s: %+v", s.Sid, s)
		}
		for _, action := range texts(s.Action) {
			if action != "ec2:StopInstances" && action != "ec2:StartInstances" {
				t.Errorf("%s: %s", s.Sid, action)
			}
		}
	}
}

// optionalPolicies are what the launcher may do beside with the settings commitmentsFromAWS and spotPlacementScores.
func optionalPolicies(t *testing.T) []statement {
	t.Helper()
	return slices.Concat(readPolicy(t, manifests.CommitmentsPolicy), readPolicy(t, manifests.PlacementScoresPolicy))
}

func readPolicy(t *testing.T, read func() ([]byte, error)) []statement {
	t.Helper()
	var p struct {
		Version   string
		Statement []statement
	}
	document, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(document, &p); err != nil || p.Version != "2012-10-17" {
		t.Fatalf("version %q, error %v", p.Version, err)
	}
	return p.Statement
}

// Commitments are read and never bought, and placement scores are asked for.
func TestOptionalPoliciesOnlyRead(t *testing.T) {
	for _, s := range optionalPolicies(t) {
		for _, action := range texts(s.Action) {
			_, name, _ := strings.Cut(action, ":")
			if s.Effect != "Allow" || !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "Get") || strings.Contains(name, "*") {
				t.Errorf("%s: %s %s", s.Sid, s.Effect, action)
			}
		}
	}
}

// The launcher may do nothing that Karpenter's controller may not: an account that admits one can admit the other.
func TestLauncherPolicyAsksForNoMoreThanKarpenter(t *testing.T) {
	karpenter := strings.Fields(`
ec2:RunInstances ec2:CreateFleet ec2:CreateLaunchTemplate ec2:CreateTags ec2:TerminateInstances ec2:DeleteLaunchTemplate
ec2:DescribeCapacityReservations ec2:DescribeImages ec2:DescribeInstances ec2:DescribeInstanceStatus
ec2:DescribeInstanceTypeOfferings ec2:DescribeInstanceTypes ec2:DescribeLaunchTemplates ec2:DescribePlacementGroups
ec2:DescribeSecurityGroups ec2:DescribeSpotPriceHistory ec2:DescribeSubnets
iam:PassRole iam:CreateInstanceProfile iam:TagInstanceProfile iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile
iam:DeleteInstanceProfile iam:GetInstanceProfile iam:ListInstanceProfiles
eks:DescribeCluster sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage ssm:GetParameter pricing:GetProducts
arc-zonal-shift:GetManagedResource`)
	for _, s := range policy(t) {
		for _, action := range texts(s.Action) {
			if s.Effect != "Allow" || !slices.Contains(karpenter, action) {
				t.Errorf("%s: %s %s", s.Sid, s.Effect, action)
			}
		}
	}
}

// What changes anything is bound to this cluster: by the tags that the call gives, or by those that its resource has.
func TestLauncherPolicyIsScoped(t *testing.T) {
	for _, s := range policy(t) {
		conditions, err := json.Marshal(s.Condition)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range texts(s.Action) {
			_, name, _ := strings.Cut(action, ":")
			reads := strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List")
			tagged := strings.Contains(string(conditions), `Tag/kubernetes.io/cluster/prod":"owned"`)
			named := !slices.Contains(texts(s.Resource), "*")
			shared := s.Sid == "LaunchFromSharedResources" // Images, subnets and security groups are shared.
			queue := strings.HasPrefix(action, "sqs:") || action == "iam:PassRole"
			if !reads && (!named || !tagged && !shared && !queue) {
				t.Errorf("%s: %s on %v under %s", s.Sid, action, s.Resource, conditions)
			}
		}
	}
}

func TestLauncherPolicyRefusesWhatIsNoName(t *testing.T) {
	for _, change := range []func(*manifests.PolicyValues){
		func(v *manifests.PolicyValues) { v.ClusterName = `x","*":"` },
		func(v *manifests.PolicyValues) { v.AccountID = "" },
		func(v *manifests.PolicyValues) { v.NodeRole = "${Region}" },
		// PassRole on each role of the account, and messages of each queue.
		func(v *manifests.PolicyValues) { v.NodeRole = "*" },
		func(v *manifests.PolicyValues) { v.NodeRole = "/?*" },
		func(v *manifests.PolicyValues) { v.InterruptionQueue = "*" },
		func(v *manifests.PolicyValues) { v.ClusterName = "prod-?" },
	} {
		v := policyValues()
		change(&v)
		if _, err := manifests.LauncherPolicy(v); err == nil {
			t.Errorf("no error with %+v", v)
		}
	}
}

// A name with a wildcard is how an account has one policy for the node roles of its clusters.
func TestLauncherPolicyTakesAPattern(t *testing.T) {
	v := policyValues()
	v.NodeRole = "KarpenterNodeRole-*"
	if _, err := manifests.LauncherPolicy(v); err != nil {
		t.Error(err)
	}
}

package manifests_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yamlv3 "go.yaml.in/yaml/v3"

	iampolicy "github.com/slipway-k8s/slipway/e2e/aws/policy"
)

// template is a CloudFormation template; functions stand as {"Ref": name} and the like, whichever form they have in the file.
type template struct {
	Parameters, Conditions map[string]any
	Resources              map[string]struct {
		Type, Condition string
		Properties      map[string]any
	}
	Outputs map[string]any
}

func readTemplate(t *testing.T) template {
	t.Helper()
	text, err := os.ReadFile("cloudformation/slipway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 51200 {
		t.Errorf("%d bytes: CloudFormation takes 51200 without a bucket", len(text))
	}
	var node yamlv3.Node
	if err := yamlv3.Unmarshal(text, &node); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(plain(t, node.Content[0]))
	if err != nil {
		t.Fatal(err)
	}
	var out template
	if err := json.Unmarshal(asJSON, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// plain reads the short forms !Ref, !Sub, !GetAtt, !Equals and !If as the long ones.
func plain(t *testing.T, node *yamlv3.Node) any {
	t.Helper()
	var value any
	switch node.Kind {
	case yamlv3.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			m[node.Content[i].Value] = plain(t, node.Content[i+1])
		}
		value = m
	case yamlv3.SequenceNode:
		list := []any{}
		for _, child := range node.Content {
			list = append(list, plain(t, child))
		}
		value = list
	default:
		value = node.Value
		if !strings.HasPrefix(node.Tag, "!!") {
			break
		}
		if err := node.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	names := map[string]string{"!Ref": "Ref", "!Sub": "Fn::Sub", "!GetAtt": "Fn::GetAtt", "!Equals": "Fn::Equals", "!If": "Fn::If"}
	if function, ok := names[node.Tag]; ok {
		return map[string]any{function: value}
	}
	return value
}

// walk calls f for each function of a value.
func walk(value any, f func(function string, argument any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, e := range v {
			if key == "Ref" || strings.HasPrefix(key, "Fn::") {
				f(key, e)
			}
			walk(e, f)
		}
	case []any:
		for _, e := range v {
			walk(e, f)
		}
	}
}

var substituted = regexp.MustCompile(`\$\{([^}]+)\}`)

// referenced returns the parameters and resources that a function of CloudFormation names.
func referenced(function string, argument any) []string {
	text, _ := argument.(string)
	switch function {
	case "Ref":
		return []string{text}
	case "Fn::GetAtt":
		name, _, _ := strings.Cut(text, ".")
		return []string{name}
	case "Fn::Sub":
		var names []string
		for _, match := range substituted.FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		return names
	}
	return nil
}

func TestTemplateReferencesWhatThereIs(t *testing.T) {
	in := readTemplate(t)
	known := map[string]bool{"AWS::Partition": true, "AWS::Region": true, "AWS::AccountId": true, "AWS::URLSuffix": true, "AWS::NoValue": true}
	for name := range in.Parameters {
		known[name] = true
	}
	for name, r := range in.Resources {
		known[name] = true
		if r.Condition != "" && in.Conditions[r.Condition] == nil {
			t.Errorf("%s: there is no condition %s", name, r.Condition)
		}
	}
	asJSON, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(asJSON, &all); err != nil {
		t.Fatal(err)
	}
	found := 0
	walk(all, func(function string, argument any) {
		if function == "Fn::If" {
			if name, _ := argument.([]any)[0].(string); in.Conditions[name] == nil {
				t.Errorf("Fn::If names %s, which is no condition", name)
			}
		}
		for _, name := range referenced(function, argument) {
			found++
			if !known[name] {
				t.Errorf("%s names %s, which there is not", function, name)
			}
		}
	})
	if found < 50 {
		t.Errorf("%d references were found", found)
	}
}

// What CloudFormation would refuse only while it creates: properties that a type does not have, or lacks.
func TestTemplateProperties(t *testing.T) {
	types := map[string]struct{ required, optional string }{
		"AWS::IAM::Role":            {"AssumeRolePolicyDocument", "RoleName Path ManagedPolicyArns"},
		"AWS::IAM::InstanceProfile": {"Roles", "InstanceProfileName Path"},
		"AWS::IAM::ManagedPolicy":   {"PolicyDocument", "ManagedPolicyName"},
		"AWS::SQS::Queue":           {"", "QueueName MessageRetentionPeriod SqsManagedSseEnabled"},
		"AWS::SQS::QueuePolicy":     {"Queues PolicyDocument", ""},
		"AWS::Events::Rule":         {"", "EventPattern Targets"},
	}
	for name, r := range readTemplate(t).Resources {
		known, ok := types[r.Type]
		if !ok {
			t.Errorf("%s: type %s", name, r.Type)
		}
		required := strings.Fields(known.required)
		for _, property := range required {
			if r.Properties[property] == nil {
				t.Errorf("%s has no %s", name, property)
			}
		}
		for property := range r.Properties {
			if !slices.Contains(append(required, strings.Fields(known.optional)...), property) {
				t.Errorf("%s: %s is no property of %s", name, property, r.Type)
			}
		}
	}
}

// The statements are those of iam/launcher.json, iam/commitments.json and iam/standby.json, each in one policy, and each policy is short enough for the longest names.
func TestTemplatePoliciesAreTheLaunchers(t *testing.T) {
	in := readTemplate(t)
	text := read(t, "iam/launcher.json")
	rename := strings.NewReplacer(
		"${Partition}", "${AWS::Partition}", "${Region}", "${AWS::Region}", "${AccountID}", "${AWS::AccountId}",
		"${NodeRole}", "KarpenterNodeRole-${ClusterName}", "${InterruptionQueue}", "${ClusterName}")
	want := statements(t, rename.Replace(text))
	maps.Copy(want, statements(t, read(t, "iam/commitments.json")))
	maps.Copy(want, statements(t, rename.Replace(read(t, "iam/standby.json"))))
	got := map[string]any{}
	longest := strings.NewReplacer("${AWS::Partition}", "aws-us-gov", "${AWS::Region}", "ap-southeast-1", "${AWS::AccountId}", "123456789012",
		"${ClusterName}", strings.Repeat("x", 46), " ", "", "\n", "")
	for name, r := range in.Resources {
		if r.Type != "AWS::IAM::ManagedPolicy" {
			continue
		}
		document := r.Properties["PolicyDocument"].(map[string]any)["Fn::Sub"].(string)
		if size := len(longest.Replace(document)); size > 6144 {
			t.Errorf("%s has %d characters: IAM takes 6144", name, size)
		}
		if _, err := iampolicy.Parse([]byte(longest.Replace(document))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for sid, s := range statements(t, document) {
			if got[sid] != nil {
				t.Errorf("%s is in two policies", sid)
			}
			got[sid] = s
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-iam +cloudformation/slipway.yaml\n%s", diff)
	}
}

func statements(t *testing.T, document string) map[string]any {
	t.Helper()
	var parsed struct {
		Version   string
		Statement []map[string]any
	}
	if err := json.Unmarshal([]byte(document), &parsed); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	out := map[string]any{}
	for _, s := range parsed.Statement {
		out[s["Sid"].(string)] = s
	}
	return out
}

// Events that the launcher reads have a rule, and the queue keeps them as Karpenter's does.
func TestTemplateEvents(t *testing.T) {
	in := readTemplate(t)
	got := map[string]string{}
	for name, r := range in.Resources {
		switch r.Type {
		case "AWS::Events::Rule":
			pattern := r.Properties["EventPattern"].(map[string]any)
			got[pattern["detail-type"].([]any)[0].(string)] = pattern["source"].([]any)[0].(string)
			target := r.Properties["Targets"].([]any)[0].(map[string]any)["Arn"]
			if diff := cmp.Diff(map[string]any{"Fn::GetAtt": "KarpenterInterruptionQueue.Arn"}, target); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		case "AWS::SQS::Queue":
			if r.Properties["MessageRetentionPeriod"] != 300.0 || r.Properties["SqsManagedSseEnabled"] != true {
				t.Errorf("%s: %v", name, r.Properties)
			}
		}
	}
	if diff := cmp.Diff(events(), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	source := read(t, "../launcher/aws/event.go")
	for kind := range maps.Keys(events()) {
		if !strings.Contains(source, `"`+kind+`"`) {
			t.Errorf("launcher/aws knows no %q", kind)
		}
	}
}

func events() map[string]string {
	return map[string]string{
		"AWS Health Event":                                       "aws.health",
		"EC2 Spot Instance Interruption Warning":                 "aws.ec2",
		"EC2 Instance Rebalance Recommendation":                  "aws.ec2",
		"EC2 Instance State-change Notification":                 "aws.ec2",
		"EC2 Capacity Reservation Instance Interruption Warning": "aws.ec2",
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An account that has Karpenter's stack has all of this one under the same names, and CDK's CfnInclude takes it with one parameter.
func TestTemplateHasKarpentersNames(t *testing.T) {
	in := readTemplate(t)
	got := map[string]string{}
	for name, r := range in.Resources {
		for _, property := range []string{"RoleName", "ManagedPolicyName", "InstanceProfileName", "QueueName"} {
			switch value := r.Properties[property].(type) {
			case nil:
			case map[string]any:
				for _, text := range value {
					got[name] = text.(string)
				}
			default:
				t.Errorf("%s: %s is %v: two clusters cannot have it", name, property, value)
			}
		}
	}
	want := map[string]string{
		"KarpenterNodeRole":            "KarpenterNodeRole-${ClusterName}",
		"KarpenterNodeInstanceProfile": "KarpenterNodeInstanceProfile-${ClusterName}",
		"KarpenterControllerRole":      "${ClusterName}-karpenter",
		"KarpenterInterruptionQueue":   "ClusterName",
	}
	for _, policy := range []string{"NodeLifecycle", "IAMIntegration", "EKSIntegration", "Interruption", "ResourceDiscovery", "Commitments", "Standby"} {
		want["KarpenterController"+policy+"Policy"] = "KarpenterController" + policy + "Policy-${ClusterName}"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for name, parameter := range in.Parameters {
		if _, optional := parameter.(map[string]any)["Default"]; optional == (name == "ClusterName") {
			t.Errorf("parameter %s: ClusterName is the one that must be given", name)
		}
	}
}

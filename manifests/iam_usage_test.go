package manifests_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// implied are actions without a call of their own: AWS asks for them where another call says so.
func implied() map[string]need {
	return map[string]need{
		"ec2:RunInstances":       {file: "fleet.go", code: "CreateFleet(ctx, request.fleet, "},
		"iam:PassRole":           {file: "profile.go", code: "AddRoleToInstanceProfile(ctx"},
		"iam:TagInstanceProfile": {file: "profile.go", code: "Tags: "},
	}
}

// sourceOfAWS is the source of launcher/aws and its parts.
func sourceOfAWS(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../launcher/aws/*.go")
	if err == nil {
		var parts []string
		parts, err = filepath.Glob("../launcher/aws/*/*.go")
		files = append(files, parts...)
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	var out strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			out.WriteString(read(t, file))
		}
	}
	return out.String()
}

// calls are the actions of the operations that launcher/aws names the input of.
func calls(t *testing.T) map[string]bool {
	t.Helper()
	input := regexp.MustCompile(`\b(arczonalshift|ec2|eks|iam|pricing|savingsplans|sqs|ssm)\.([A-Z][A-Za-z]+)Input\b`)
	out := map[string]bool{}
	for _, match := range input.FindAllStringSubmatch(sourceOfAWS(t), -1) {
		out[strings.Replace(match[1], "arczonalshift", "arc-zonal-shift", 1)+":"+match[2]] = true
	}
	return out
}

// Every action is used, as every rule of RBAC is: code of launcher/aws calls it, or makes AWS ask for it. And every call is allowed.
func TestEveryActionOfTheLauncherIsUsed(t *testing.T) {
	t.Parallel()
	called, granted := calls(t), map[string]bool{}
	for _, s := range slices.Concat(policy(t), optionalPolicies(t), standbyPolicy(t)) {
		for _, action := range texts(s.Action) {
			granted[action] = true
		}
	}
	for action := range granted {
		by, indirectly := implied()[action]
		if !called[action] && !indirectly {
			t.Errorf("the policy allows %s, which nothing calls", action)
		}
		if indirectly && !strings.Contains(read(t, "../launcher/aws/"+by.file), by.code) {
			t.Errorf("launcher/aws/%s does not say %q any more: does anything else need %s?", by.file, by.code, action)
		}
	}
	for action := range called {
		if !granted[action] {
			t.Errorf("launcher/aws calls %s, which the policy does not allow", action)
		}
	}
}

// Instances are launched from these resources of the account and from no others: what the launcher does not name in a launch needs no right.
func TestEverySharedResourceIsUsed(t *testing.T) {
	t.Parallel()
	by := map[string]string{
		"image": "ImageId: ", "snapshot": "SnapshotId: ", "security-group": "SecurityGroupIds = ", "subnet": "SubnetId: ",
		"capacity-reservation": "CapacityReservationTarget: ", "placement-group": "GroupId = ",
	}
	source := sourceOfAWS(t)
	for _, s := range policy(t) {
		if s.Sid != "LaunchFromSharedResources" {
			continue
		}
		for _, resource := range texts(s.Resource) {
			kind, _, _ := strings.Cut(resource[strings.LastIndex(resource, ":")+1:], "/")
			if field := by[kind]; field == "" || !strings.Contains(source, field) {
				t.Errorf("instances may be launched from %s, which no launch names (%q)", resource, field)
			}
		}
	}
}

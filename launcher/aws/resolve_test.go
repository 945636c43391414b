package aws

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// refuseIAM is an error of IAM, which has a form of its own.
func refuseIAM(status int, code string) answer {
	return answer{status, "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>no</Message></Error>" +
		"<RequestId>r</RequestId></ErrorResponse>"}
}

func profileXML(action string, roles ...string) answer {
	var list strings.Builder
	for _, r := range roles {
		list.WriteString("<member><RoleName>" + r + "</RoleName></member>")
	}
	return ok("<" + action + "Response><" + action + "Result><InstanceProfile><InstanceProfileName>p</InstanceProfileName><Roles>" +
		list.String() + "</Roles></InstanceProfile></" + action + "Result></" + action + "Response>")
}

// newAccount is a wire on which everything of the class is found, the instance profile excepted, which can be made.
func newAccount(t *testing.T) (*wire, *Cloud, *awsv1.EC2NodeClass) {
	t.Helper()
	w, c := newWire(t)
	w.on("DescribeSecurityGroups", ok("<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId>"+
		"<groupName>nodes</groupName></item></securityGroupInfo></DescribeSecurityGroupsResponse>"))
	w.on("DescribeImages", ok("<DescribeImagesResponse><imagesSet><item><imageId>ami-1</imageId><name>mine</name>"+
		"<architecture>arm64</architecture><creationDate>2026-01-01T00:00:00.000Z</creationDate></item></imagesSet></DescribeImagesResponse>"))
	w.on("GetInstanceProfile", refuseIAM(http.StatusNotFound, "NoSuchEntity"))
	w.on("CreateInstanceProfile", profileXML("CreateInstanceProfile"))
	w.on("AddRoleToInstanceProfile", ok("<AddRoleToInstanceProfileResponse/>"))
	w.on("RemoveRoleFromInstanceProfile", ok("<RemoveRoleFromInstanceProfileResponse/>"))
	class := nodeClass()
	class.Status = awsv1.EC2NodeClassStatus{}
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-1"}}
	class.Spec.AMIFamily = new("AL2023")
	class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nodes"}}
	return w, c, class
}

func TestResolveMakesTheInstanceProfile(t *testing.T) {
	w, c, class := newAccount(t)
	status, err := c.Resolve(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	class.Status = status
	if ready := class.StatusConditions().Root(); !ready.IsTrue() {
		t.Errorf("not ready: %+v", status.Conditions)
	}
	created := w.made("CreateInstanceProfile")
	if len(created) != 1 || created[0].Get("InstanceProfileName") != status.InstanceProfile ||
		created[0].Get("Path") != "/slipway/us-east-1/prod/default/" {
		t.Errorf("created %v for %s", created, status.InstanceProfile)
	}
	tags := map[string]string{}
	for key, v := range created[0] {
		if n, found := strings.CutSuffix(key, ".Key"); found {
			tags[v[0]] = created[0].Get(n + ".Value")
		}
	}
	if tags["kubernetes.io/cluster/prod"] != "owned" || tags["karpenter.k8s.aws/ec2nodeclass"] != "default" ||
		tags["topology.kubernetes.io/region"] != "us-east-1" || tags["team"] != "a" {
		t.Errorf("instance profile's tags: %v", tags)
	}
	// Within the period AWS is not asked again.
	if _, err := c.Resolve(t.Context(), class); err != nil || len(w.made("GetInstanceProfile")) != 1 || len(w.made("DescribeSubnets")) != 1 {
		t.Errorf("asked again: %v", err)
	}
}

// spec.role may have the role's path, which IAM's calls reject.
func TestResolveGivesTheProfileItsRole(t *testing.T) {
	for role, name := range map[string]string{"node": "node", "a/b/nodes": "nodes", "/a/b/nodes": "nodes"} {
		t.Run(role, func(t *testing.T) {
			w, c, class := newAccount(t)
			class.Spec.Role = role
			w.on("GetInstanceProfile", profileXML("GetInstanceProfile", "another"))
			status, err := c.Resolve(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			removed, added := w.made("RemoveRoleFromInstanceProfile"), w.made("AddRoleToInstanceProfile")
			if len(removed) != 1 || removed[0].Get("RoleName") != "another" || len(added) != 1 || added[0].Get("RoleName") != name {
				t.Errorf("removed %v, added %v", removed, added)
			}
			// Once the profile has the role, it keeps it.
			w.on("GetInstanceProfile", profileXML("GetInstanceProfile", name))
			c.profiles.forget(status.InstanceProfile)
			if _, err := c.Resolve(t.Context(), class); err != nil || len(w.made("GetInstanceProfile")) != 2 {
				t.Fatalf("the profile was not read again: %v", err)
			}
			removed, added = w.made("RemoveRoleFromInstanceProfile"), w.made("AddRoleToInstanceProfile")
			if len(removed) != 1 || len(added) != 1 {
				t.Errorf("a profile that has its role: removed %v, added %v", removed, added)
			}
		})
	}
}

func TestResolveSaysWhatIsWrong(t *testing.T) {
	empty := func(action, set string) answer {
		return ok("<" + action + "Response><" + set + "/></" + action + "Response>")
	}
	for name, tc := range map[string]struct {
		set               func(*wire, *awsv1.EC2NodeClass)
		condition, reason string
		message           string
	}{
		"no subnet": {func(w *wire, _ *awsv1.EC2NodeClass) {
			w.on("DescribeSubnets", empty("DescribeSubnets", "subnetSet"))
		}, awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound", "spec.subnetSelectorTerms"},
		"not allowed to look": {func(w *wire, _ *awsv1.EC2NodeClass) {
			w.on("DescribeSubnets", refuse(http.StatusForbidden, "UnauthorizedOperation", "You are not authorized"))
		}, awsv1.ConditionTypeSubnetsReady, "Unauthorized", "not authorized"},
		"no security group": {func(w *wire, _ *awsv1.EC2NodeClass) {
			w.on("DescribeSecurityGroups", empty("DescribeSecurityGroups", "securityGroupInfo"))
		}, awsv1.ConditionTypeSecurityGroupsReady, "SecurityGroupsNotFound", "spec.securityGroupSelectorTerms"},
		"no image": {func(w *wire, _ *awsv1.EC2NodeClass) {
			w.on("DescribeImages", empty("DescribeImages", "imagesSet"))
		}, awsv1.ConditionTypeAMIsReady, "AMINotFound", "spec.amiSelectorTerms"},
		"no such role": {func(w *wire, _ *awsv1.EC2NodeClass) {
			w.on("AddRoleToInstanceProfile", refuseIAM(http.StatusNotFound, "NoSuchEntity"))
		}, awsv1.ConditionTypeInstanceProfileReady, "NotFound", "spec.role"},
		"no such profile": {func(_ *wire, class *awsv1.EC2NodeClass) {
			class.Spec.Role, class.Spec.InstanceProfile = "", new("mine")
		}, awsv1.ConditionTypeInstanceProfileReady, "NotFound", "spec.instanceProfile"},
		"neither": {func(_ *wire, class *awsv1.EC2NodeClass) {
			class.Spec.Role = ""
		}, awsv1.ConditionTypeInstanceProfileReady, "RoleMissing", "spec.role"},
		"no placement group of that name": {func(w *wire, class *awsv1.EC2NodeClass) {
			class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: new("pg")}
			w.on("DescribePlacementGroups", refuse(http.StatusBadRequest, "InvalidPlacementGroup.Unknown", "The Placement Group 'pg' is unknown."))
		}, awsv1.ConditionTypePlacementGroupReady, "PlacementGroupNotFound", "spec.placementGroupSelector.name"},
		"no available placement group of that ID": {func(w *wire, class *awsv1.EC2NodeClass) {
			class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{ID: new("pg-1")}
			w.on("DescribePlacementGroups", empty("DescribePlacementGroups", "placementGroupSet"))
		}, awsv1.ConditionTypePlacementGroupReady, "PlacementGroupNotFound", "spec.placementGroupSelector.id"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, class := newAccount(t)
			tc.set(w, class)
			status, err := c.Resolve(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			class.Status = status
			got := class.StatusConditions().Get(tc.condition)
			if !got.IsFalse() || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("%s: %+v, want False with reason %s about %s", tc.condition, got, tc.reason, tc.message)
			}
			if class.StatusConditions().Root().IsTrue() {
				t.Error("Ready all the same")
			}
		})
	}
}

// What AWS could not be asked for is no fault of the class: its status stays as it was.
func TestResolveFailsWhenThrottled(t *testing.T) {
	w, c, class := newAccount(t)
	w.on("DescribeImages", refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "slow down"))
	if _, err := c.Resolve(t.Context(), class); err == nil || !strings.Contains(err.Error(), "EC2NodeClass default") {
		t.Errorf("got %v, want an error that names the class", err)
	}
}

func TestReleaseDeletesWhatTheClassOwns(t *testing.T) {
	w, c, class := newAccount(t)
	w.on("DescribeLaunchTemplates", ok("<DescribeLaunchTemplatesResponse><launchTemplates><item><launchTemplateId>lt-1</launchTemplateId>"+
		"<launchTemplateName>slipway.dev/1</launchTemplateName></item></launchTemplates></DescribeLaunchTemplatesResponse>"))
	w.on("DeleteLaunchTemplate", refuse(http.StatusBadRequest, "InvalidLaunchTemplateId.NotFound", "gone"))
	w.on("ListInstanceProfiles", ok("<ListInstanceProfilesResponse><ListInstanceProfilesResult><InstanceProfiles><member>"+
		"<InstanceProfileName>p</InstanceProfileName><Roles><member><RoleName>node</RoleName></member></Roles></member></InstanceProfiles>"+
		"<IsTruncated>false</IsTruncated></ListInstanceProfilesResult></ListInstanceProfilesResponse>"))
	w.handle("DeleteInstanceProfile", func(v url.Values) answer {
		if len(w.calls) == 0 || v.Get("InstanceProfileName") != "p" {
			return refuseIAM(http.StatusBadRequest, "ValidationError")
		}
		return ok("<DeleteInstanceProfileResponse/>")
	})
	if err := c.Release(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if len(w.made("RemoveRoleFromInstanceProfile")) != 1 || len(w.made("DeleteInstanceProfile")) != 1 {
		t.Error("the profile was not deleted")
	}
	if f := w.made("DescribeLaunchTemplates")[0]; f.Get("Filter.3.Name") != "tag:karpenter.k8s.aws/ec2nodeclass" || f.Get("Filter.3.Value.1") != "default" {
		t.Errorf("asked for the launch templates of %s=%s", f.Get("Filter.3.Name"), f.Get("Filter.3.Value.1"))
	}
}

// The status lists what the selectors found: subnets and security groups by id, AMIs with what they are built for.
func TestResolveFillsTheStatus(t *testing.T) {
	w, c, class := newAccount(t)
	w.on("DescribeSubnets", ok(`<DescribeSubnetsResponse><subnetSet>`+subnetXML("subnet-2", "us-east-1b", 10)+subnetXML("subnet-1", "us-east-1a", 20)+
		`</subnetSet></DescribeSubnetsResponse>`))
	w.on("DescribeSecurityGroups", ok("<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-2</groupId><groupName>b</groupName></item>"+
		"<item><groupId>sg-1</groupId><groupName>nodes</groupName></item></securityGroupInfo></DescribeSecurityGroupsResponse>"))
	status, err := c.Resolve(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	status.Conditions, status.InstanceProfile = nil, ""
	want := awsv1.EC2NodeClassStatus{
		Subnets:        []awsv1.Subnet{{ID: "subnet-1", Zone: "us-east-1a", ZoneID: "use1-a"}, {ID: "subnet-2", Zone: "us-east-1b", ZoneID: "use1-b"}},
		SecurityGroups: []awsv1.SecurityGroup{{ID: "sg-1", Name: "nodes"}, {ID: "sg-2", Name: "b"}},
		AMIs: []awsv1.AMI{{ID: "ami-1", Name: "mine", Requirements: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}},
		}}},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// A profile that the class names is used as it is: where IAM has it, and where the role may not ask.
func TestGivenInstanceProfile(t *testing.T) {
	for name, tc := range map[string]answer{
		"is there":    profileXML("GetInstanceProfile", "node"),
		"not allowed": refuseIAM(http.StatusForbidden, "AccessDenied"),
	} {
		w, c, class := newAccount(t)
		class.Spec.Role, class.Spec.InstanceProfile = "", new("mine")
		w.on("GetInstanceProfile", tc)
		status, err := c.Resolve(t.Context(), class)
		if err != nil || status.InstanceProfile != "mine" || len(w.made("CreateInstanceProfile")) != 0 {
			t.Errorf("%s: %q, %v", name, status.InstanceProfile, err)
		}
	}
}

// silence is a network on which nothing answers.
type silence struct{ calls atomic.Int32 }

func (s *silence) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A profile that the class names is used without an answer of IAM, which may be out of reach. It is waited for a few seconds, and asked again soon.
func TestGivenInstanceProfileWithoutIAM(t *testing.T) {
	for name, tc := range map[string]answer{
		"out of order":   refuseIAM(http.StatusServiceUnavailable, "ServiceUnavailable"),
		"another error":  refuseIAM(http.StatusBadRequest, "ValidationError"),
		"expired tokens": refuseIAM(http.StatusForbidden, "ExpiredToken"),
	} {
		w, c, class := newAccount(t)
		class.Spec.Role, class.Spec.InstanceProfile = "", new("mine")
		w.on("GetInstanceProfile", tc)
		status, err := c.Resolve(t.Context(), class)
		class.Status = status
		if ready := class.StatusConditions().Root(); err != nil || status.InstanceProfile != "mine" || !ready.IsTrue() {
			t.Errorf("%s: %q, %+v, %v", name, status.InstanceProfile, ready, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		network := &silence{}
		c, err := New(Config{ClusterName: "prod", AWS: awssdk.Config{
			Region: "us-east-1", HTTPClient: &http.Client{Transport: network}, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		}})
		if err != nil {
			t.Fatal(err)
		}
		class := nodeClass()
		class.Spec.Role, class.Spec.InstanceProfile = "", new("mine")
		for i, calls := range []int32{1, 1, 2} {
			begin := time.Now()
			if got, err := c.ensureProfile(t.Context(), class); got != "mine" || err != nil || time.Since(begin) > 10*time.Second || network.calls.Load() != calls {
				t.Errorf("%d: %q, %v after %s and %d calls", i, got, err, time.Since(begin), network.calls.Load())
			}
			time.Sleep(time.Duration(i) * time.Minute)
		}
	})
}

// IAM has no VPC endpoint in most regions: without a role there is no call to it, neither for the class nor for what it owned.
func TestIsolatedVPCNeedsNoIAM(t *testing.T) {
	w, c, class := newAccount(t)
	c.cfg.IsolatedVPC = true
	class.Spec.Role, class.Spec.InstanceProfile = "", new("mine")
	status, err := c.Resolve(t.Context(), class)
	if err != nil || status.InstanceProfile != "mine" {
		t.Errorf("instance profile %q, %v", status.InstanceProfile, err)
	}
	if err := errors.Join(c.deleteProfiles(t.Context(), class), c.sweepProfiles(t.Context())); err != nil {
		t.Error(err)
	}
	for _, action := range []string{"GetInstanceProfile", "ListInstanceProfiles", "CreateInstanceProfile"} {
		if n := len(w.made(action)); n != 0 {
			t.Errorf("%d calls of %s", n, action)
		}
	}
}

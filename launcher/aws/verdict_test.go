package aws

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func refusedCall(operation, code, message string) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: operation, Err: &smithy.GenericAPIError{Code: code, Message: message}}
}

// Every documented code has a cause, a reason (Karpenter's if it has one), and a message that says what to change.
func TestJudge(t *testing.T) {
	const denial = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: " +
		"ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:network-interface/* because no identity-based policy allows the " +
		"ec2:RunInstances action. Encoded authorization failure message: abc"
	for _, c := range []struct {
		code, text   string
		cause        cloud.Cause
		reason, says string
	}{
		{"InsufficientInstanceCapacity", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"Server.InsufficientInstanceCapacity", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"InsufficientHostCapacity", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"InsufficientReservedInstanceCapacity", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"UnfulfillableCapacity", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"Unsupported", "not in this zone", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"ReservationCapacityExceeded", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"SpotMaxPriceTooLow", "no", cloud.CauseCapacity, "InsufficientCapacity", ""},
		{"InsufficientFreeAddressesInSubnet", "no", cloud.CauseCapacity, "InsufficientFreeAddressesInSubnet", ""},
		{"InsufficientCidrBlocks", "no", cloud.CauseCapacity, "InsufficientFreeAddressesInSubnet", ""},
		{"VcpuLimitExceeded", "no", cloud.CauseQuota, "VCPULimitExceeded", "no"},
		{"InstanceLimitExceeded", "no", cloud.CauseQuota, "VCPULimitExceeded", "no"},
		{"MaxSpotInstanceCountExceeded", "no", cloud.CauseQuota, "SpotQuotaExceeded", "no"},
		{"MaxFleetCountExceeded", "no", cloud.CauseQuota, "FleetQuotaExceeded", ""},
		{"VolumeLimitExceeded", "no", cloud.CauseQuota, "QuotaExceeded", ""},
		{"UnauthorizedOperation", denial, cloud.CauseUnauthorized, "Unauthorized", "ec2:RunInstances on arn:aws:ec2:us-east-1:1:network-interface/*"},
		{"UnauthorizedOperation", "You are not authorized", cloud.CauseUnauthorized, "Unauthorized", "may not do ec2:CreateFleet"},
		{"UnauthorizedOperation", "x with an explicit deny in a service control policy", cloud.CauseUnauthorized, "Unauthorized", "service control policy"},
		{"AuthFailure", "Not authorized for images: [ami-1]", cloud.CauseUnauthorized, "AMIAuthorizationFailure", "spec.amiSelectorTerms"},
		{"AccessDenied", "no", cloud.CauseUnauthorized, "Unauthorized", ""},
		{"PendingVerification", "wait", cloud.CauseUnauthorized, "AccountPendingVerification", ""},
		{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no", cloud.CauseSpotRole, "SpotSLRCreationFailed", "no service-linked role for EC2 Spot"},
		{"InvalidLaunchTemplateName.NotFoundException", "no", cloud.CauseTemplateGone, "LaunchTemplateNotFound", ""},
		{"InvalidLaunchTemplateId.NotFound", "no", cloud.CauseTemplateGone, "LaunchTemplateNotFound", ""},
		{"RequestLimitExceeded", "no", cloud.CauseThrottled, "RequestLimitExceeded", ""},
		{"InternalError", "no", cloud.CauseTransient, "InternalError", ""},
		{"InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist", cloud.CauseInvalid, "AMINotFound", "spec.amiSelectorTerms: "},
		{"InvalidAMIID.Malformed", "no", cloud.CauseInvalid, "InvalidAMIID", "spec.amiSelectorTerms: "},
		{"InvalidSubnetID.NotFound", "no", cloud.CauseInvalid, "LaunchFailed", "spec.subnetSelectorTerms: "},
		{"InvalidGroup.NotFound", "no", cloud.CauseInvalid, "LaunchFailed", "spec.securityGroupSelectorTerms: "},
		{"InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks.", cloud.CauseInvalid, "SecurityGroupSubnetVPCMismatch", "different VPCs"},
		{"InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", cloud.CauseTransient, "InstanceProfileNameInvalid", ""},
		{"InvalidParameterValue", "Iops to volume size ratio of 60 is too high; maximum is 50", cloud.CauseInvalid, "LaunchFailed", "spec.blockDeviceMappings[].ebs.iops: "},
		{"InvalidBlockDeviceMapping", "Volume of size 1GB is smaller than snapshot 'snap-1', expect size >= 2GB", cloud.CauseInvalid, "LaunchFailed", "spec.blockDeviceMappings"},
		{"InvalidParameterCombination", "HttpPutResponseHopLimit must be 1 to 64", cloud.CauseInvalid, "LaunchFailed", "spec.metadataOptions.httpPutResponseHopLimit: "},
		{"InvalidUserData.Malformed", "User data is limited to 16384 bytes", cloud.CauseInvalid, "UserDataSizeLimitExceeded", "spec.userData: "},
		{"InvalidTagKey.Malformed", "no", cloud.CauseInvalid, "LaunchFailed", "spec.tags: "},
		{"SomethingNew", "what", cloud.CauseTransient, "LaunchFailed", "SomethingNew: what"},
	} {
		t.Run(c.code, func(t *testing.T) {
			v := judge(fmt.Errorf("creating fleet: %w", refusedCall("CreateFleet", c.code, c.text)))
			if v.cause != c.cause || v.reason != c.reason || !strings.Contains(v.message, c.says) || strings.Contains(v.message, "Encoded") {
				t.Errorf("%+v, want %s %s with %q", v, c.cause, c.reason, c.says)
			}
			if v.code != ec2error.Bare(c.code) {
				t.Errorf("code %q", v.code)
			}
			offerings := v.cause == cloud.CauseCapacity || v.cause == cloud.CauseQuota || v.cause == cloud.CauseSpotRole
			if ec2error.OfferingsFailed(v.reason) != offerings {
				t.Errorf("to the scheduler %s is the fault of offerings: %t, want %t", v.reason, !offerings, offerings)
			}
		})
	}
}

func TestJudgeWhatIsNoAnswer(t *testing.T) {
	if v := judge(errors.New("connection reset by peer")); v.cause != cloud.CauseTransient || v.code != ec2error.NoAnswer || !strings.Contains(v.message, "reset") {
		t.Errorf("%+v", v)
	}
	// An unknown error of a fleet counts against its offering, for this launch only.
	if v := judgeFleet("SomethingNew", "what"); v.cause != cloud.CauseUnknown || v.cause.Passing() {
		t.Errorf("%+v", v)
	}
	// A fleet's own code where a zone does not have the type.
	const notThere = "Your requested instance type (t3.micro) is not supported in your requested Availability Zone (us-east-1e)."
	if v := judgeFleet("InvalidFleetConfiguration", notThere); v.cause != cloud.CauseCapacity || v.code != ec2error.Unsupported {
		t.Errorf("%+v", v)
	}
	if v := judgeFleet("InvalidFleetConfiguration", "no"); v.cause != cloud.CauseInvalid {
		t.Errorf("%+v", v)
	}
	if v := judgeFleet("UnauthorizedOperation", "no"); !strings.Contains(v.message, "ec2:RunInstances") {
		t.Errorf("%+v", v)
	}
}

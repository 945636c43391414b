package ec2error_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

func TestQuotaOf(t *testing.T) {
	for _, c := range []struct{ instanceType, capacityType, want string }{
		{"m7g.large", "on-demand", "L-1216C47A"},
		{"m7g.large", "spot", "L-34B43A08"},
		{"t3a.nano", "on-demand", "L-1216C47A"},
		{"i4i.large", "spot", "L-34B43A08"},
		{"im4gn.large", "on-demand", "L-1216C47A"},
		{"g5.xlarge", "on-demand", "L-DB2E81BA"},
		{"gr6.4xlarge", "spot", "L-3819A6DF"},
		{"vt1.3xlarge", "on-demand", "L-DB2E81BA"},
		{"p4d.24xlarge", "spot", "L-7212CCBC"},
		{"p5.48xlarge", "spot", "L-C4BD4855"},
		{"p5.48xlarge", "on-demand", "L-417A185B"},
		{"inf2.xlarge", "on-demand", "L-1945791B"},
		{"trn1.2xlarge", "spot", "L-6B0D517C"},
		{"dl1.24xlarge", "on-demand", "L-6E869C2A"},
		{"d3.xlarge", "on-demand", "L-1216C47A"},
		{"f2.6xlarge", "spot", "L-88CF9481"},
		{"x2idn.metal", "on-demand", "L-7295265B"},
		{"u-6tb1.metal", "on-demand", "L-43DA4232"},
		{"u-6tb1.metal", "spot", ""},
		{"hpc7g.16xlarge", "on-demand", "L-F7808C92"},
		{"h1.2xlarge", "on-demand", "L-1216C47A"},
	} {
		code := ec2error.VcpuLimitExceeded
		if c.capacityType == "spot" {
			code = ec2error.MaxSpotInstanceCountExceeded
		}
		if got := ec2error.QuotaOf(c.instanceType, code); got.Code != c.want || (got.Name == "") != (c.want == "") {
			t.Errorf("%s %s counts against %+v, want %s", c.instanceType, c.capacityType, got, c.want)
		}
	}
}

// Each code that a launch can end in says what to do; a code of offerings has a reason that the scheduler takes for the offerings' fault.
func TestRemedies(t *testing.T) {
	for code, want := range map[ec2error.Code]string{
		ec2error.VcpuLimitExceeded:             "request a higher vCPU quota L-DB2E81BA",
		ec2error.MaxSpotInstanceCountExceeded:  "request a higher vCPU quota L-3819A6DF",
		ec2error.MaxFleetCountExceeded:         "EC2 Fleets",
		ec2error.VolumeLimitExceeded:           "--service-code ebs",
		ec2error.PrivateIPAddressLimitExceeded: "--service-code vpc",
		ec2error.RequestResourceCountExceeded:  "--service-code ec2",
		ec2error.SpotServiceLinkedRole:         "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
		ec2error.InsufficientInstanceCapacity:  "allow more instance types",
		ec2error.InsufficientCidrBlocks:        "spec.subnetSelectorTerms",
		ec2error.UnauthorizedOperation:         "manifests/iam/launcher.json",
		ec2error.PendingVerification:           "AWS Support",
		ec2error.UnrecognizedClient:            "credentials",
		ec2error.RequestLimitExceeded:          "what else calls EC2",
		ec2error.InternalError:                 "health.aws.amazon.com",
		ec2error.NoAnswer:                      "routes",
	} {
		if got := code.Remedy("g5.xlarge"); !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", code, got, want)
		}
		if reason := code.Reason(); (reason != "") != code.OfOffering() || ec2error.OfferingsFailed(reason) != code.OfOffering() {
			t.Errorf("%s has the reason %q", code, reason)
		}
	}
	// What EC2 refuses by name may be denied by any policy, or be what the class asks of the type.
	for code, want := range map[ec2error.Code]string{
		ec2error.UnauthorizedOperation: "in the policy that denies it", "InvalidParameterCombination": "in the EC2NodeClass", ec2error.PendingVerification: "AWS Support",
	} {
		if got := code.Remedy("g5.xlarge"); !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", code, got, want)
		}
	}
	if got := ec2error.UnauthorizedOperation.Remedy(""); !strings.Contains(got, "give the launcher's IAM role the action") {
		t.Errorf("a denial of the call: %q", got)
	}
	if reason := ec2error.ReasonInstanceTypeRefused; !ec2error.OfferingsFailed(reason) || !ec2error.HeldByLauncher(reason) || !ec2error.IsLaunchEvent(reason) {
		t.Error("a refused instance type counts against the NodePool, or against other classes")
	}
	if ec2error.HeldByLauncher(ec2error.ReasonInsufficientCapacity) {
		t.Error("a lack of capacity is no concern of the scheduler's")
	}
	if ec2error.OfferingsFailed("MinValuesNotMet") {
		t.Error("a claim that names too few values counts against its offerings")
	}
	if got := ec2error.Code("SomethingNew").Remedy(""); got != "" {
		t.Errorf("an unknown code: %q", got)
	}
}

func TestEndOfAnInstance(t *testing.T) {
	for code, want := range map[string]struct{ remedy, reason string }{
		"Client.InternalError":                {remedy: "KMS key"},
		"Client.VolumeLimitExceeded":          {remedy: "--service-code ebs"},
		"Client.MaxIOPSLimitExceeded":         {remedy: "--service-code ebs"},
		"Client.InvalidSnapshot.NotFound":     {remedy: "spec.blockDeviceMappings"},
		"Client.InstanceInitiatedShutdown":    {remedy: "user data"},
		"Server.InsufficientInstanceCapacity": {reason: ec2error.ReasonInsufficientCapacity},
		"Server.InternalError":                {},
		"Server.SpotInstanceTermination":      {},
		"Client.UserInitiatedShutdown":        {},
		"":                                    {},
	} {
		remedy, reason := ec2error.EndRemedy(code), ec2error.EndReason(code)
		if (remedy == "") != (want.remedy == "") || !strings.Contains(remedy, want.remedy) || reason != want.reason || ec2error.EndsLaunch(code) != (want.remedy != "") {
			t.Errorf("%q: %q, %q", code, remedy, reason)
		}
	}
}

func TestSummary(t *testing.T) {
	at := time.Date(2026, 1, 1, 19, 12, 51, 0, time.UTC)
	failure := func(code ec2error.Code, instanceType string, since time.Time, attempts int, message string) ec2error.Failure {
		return ec2error.Failure{
			Refusal: ec2error.Refusal{Code: code, Since: since, Attempts: attempts}, InstanceType: instanceType,
			CapacityType: "on-demand", Zone: "a", Message: message,
		}
	}
	failures := []ec2error.Failure{
		failure(ec2error.InsufficientInstanceCapacity, "c5.large", time.Time{}, 0, ""),
		failure(ec2error.VcpuLimitExceeded, "m7g.large", at.Add(time.Minute), 1, "b. Encoded authorization failure message: secret"),
		failure(ec2error.VcpuLimitExceeded, "g5.xlarge", at, 3, "b."),
	}
	got := ec2error.Summarize(failures).String()
	const want = "VcpuLimitExceeded in 2 of 3 offerings (g5.xlarge on-demand in a, ...) since 19:12:51 UTC, attempt 3. " +
		"InsufficientInstanceCapacity in 1 (c5.large on-demand in a). EC2's text: b. What to do: request a higher vCPU quota L-1216C47A"
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "L-DB2E81BA") {
		t.Errorf("%q", got)
	}
	var many []ec2error.Failure
	for i := range 2000 {
		many = append(many, failure(ec2error.Code(fmt.Sprintf("Code%d", i)), "m7g.large", at, i, strings.Repeat("x", 5000)))
	}
	if got := ec2error.Summarize(many).String(); len(got) > 3000 || !strings.Contains(got, "Other codes: 1996") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// sdkError is an error of one operation, as the SDK returns it.
type sdkError struct{ operation, code string }

func (e *sdkError) Error() string     { return e.operation }
func (e *sdkError) Operation() string { return e.operation }
func (e *sdkError) Unwrap() error {
	if e.code == "" {
		return errors.New("connection reset by peer")
	}
	return &answer{e.code}
}

type answer struct{ code string }

func (a *answer) Error() string     { return a.code }
func (a *answer) ErrorCode() string { return a.code }

func TestOf(t *testing.T) {
	for _, c := range []struct {
		err       error
		code      ec2error.Code
		operation string
	}{
		{fmt.Errorf("creating fleet: %w", &sdkError{"CreateFleet", "Server.InternalError"}), ec2error.InternalError, "CreateFleet"},
		{&sdkError{"DescribeSubnets", ""}, ec2error.NoAnswer, "DescribeSubnets"},
		{errors.New("writing the launch id"), "", ""},
	} {
		if code, operation := ec2error.Of(c.err); code != c.code || operation != c.operation {
			t.Errorf("%v: %s of %s", c.err, code, operation)
		}
	}
}

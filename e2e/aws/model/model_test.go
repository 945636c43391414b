package model_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/aws/model"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// query is a request of the Query protocol; parameters are NAME=VALUE.
func query(service, action string, parameters ...string) wire.Request {
	form := url.Values{"Action": {action}, "Version": {"x"}}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		form.Set(name, value)
	}
	return wire.Request{Service: service, Action: action, Params: wire.NewParams(form)}
}

// document is a request of SQS.
func document(action, body string) wire.Request {
	return wire.Request{Service: "sqs", Action: action, Protocol: wire.JSON, Body: []byte(body)}
}

func TestCheck(t *testing.T) {
	const fleet = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=x"
	const target = "TargetCapacitySpecification.TotalTargetCapacity=2"
	m := model.New()
	for name, c := range map[string]struct {
		request wire.Request
		want    []string
	}{
		"a good fleet": {query("ec2", "CreateFleet", fleet, target, "Type=instant", "ClientToken=a",
			"LaunchTemplateConfigs.1.Overrides.1.InstanceType=m99.large", "LaunchTemplateConfigs.1.Overrides.2.Priority=1.5",
			"TagSpecification.1.ResourceType=fleet", "TagSpecification.1.Tag.1.Key=a", "DryRun=false"), nil},
		"an unknown parameter": {query("ec2", "CreateFleet", fleet, target, "Colour=red", "LaunchTemplateConfigs.1.Overrides.1.Type=x"), []string{
			"UnknownParameter: The parameter Colour is not recognized",
			"UnknownParameter: The parameter LaunchTemplateConfigs.1.Overrides.1.Type is not recognized",
		}},
		"a number that is none": {query("ec2", "CreateFleet", fleet, "TargetCapacitySpecification.TotalTargetCapacity=two"), []string{
			"InvalidParameterValue: Invalid value 'two' for TargetCapacitySpecification.TotalTargetCapacity. Expecting an integer",
		}},
		"a value that there is not": {query("ec2", "CreateFleet", fleet, target, "Type=sudden"), []string{
			"InvalidParameterValue: Invalid value 'sudden' for Type. Expecting one of request, maintain, instant",
		}},
		"a flag that is none": {query("ec2", "CreateFleet", fleet, target, "DryRun=maybe"), []string{
			"InvalidParameterValue: Invalid value 'maybe' for DryRun. Expecting true or false",
		}},
		"a time that is none": {query("ec2", "CreateFleet", fleet, target, "ValidUntil=tomorrow"), []string{
			"InvalidParameterValue: Invalid value 'tomorrow' for ValidUntil. Expecting a time such as 2026-01-02T15:04:05Z",
		}},
		"required": {query("ec2", "CreateFleet", "TargetCapacitySpecification.DefaultTargetCapacityType=spot"), []string{
			"MissingParameter: The request must contain the parameter LaunchTemplateConfigs",
			"MissingParameter: The request must contain the parameter TargetCapacitySpecification.TotalTargetCapacity",
		}},
		"required in a member": {query("ec2", "RunInstances", "MinCount=1", "MaxCount=1", "LicenseSpecification.1.X=1", "CreditSpecification.X=y"), []string{
			"UnknownParameter: The parameter CreditSpecification.X is not recognized",
			"UnknownParameter: The parameter LicenseSpecification.1.X is not recognized",
			"MissingParameter: The request must contain the parameter CreditSpecification.CpuCredits",
		}},
		"members of IAM": {query("iam", "CreateInstanceProfile", "InstanceProfileName=a", "Tags.member.1.Key=k", "Tags.member.2.Key=l", "Tags.member.2.Value=v"), []string{
			"ValidationError: The request must contain the parameter Tags.member.1.Value",
		}},
		"a good document":                      {document("ReceiveMessage", `{"QueueUrl":"q","MaxNumberOfMessages":10,"MessageAttributeNames":["All"],"AttributeNames":[]}`), nil},
		"message attributes by their old name": {document("ReceiveMessage", `{"QueueUrl":"q","AttributeNames":["SentTimestamp","All"]}`), nil},
		"message attributes of a queue": {document("GetQueueAttributes", `{"QueueUrl":"q","AttributeNames":["SenderId"]}`), []string{
			"ValidationException: Invalid value 'SenderId' for AttributeNames.1. Expecting one of All, Policy, VisibilityTimeout, MaximumMessageSize, MessageRetentionPeriod, ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible, CreatedTimestamp, LastModifiedTimestamp, QueueArn, ApproximateNumberOfMessagesDelayed, DelaySeconds, ReceiveMessageWaitTimeSeconds, RedrivePolicy, FifoQueue, ContentBasedDeduplication, KmsMasterKeyId, KmsDataKeyReusePeriodSeconds, DeduplicationScope, FifoThroughputLimit, RedriveAllowPolicy, SqsManagedSseEnabled",
		}},
		"a bad document": {document("ReceiveMessage", `{"MaxNumberOfMessages":"10","Wait":1}`), []string{
			"ValidationException: Invalid value '10' for MaxNumberOfMessages. Expecting a number",
			"ValidationException: The parameter Wait is not recognized",
			"ValidationException: The request must contain the parameter QueueUrl",
		}},
		"a map":                       {document("CreateQueue", `{"QueueName":"q","Attributes":{"DelaySeconds":"1"},"tags":{"a":"b"}}`), nil},
		"an unknown operation":        {query("ec2", "RunAway", "Colour=red"), nil},
		"a form where the SDK writes": {query("sqs", "GetQueueUrl", "Colour=red"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := m.Check(c.request)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range found {
				got = append(got, e.Error())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// Every operation can be taken apart: a release of the SDK that cannot be is noticed here.
func TestEveryOperation(t *testing.T) {
	m := model.New()
	for service, action := range m.Operations() {
		if _, err := m.Check(query(service, action)); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}
}

package aws

import (
	"encoding/json"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

func resolving(s *shop) {
	for action, body := range map[string]string{
		"DescribeSubnets":        "<subnetSet>" + subnetXML("subnet-1", "us-east-1a", 10) + "</subnetSet>",
		"DescribeSecurityGroups": "<securityGroupInfo><item><groupId>sg-1</groupId></item></securityGroupInfo>",
		"DescribeImages": "<imagesSet><item><imageId>ami-1</imageId><architecture>arm64</architecture>" +
			"<creationDate>2026-01-01T00:00:00.000Z</creationDate></item></imagesSet>",
		"DescribeCapacityReservations": "<capacityReservationSet>" + reservationXML("cr-1", "us-east-1a", "2") + "</capacityReservationSet>",
		"GetInstanceProfile":           "<GetInstanceProfileResult><InstanceProfile/></GetInstanceProfileResult>",
		"AddRoleToInstanceProfile":     "",
	} {
		s.set(action, ok("<"+action+"Response>"+body+"</"+action+"Response>"))
	}
	s.set("GetParameter", ok(`{"Parameter":{"Value":"ami-1"}}`))
}

// FuzzResolve checks the reading of any EC2NodeClass: nothing panics or ends the process; every condition that Ready depends on is set; a
// valid class gives instance types and a complete launch template, and an invalid one gives neither.
func FuzzResolve(f *testing.F) {
	for _, text := range []string{
		`{}`,
		`{"amiSelectorTerms":[{"alias":"al2023@latest"}],"role":"node","kubelet":{"maxPods":110,"evictionHard":{"memory.available":"5%"}}}`,
		`{"amiFamily":"AL2","amiSelectorTerms":[{"id":"ami-1"}],"role":"node","userData":"#!/bin/bash\n","instanceStorePolicy":"RAID0"}`,
		`{"amiFamily":"Bottlerocket","amiSelectorTerms":[{"tags":{"a":"*"}}],"instanceProfile":"p","userData":"[settings]\nkubernetes=1"}`,
		`{"amiFamily":"Custom","amiSelectorTerms":[{"name":"a","owner":"self"}],"blockDeviceMappings":[null,{"deviceName":"/dev/xvda","ebs":{"volumeSize":"100Gi"}}]}`,
		`{"amiSelectorTerms":[{"alias":"x"}]}`, `{"amiSelectorTerms":[{"alias":"windows2022@latest"}]}`, `{"amiSelectorTerms":[{"alias":"@@"}]}`,
		`{"kubelet":{"systemReserved":{"cpu":"much"},"maxPods":-1}}`, `{"networkInterfaces":[null,{"interfaceType":"efa-only"}]}`,
		`{"capacityReservationSelectorTerms":[{"id":"cr-1"},{"tags":{"":""}}],"cpuOptions":{},"metadataOptions":{},"connectionTracking":{}}`,
		`{"tags":{"karpenter.sh/nodepool":"x"},"placementGroupSelector":{},"ipPrefixCount":-5}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var spec awsv1.EC2NodeClassSpec
		if err := json.Unmarshal(text, &spec); err != nil {
			return // The API server takes no such object.
		}
		s, c := newShop(t, func(c *Config) {
			c.ClusterEndpoint, c.ClusterCA, c.ServiceCIDR, c.KubernetesVersion = "https://prod", "Y2E=", "10.0.0.0/16", "1.36"
		})
		resolving(s)
		checkResolved(t, c, &awsv1.EC2NodeClass{Spec: spec})
	})
}

func checkResolved(t *testing.T, c *Cloud, class *awsv1.EC2NodeClass) {
	t.Helper()
	class.Name = "default"
	status, err := c.Resolve(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	class.Status = status
	for _, kind := range []string{
		awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeAMIsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeValidationSucceeded, awsv1.ConditionTypePlacementGroupReady,
	} {
		if got := class.StatusConditions().Get(kind); got.IsUnknown() || got.IsFalse() && got.Message == "" {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	ready := class.StatusConditions().Root().IsTrue()
	checkTypes(t, c, class, ready)
	known, err := c.describeCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, faulty := launchFault(class, known)
	if ready == faulty {
		t.Errorf("Ready %v, but a fault at launch %v", ready, faulty)
	}
	if !faulty {
		checkTemplate(t, class, known)
	}
}

func checkTypes(t *testing.T, c *Cloud, class *awsv1.EC2NodeClass, ready bool) {
	t.Helper()
	types, err := c.InstanceTypes(t.Context(), class)
	if ready && err != nil {
		t.Errorf("a class that is Ready has no instance types: %v", err)
	}
	for _, it := range types {
		for name, q := range it.Allocatable {
			if capacity := it.Capacity[name]; q.Sign() < 0 || q.Cmp(capacity) > 0 {
				t.Errorf("%s: %s %s of %s", it.Name, name, q.String(), capacity.String())
			}
		}
	}
}

func checkTemplate(t *testing.T, class *awsv1.EC2NodeClass, known cluster) {
	t.Helper()
	template, err := templateSpec{
		class: class, cluster: known, capacityType: "spot", imageID: class.Status.AMIs[0].ID, maxPods: 29,
	}.template()
	if err != nil {
		t.Fatal(err)
	}
	data := template.LaunchTemplateData
	if data.UserData == nil && fromec2.Family(class) != "Custom" || awssdk.ToString(data.ImageId) == "" || data.IamInstanceProfile == nil ||
		len(data.SecurityGroupIds) == 0 && len(data.NetworkInterfaces) == 0 {
		t.Errorf("half a launch template: %+v", data)
	}
}

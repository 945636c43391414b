package aws

import (
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/aws/userdata"
)

func someCluster() cluster {
	return cluster{Cluster: userdata.Cluster{
		Name: "prod", Endpoint: "https://prod", CertificateAuthority: "Y2E=", ServiceCIDR: "10.0.0.0/16",
	}, version: "1.36"}
}

func TestFaultOf(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*awsv1.EC2NodeClassSpec, *cluster)
		reason, message string
	}{
		"none": {func(*awsv1.EC2NodeClassSpec, *cluster) {}, "", ""},
		"windows": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
		}, "", ""},
		"windows with tags in its script": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
			s.UserData = new("<powershell>\nWrite-Host hello\n</powershell>")
		}, "UserDataInvalid", "spec.userData"},
		"a family that nobody has": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) { s.AMIFamily = new("Ubuntu") }, notSupported, "Ubuntu"},
		"an alias that nobody knows": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2024@latest"}}
		}, "AMISelectorInvalid", "spec.amiSelectorTerms"},
		"efa beside the primary interface": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.NetworkInterfaces = []*awsv1.NetworkInterface{{InterfaceType: "interface"}, {DeviceIndex: 1, InterfaceType: "efa-only"}}
		}, "", ""},
		"efa as the primary interface": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.NetworkInterfaces = []*awsv1.NetworkInterface{{InterfaceType: awsv1.InterfaceTypeEFAOnly}}
		}, "NetworkInterfacesInvalid", "spec.networkInterfaces[0]"},
		"no primary interface": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.NetworkInterfaces = []*awsv1.NetworkInterface{{NetworkCardIndex: 1, InterfaceType: "interface"}}
		}, "NetworkInterfacesInvalid", "missing"},
		"an interface twice": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.NetworkInterfaces = []*awsv1.NetworkInterface{{InterfaceType: "interface"}, {InterfaceType: "interface"}}
		}, "NetworkInterfacesInvalid", "spec.networkInterfaces[1]"},
		"no interface": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.NetworkInterfaces = []*awsv1.NetworkInterface{nil}
		}, "NetworkInterfacesInvalid", "spec.networkInterfaces[0]"},
		"our tags": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.Tags = map[string]string{"slipway.dev/launch": "x"}
		}, "TagsInvalid", "spec.tags"},
		"karpenter's tags": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.Tags = map[string]string{"karpenter.sh/nodepool": "x"}
		}, "TagsInvalid", "spec.tags"},
		"ipv6": {func(_ *awsv1.EC2NodeClassSpec, c *cluster) { c.IPv6, c.ServiceCIDR = true, "fd00::/108" }, "", ""},
		"windows with ipv6": {func(s *awsv1.EC2NodeClassSpec, c *cluster) {
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
			c.IPv6, c.ServiceCIDR = true, "fd00::/108"
		}, notSupported, "AMI family Windows2022"},
		"the Services' range of another IP family": {func(_ *awsv1.EC2NodeClassSpec, c *cluster) { c.IPv6 = true }, "ServiceCIDRInvalid", "10.0.0.0/16"},
		"no endpoint": {func(_ *awsv1.EC2NodeClassSpec, c *cluster) { c.Endpoint = "" }, "ClusterUnknown", "clusterEndpoint"},
		"no CIDR":     {func(_ *awsv1.EC2NodeClassSpec, c *cluster) { c.ServiceCIDR = "" }, "ClusterUnknown", "CIDR"},
		"bad quantity": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.Kubelet = &awsv1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "much"}}
		}, "KubeletInvalid", "spec.kubelet.systemReserved[cpu]"},
		"bad user data": {func(s *awsv1.EC2NodeClassSpec, _ *cluster) {
			s.UserData = awssdk.String("MIME-Version: 1.0\n\n")
		}, "UserDataInvalid", "spec.userData"},
		"custom asks for nothing": {func(s *awsv1.EC2NodeClassSpec, c *cluster) {
			s.AMIFamily, s.AMISelectorTerms, c.Endpoint = new("Custom"), []awsv1.AMISelectorTerm{{ID: "ami-1"}}, ""
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			class, known := nodeClass(), someCluster()
			tc.change(&class.Spec, &known)
			got, found := faultOf(class, known)
			if found != (tc.reason != "") || got.reason != tc.reason || !strings.Contains(got.message, tc.message) {
				t.Errorf("got %+v, want %s about %s", got, tc.reason, tc.message)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no region":    {ClusterName: "prod"},
		"no cluster":   {AWS: awssdk.Config{Region: "us-east-1"}},
		"a bad name":   {AWS: awssdk.Config{Region: "us-east-1"}, ClusterName: "it's"},
		"nothing else": {},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

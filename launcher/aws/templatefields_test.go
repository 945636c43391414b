package aws

import (
	"encoding/base64"
	"maps"
	"net/url"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// launched makes one launch of a class that set adapts, and returns the CreateLaunchTemplate and CreateFleet calls.
func launched(t *testing.T, set func(*awsv1.EC2NodeClassSpec)) (template, fleetCall url.Values) {
	t.Helper()
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
	set(&in.Class.Spec)
	if _, err := c.Launch(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return w.made("CreateLaunchTemplate")[0], w.made("CreateFleet")[0]
}

// decoded returns the user data of a launch template.
func decoded(t *testing.T, template url.Values) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(template.Get("LaunchTemplateData.UserData"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The class's settings of an instance are in its launch template, field by field and nothing else.
func TestTemplateHasTheClassesFields(t *testing.T) {
	const data = "LaunchTemplateData."
	for name, tc := range map[string]struct {
		set    func(*awsv1.EC2NodeClassSpec)
		prefix string
		want   map[string]string
	}{
		"spec.detailedMonitoring": {
			func(s *awsv1.EC2NodeClassSpec) { s.DetailedMonitoring = new(true) }, "Monitoring.", map[string]string{"Enabled": "true"},
		},
		"no spec.detailedMonitoring": {func(*awsv1.EC2NodeClassSpec) {}, "Monitoring.", map[string]string{"Enabled": "false"}},
		"spec.metadataOptions": {func(s *awsv1.EC2NodeClassSpec) {
			s.MetadataOptions = &awsv1.MetadataOptions{
				HTTPEndpoint: new("disabled"), HTTPProtocolIPv6: new("enabled"), HTTPPutResponseHopLimit: new(int64(3)), HTTPTokens: new("optional"),
			}
		}, "MetadataOptions.", map[string]string{
			"HttpEndpoint": "disabled", "HttpProtocolIpv6": "enabled", "HttpPutResponseHopLimit": "3", "HttpTokens": "optional",
			"InstanceMetadataTags": "disabled",
		}},
		"spec.tags": {func(s *awsv1.EC2NodeClassSpec) { s.Tags = map[string]string{"team": "b"} }, "TagSpecification.", map[string]string{
			"1.ResourceType": "network-interface", "1.Tag.1.Key": "eks:eks-cluster-name", "1.Tag.1.Value": "prod",
			"1.Tag.2.Key": "karpenter.k8s.aws/ec2nodeclass", "1.Tag.2.Value": "default", "1.Tag.3.Key": "karpenter.sh/nodepool", "1.Tag.3.Value": "pool",
			"1.Tag.4.Key": "kubernetes.io/cluster/prod", "1.Tag.4.Value": "owned", "1.Tag.5.Key": "team", "1.Tag.5.Value": "b",
		}},
		"no spec.metadataOptions": {func(*awsv1.EC2NodeClassSpec) {}, "MetadataOptions.", map[string]string{
			"HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "HttpPutResponseHopLimit": "1", "HttpTokens": "required",
			"InstanceMetadataTags": "disabled",
		}},
		"spec.associatePublicIPAddress": {
			func(s *awsv1.EC2NodeClassSpec) { s.AssociatePublicIPAddress = new(false) }, "NetworkInterface.",
			map[string]string{"1.AssociatePublicIpAddress": "false", "1.DeviceIndex": "0", "1.SecurityGroupId.1": "sg-1"},
		},
		"spec.ipPrefixCount": {
			func(s *awsv1.EC2NodeClassSpec) { s.IPPrefixCount = new(int32(4)) }, "NetworkInterface.",
			map[string]string{"1.Ipv4PrefixCount": "4", "1.DeviceIndex": "0", "1.SecurityGroupId.1": "sg-1"},
		},
		"spec.connectionTracking": {func(s *awsv1.EC2NodeClassSpec) {
			s.ConnectionTracking = &awsv1.ConnectionTracking{
				TCPEstablishedTimeout: new(int32(600)), UDPStreamTimeout: new(int32(120)), UDPTimeout: new(int32(40)),
			}
		}, "NetworkInterface.", map[string]string{
			"1.DeviceIndex": "0", "1.SecurityGroupId.1": "sg-1", "1.ConnectionTrackingSpecification.TcpEstablishedTimeout": "600",
			"1.ConnectionTrackingSpecification.UdpStreamTimeout": "120", "1.ConnectionTrackingSpecification.UdpTimeout": "40",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			template, _ := launched(t, tc.set)
			if diff := cmp.Diff(tc.want, given(template, data+tc.prefix)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.prefix, diff)
			}
		})
	}
}

// A class's volumes are those of its launch template; without any they are its AMI family's.
func TestTemplateHasTheClassesVolumes(t *testing.T) {
	size := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	standard := func(device, size string) map[string]string {
		return map[string]string{
			device + ".Ebs.DeleteOnTermination": "true", device + ".Ebs.Encrypted": "true", device + ".Ebs.VolumeSize": size,
			device + ".Ebs.VolumeType": "gp3",
		}
	}
	bottlerocket := standard("1", "4")
	maps.Copy(bottlerocket, standard("2", "20"))
	bottlerocket["1.DeviceName"], bottlerocket["2.DeviceName"] = "/dev/xvda", "/dev/xvdb"
	al2023 := standard("1", "20")
	al2023["1.DeviceName"] = "/dev/xvda"
	for name, tc := range map[string]struct {
		set  func(*awsv1.EC2NodeClassSpec)
		want map[string]string
	}{
		"all fields": {func(s *awsv1.EC2NodeClassSpec) {
			s.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{
				{DeviceName: new("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{
					DeleteOnTermination: new(false), Encrypted: new(true), IOPS: new(int64(4000)), KMSKeyID: new("key-1"), SnapshotID: new("snap-1"),
					Throughput: new(int64(250)), VolumeInitializationRate: new(int32(200)), VolumeSize: size("100.5Gi"), VolumeType: new("gp3"),
				}},
				{DeviceName: new("/dev/sdb"), EBS: &awsv1.BlockDevice{VolumeSize: size("1Ti"), VolumeType: new("st1")}},
			}
		}, map[string]string{
			"1.DeviceName": "/dev/xvda", "1.Ebs.DeleteOnTermination": "false", "1.Ebs.Encrypted": "true", "1.Ebs.Iops": "4000",
			"1.Ebs.KmsKeyId": "key-1", "1.Ebs.SnapshotId": "snap-1", "1.Ebs.Throughput": "250", "1.Ebs.VolumeInitializationRate": "200",
			"1.Ebs.VolumeSize": "101", "1.Ebs.VolumeType": "gp3",
			"2.DeviceName": "/dev/sdb", "2.Ebs.VolumeSize": "1024", "2.Ebs.VolumeType": "st1",
		}},
		"rates of 0": {func(s *awsv1.EC2NodeClassSpec) {
			s.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{
				{DeviceName: new("/dev/xvda"), EBS: &awsv1.BlockDevice{IOPS: new(int64(0)), Throughput: new(int64(0)), VolumeSize: size("20Gi"), VolumeType: new("gp3")}},
			}
		}, map[string]string{"1.DeviceName": "/dev/xvda", "1.Ebs.VolumeSize": "20", "1.Ebs.VolumeType": "gp3"}},
		"AL2023": {func(*awsv1.EC2NodeClassSpec) {}, al2023},
		"Bottlerocket": {func(s *awsv1.EC2NodeClassSpec) {
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}
		}, bottlerocket},
		"Custom": {func(s *awsv1.EC2NodeClassSpec) {
			s.AMISelectorTerms, s.AMIFamily = []awsv1.AMISelectorTerm{{ID: "ami-arm"}}, awssdk.String(awsv1.AMIFamilyCustom)
		}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			template, _ := launched(t, tc.set)
			if diff := cmp.Diff(tc.want, given(template, "LaunchTemplateData.BlockDeviceMapping.")); diff != "" {
				t.Errorf("block devices (-want +got):\n%s", diff)
			}
		})
	}
}

// Nodes of NodeClaims that request room for Nitro Enclaves have them enabled, and no others.
func TestEnclaves(t *testing.T) {
	for resourceName, want := range map[corev1.ResourceName]string{"eks.amazonaws.com/nip-slots": "true", corev1.ResourceCPU: ""} {
		w, c := newWire(t)
		w.on("CreateFleet", fleet([]string{"i-1"}))
		in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
		in.Claims[0].Spec.Resources.Requests = corev1.ResourceList{resourceName: resource.MustParse("1")}
		if _, err := c.Launch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if got := w.made("CreateLaunchTemplate")[0].Get("LaunchTemplateData.EnclaveOptions.Enabled"); got != want {
			t.Errorf("requesting %s: enclaves %q, want %q", resourceName, got, want)
		}
	}
}

// The class's context goes with each CreateFleet call.
func TestFleetHasTheClassesContext(t *testing.T) {
	_, call := launched(t, func(s *awsv1.EC2NodeClassSpec) { s.Context = new("cr-context") })
	if got := call.Get("Context"); got != "cr-context" {
		t.Errorf("context %q", got)
	}
}

// NodeClaims whose minValues were relaxed are launched without the class's context, as Karpenter does.
func TestNoContextWithRelaxedMinValues(t *testing.T) {
	for value, want := range map[string]string{"true": "", "false": "cr-context"} {
		w, c := newWire(t)
		w.on("CreateFleet", fleet([]string{"i-1"}))
		in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
		in.Class.Spec.Context = new("cr-context")
		in.Claims[0].Annotations = map[string]string{karpv1.NodeClaimMinValuesRelaxedAnnotationKey: value}
		if _, err := c.Launch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if got := w.made("CreateFleet")[0].Get("Context"); got != want {
			t.Errorf("%s: context %q, want %q", value, got, want)
		}
	}
}

// Which directories Bottlerocket is given for local disks depends on its version: that of the alias, of the AMI that is launched, or of a name in the terms.
func TestVersionOfBottlerocketIsInUserData(t *testing.T) {
	name := func(version string) string { return "bottlerocket-aws-k8s-1.36-aarch64-" + version + "-431fe75a" }
	terms := func(names ...string) (out []awsv1.AMISelectorTerm) {
		for _, n := range names {
			out = append(out, awsv1.AMISelectorTerm{Name: n})
		}
		return out
	}
	byTag := []awsv1.AMISelectorTerm{{Tags: map[string]string{"a": "b"}}}
	for what, tc := range map[string]struct {
		terms []awsv1.AMISelectorTerm
		ami   string
		given bool
	}{
		"the latest":                       {[]awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}, name("v1.45.0"), false},
		"an old release":                   {[]awsv1.AMISelectorTerm{{Alias: "bottlerocket@v1.45.0"}}, name("v1.45.0"), true},
		"a release":                        {[]awsv1.AMISelectorTerm{{Alias: "bottlerocket@1.46.0"}}, name("v1.46.0"), false},
		"an old AMI by its tag":            {byTag, name("v1.45.0"), true},
		"an AMI by its tag":                {byTag, name("v1.46.0"), false},
		"an AMI by its ID":                 {[]awsv1.AMISelectorTerm{{ID: "ami-arm"}}, name("v1.46.0"), false},
		"one of two names":                 {terms(name("v1.46.0"), name("v1.45.0")), name("v1.45.0"), true},
		"a name with a pattern":            {terms(name("v1.*")), name("v1.46.0"), false},
		"a name that only the terms have":  {terms("own-v1.46.0-*"), "own-v1.46.0-1", false},
		"a version that may be of another": {byTag, "own-v2.0.0-1", true},
		"no version":                       {byTag, "mine", true},
	} {
		t.Run(what, func(t *testing.T) {
			w, c := newWire(t)
			w.on("CreateFleet", fleet([]string{"i-1"}))
			in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
			in.Class.Spec.AMIFamily, in.Class.Spec.AMISelectorTerms = new(catalog.FamilyBottlerocket), tc.terms
			in.Class.Spec.InstanceStorePolicy = new(awsv1.InstanceStorePolicyRAID0)
			other := awsv1.AMI{ID: "ami-other", Name: name("v1.50.0"), Requirements: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
			}}
			in.Class.Status.AMIs[0].Name = tc.ami
			in.Class.Status.AMIs = append([]awsv1.AMI{other}, in.Class.Status.AMIs...)
			if _, err := c.Launch(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			text := decoded(t, w.made("CreateLaunchTemplate")[0])
			if !strings.Contains(text, "ephemeral-storage") || strings.Contains(text, "--dirs") != tc.given {
				t.Errorf("directories given: want %t:\n%s", tc.given, text)
			}
		})
	}
}

// instanceStorePolicy reaches the node by its user data: nodeadm joins the local disks.
func TestInstanceStorePolicyIsInUserData(t *testing.T) {
	plain, _ := launched(t, func(*awsv1.EC2NodeClassSpec) {})
	raid, _ := launched(t, func(s *awsv1.EC2NodeClassSpec) { s.InstanceStorePolicy = new(awsv1.InstanceStorePolicyRAID0) })
	if strings.Contains(decoded(t, plain), "RAID0") || !strings.Contains(decoded(t, raid), "RAID0") {
		t.Errorf("with RAID0:\n%s\nwithout:\n%s", decoded(t, raid), decoded(t, plain))
	}
}

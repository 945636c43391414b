package aws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/aws/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// templatePrefix distinguishes our launch templates from Karpenter's: Karpenter deletes those that it does not use.
const templatePrefix = "slipway.dev/"

// templateSpec holds all inputs of a launch template.
type templateSpec struct {
	class        *awsv1.EC2NodeClass
	region       string
	cluster      cluster
	capacityType string
	imageID      string
	maxPods      int64
	labels       map[string]string
	taints       []cloud.Taint
	tags         map[string]string
	// efas is the number of EFA interfaces of the instance, one per network card; 0 leaves the network to the class.
	efas    int64
	tenancy string
	// hibernates configures the instance for hibernation, enclaves for Nitro Enclaves.
	hibernates, enclaves bool
	// reservation is the one to launch into; zero for none. openReservations means that EC2 may then run the instance in an open one, unless the class
	// selects reservations.
	reservation      cloud.Reservation
	openReservations bool
	// placementGroup is the ID of the placement group, empty for none; partition is the number of its partition, 0 leaves it to EC2.
	placementGroup string
	partition      int32
}

// template converts the spec to EC2's request. Equal specs have equal names: a launch template is never changed.
func (s templateSpec) template() (*ec2.CreateLaunchTemplateInput, error) {
	text, err := userdata.Render(s.userData())
	if err != nil {
		return nil, err
	}
	data := &ec2types.RequestLaunchTemplateData{
		ImageId:             awssdk.String(s.imageID),
		BlockDeviceMappings: blockDevices(s.class),
		MetadataOptions:     s.metadataOptions(),
		CpuOptions:          cpuOptions(s.class.Spec.CPUOptions),
		Placement:           s.placement(),
		Monitoring:          &ec2types.LaunchTemplatesMonitoringRequest{Enabled: awssdk.Bool(awssdk.ToBool(s.class.Spec.DetailedMonitoring))},
		TagSpecifications:   s.requestTags(),
	}
	if text != "" {
		data.UserData = awssdk.String(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	if s.class.Status.InstanceProfile != "" {
		data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{
			Name: awssdk.String(s.class.Status.InstanceProfile),
		}
	}
	if s.hibernates {
		data.HibernationOptions = &ec2types.LaunchTemplateHibernationOptionsRequest{Configured: awssdk.Bool(true)}
	}
	if s.enclaves {
		data.EnclaveOptions = &ec2types.LaunchTemplateEnclaveOptionsRequest{Enabled: awssdk.Bool(true)}
	}
	s.setNetwork(data)
	setReservation(data, s.reservation, s.openReservations && len(s.class.Spec.CapacityReservationSelectorTerms) == 0)
	out := &ec2.CreateLaunchTemplateInput{
		LaunchTemplateData: data,
		TagSpecifications:  []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: ec2Tags(s.tags)}},
	}
	content, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("naming the launch template: %w", err)
	}
	sum := sha256.Sum256(content)
	out.LaunchTemplateName = awssdk.String(templatePrefix + hex.EncodeToString(sum[:16]))
	return out, nil
}

func (s templateSpec) placement() *ec2types.LaunchTemplatePlacementRequest {
	out := &ec2types.LaunchTemplatePlacementRequest{Tenancy: ec2types.Tenancy(s.tenancy)}
	if s.placementGroup != "" {
		out.GroupId = awssdk.String(s.placementGroup)
	}
	if s.partition != 0 {
		out.PartitionNumber = awssdk.Int32(s.partition)
	}
	return out
}

func (s templateSpec) userData() userdata.Input {
	labels := map[string]string{}
	maps.Copy(labels, s.labels)
	// One call buys one capacity type.
	labels[karpv1.CapacityTypeLabelKey] = s.capacityType
	in := userdata.Input{
		Family: s.class.AMIFamily(), Cluster: s.cluster.Cluster, Kubelet: s.class.Spec.Kubelet, MaxPods: s.maxPods,
		Labels: labels, AMIVersion: s.amiVersion(), RAID0: raid0(s.class), Custom: awssdk.ToString(s.class.Spec.UserData),
		Hibernates: s.hibernates,
		Prefetch:   s.class.Annotations[catalog.PrefetchAnnotation] != catalog.PrefetchOff,
	}
	for _, t := range s.taints {
		in.Taints = append(in.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return in
}

// amiVersion returns the version that the class's alias has, or else the name of a Bottlerocket AMI, as in bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-431fe75a:
// that of the template's own AMI, or else a name in the class's terms. It is empty if none has one.
func (s templateSpec) amiVersion() string {
	if _, version, ok := fromec2.Alias(s.class); ok {
		return version
	}
	var names []string
	for _, ami := range s.class.Status.AMIs {
		if ami.ID == s.imageID && strings.Contains(ami.Name, "bottlerocket") {
			names = append(names, ami.Name)
		}
	}
	for _, term := range s.class.Spec.AMISelectorTerms {
		names = append(names, term.Name)
	}
	for _, name := range names {
		for part := range strings.SplitSeq(name, "-") {
			if strings.HasPrefix(part, "v") && strings.Contains(part, ".") {
				return part
			}
		}
	}
	return ""
}

// requestTags returns the tags of the resources that CreateFleet's own tag specifications do not cover.
func (s templateSpec) requestTags() []ec2types.LaunchTemplateTagSpecificationRequest {
	out := []ec2types.LaunchTemplateTagSpecificationRequest{
		{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: ec2Tags(s.tags)},
	}
	for _, resource := range capacityTypeOf(s.capacityType).tags {
		out = append(out, ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: resource, Tags: ec2Tags(s.tags)})
	}
	return out
}

func ec2Tags(tags map[string]string) []ec2types.Tag {
	var out []ec2types.Tag
	for _, key := range sortedKeys(tags) {
		out = append(out, ec2types.Tag{Key: awssdk.String(key), Value: awssdk.String(tags[key])})
	}
	return out
}

// metadataOptions returns the class's options. In regions whose EC2 does not have the IPv6 endpoint of the metadata service, its setting is left out, as
// in Karpenter.
func (s templateSpec) metadataOptions() *ec2types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := metadataOptions(s.class.Spec.MetadataOptions, s.cluster.IPv6)
	if slices.Contains([]string{"us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"}, s.region) {
		out.HttpProtocolIpv6 = ""
	}
	return out
}

// metadataOptions converts the class's options, with the defaults of Karpenter's CRD: IMDSv2 only, one hop. Without any options, instances of an
// IPv6 cluster have the IPv6 endpoint as well.
func metadataOptions(in *awsv1.MetadataOptions, ipv6 bool) *ec2types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint:            ec2types.LaunchTemplateInstanceMetadataEndpointStateEnabled,
		HttpProtocolIpv6:        ec2types.LaunchTemplateInstanceMetadataProtocolIpv6Disabled,
		HttpPutResponseHopLimit: awssdk.Int32(1),
		HttpTokens:              ec2types.LaunchTemplateHttpTokensStateRequired,
		// An account may enable instance tags in metadata by default. Tag keys with a slash, such as kubernetes.io/cluster/NAME, would then
		// fail the launch.
		InstanceMetadataTags: ec2types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if in == nil {
		if ipv6 {
			out.HttpProtocolIpv6 = ec2types.LaunchTemplateInstanceMetadataProtocolIpv6Enabled
		}
		return out
	}
	if in.HTTPEndpoint != nil {
		out.HttpEndpoint = ec2types.LaunchTemplateInstanceMetadataEndpointState(*in.HTTPEndpoint)
	}
	if in.HTTPProtocolIPv6 != nil {
		out.HttpProtocolIpv6 = ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(*in.HTTPProtocolIPv6)
	}
	if in.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = awssdk.Int32(int32(*in.HTTPPutResponseHopLimit))
	}
	if in.HTTPTokens != nil {
		out.HttpTokens = ec2types.LaunchTemplateHttpTokensState(*in.HTTPTokens)
	}
	return out
}

// blockDevices returns the class's devices, or the defaults of its AMI family, as encrypted gp3.
func blockDevices(class *awsv1.EC2NodeClass) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	if len(class.Spec.BlockDeviceMappings) == 0 {
		return defaultDevices(class.AMIFamily())
	}
	var out []ec2types.LaunchTemplateBlockDeviceMappingRequest
	for _, m := range class.Spec.BlockDeviceMappings {
		if m == nil {
			continue
		}
		mapping := ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName}
		if m.EBS != nil {
			mapping.Ebs = ebsDevice(m.EBS)
		}
		out = append(out, mapping)
	}
	return out
}

func ebsDevice(in *awsv1.BlockDevice) *ec2types.LaunchTemplateEbsBlockDeviceRequest {
	out := &ec2types.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: in.DeleteOnTermination, Encrypted: in.Encrypted,
		KmsKeyId: in.KMSKeyID, SnapshotId: in.SnapshotID,
		Iops: narrow(in.IOPS), Throughput: narrow(in.Throughput),
		VolumeInitializationRate: in.VolumeInitializationRate,
	}
	if in.VolumeType != nil {
		out.VolumeType = ec2types.VolumeType(*in.VolumeType)
	}
	if in.VolumeSize != nil {
		out.VolumeSize = awssdk.Int32(gibibytes(in.VolumeSize.Value()))
	}
	return out
}

// narrow returns a rate of a volume as EC2 takes it. 0 is EC2's default, as in Karpenter: EC2 refuses a 0 that it is sent.
func narrow(n *int64) *int32 {
	if awssdk.ToInt64(n) == 0 {
		return nil
	}
	return awssdk.Int32(int32(*n))
}

// gibibytes rounds up: EC2 sizes volumes in whole GiB.
func gibibytes(bytes int64) int32 { return int32((bytes + 1<<30 - 1) >> 30) }

func defaultDevices(family string) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	var out []ec2types.LaunchTemplateBlockDeviceMappingRequest
	for _, d := range catalog.DefaultVolumes(family) {
		out = append(out, ec2types.LaunchTemplateBlockDeviceMappingRequest{
			DeviceName: awssdk.String(d.DeviceName),
			Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{
				Encrypted: awssdk.Bool(true), DeleteOnTermination: awssdk.Bool(true),
				VolumeType: ec2types.VolumeTypeGp3, VolumeSize: awssdk.Int32(gibibytes(d.SizeBytes)),
			},
		})
	}
	return out
}

package e2e_test

import (
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// volume is what DescribeVolumes says of a volume.
type volume struct {
	device, kind, key, snapshot, team string
	gib, iops, mibps, rate            int32
	encrypted, deleted                bool
}

func volumesOf(t *testing.T, instance string) []volume {
	t.Helper()
	out, err := ec2Client().DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{
		Filters: []ec2types.Filter{{Name: awssdk.String("attachment.instance-id"), Values: []string{instance}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []volume
	for _, v := range out.Volumes {
		one := volume{
			device: awssdk.ToString(v.Attachments[0].Device), kind: string(v.VolumeType), key: awssdk.ToString(v.KmsKeyId),
			snapshot: awssdk.ToString(v.SnapshotId), gib: awssdk.ToInt32(v.Size), iops: awssdk.ToInt32(v.Iops), mibps: awssdk.ToInt32(v.Throughput),
			rate: awssdk.ToInt32(v.VolumeInitializationRate), encrypted: awssdk.ToBool(v.Encrypted), deleted: awssdk.ToBool(v.Attachments[0].DeleteOnTermination),
		}
		for _, tag := range v.Tags {
			if awssdk.ToString(tag.Key) == "team" {
				one.team = awssdk.ToString(tag.Value)
			}
		}
		all = append(all, one)
	}
	return all
}

// The class's settings of an instance are those of the instance that EC2 made: AMI by SSM parameter, volumes, metadata options, monitoring,
// connection tracking, prefixes, tags and the fleet's context.
func TestInstanceHasTheClassesFields(t *testing.T) {
	t.Parallel()
	const parameter = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
	w := newWorld(t, "fields")
	w.classOf("fields", func(s *awsv1.EC2NodeClassSpec) {
		s.AMIFamily, s.AMISelectorTerms = awssdk.String("AL2023"), []awsv1.AMISelectorTerm{{SSMParameter: parameter}}
		s.Tags, s.Context = map[string]string{"team": "fields"}, awssdk.String("context-1")
		s.DetailedMonitoring, s.IPPrefixCount = awssdk.Bool(true), awssdk.Int32(2)
		s.MetadataOptions = &awsv1.MetadataOptions{
			HTTPEndpoint: awssdk.String("enabled"), HTTPProtocolIPv6: awssdk.String("enabled"), HTTPPutResponseHopLimit: awssdk.Int64(3), HTTPTokens: awssdk.String("optional"),
		}
		s.ConnectionTracking = &awsv1.ConnectionTracking{TCPEstablishedTimeout: awssdk.Int32(600), UDPStreamTimeout: awssdk.Int32(120), UDPTimeout: awssdk.Int32(40)}
		s.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{
			{DeviceName: awssdk.String("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{
				VolumeSize: resource.NewQuantity(50<<30, resource.BinarySI), VolumeType: awssdk.String("gp3"), IOPS: awssdk.Int64(4000), Throughput: awssdk.Int64(250),
				Encrypted: awssdk.Bool(true), KMSKeyID: awssdk.String("key-1"), DeleteOnTermination: awssdk.Bool(true),
			}},
			{DeviceName: awssdk.String("/dev/xvdb"), EBS: &awsv1.BlockDevice{
				VolumeSize: resource.NewQuantity(100<<30, resource.BinarySI), VolumeType: awssdk.String("io2"), IOPS: awssdk.Int64(1000),
				SnapshotID: awssdk.String("snap-0123456789abcdef0"), VolumeInitializationRate: awssdk.Int32(200), DeleteOnTermination: awssdk.Bool(false),
			}},
		}
	})
	w.pool("fields", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = "fields"
		onlyTypes(p, "m6i.large")
	})
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)

	i := instancesOf(t, "fields")[0]
	wantVolumes := []volume{
		{device: "/dev/xvda", kind: "gp3", key: "key-1", gib: 50, iops: 4000, mibps: 250, encrypted: true, deleted: true, team: "fields"},
		{device: "/dev/xvdb", kind: "io2", snapshot: "snap-0123456789abcdef0", gib: 100, iops: 1000, rate: 200, team: "fields"},
	}
	byDevice := cmpopts.SortSlices(func(a, b volume) bool { return a.device < b.device })
	if diff := cmp.Diff(wantVolumes, volumesOf(t, awssdk.ToString(i.InstanceId)), cmp.AllowUnexported(volume{}), byDevice); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	wantMetadata := &ec2types.InstanceMetadataOptionsResponse{
		State: "applied", HttpEndpoint: "enabled", HttpProtocolIpv6: "enabled", HttpPutResponseHopLimit: awssdk.Int32(3), HttpTokens: "optional", InstanceMetadataTags: "disabled",
	}
	if diff := cmp.Diff(wantMetadata, i.MetadataOptions, cmpopts.IgnoreUnexported(ec2types.InstanceMetadataOptionsResponse{})); diff != "" {
		t.Errorf("metadata options (-want +got):\n%s", diff)
	}
	checkInterface(t, i)
	for _, launched := range shared.AWS().Instances() {
		if launched.ID == awssdk.ToString(i.InstanceId) && launched.Context != "context-1" {
			t.Errorf("the fleet's context was %q, want context-1", launched.Context)
		}
	}
	claim := w.claimsOf("fields")[0].Object
	if claim.Status.ImageID != awssdk.ToString(i.ImageId) {
		t.Errorf("the NodeClaim has AMI %s, the instance %s", claim.Status.ImageID, awssdk.ToString(i.ImageId))
	}
	if got := claim.Annotations[awsv1.AnnotationInstanceProfile]; got == "" || !strings.HasSuffix(awssdk.ToString(i.IamInstanceProfile.Arn), "/"+got) {
		t.Errorf("the NodeClaim has the instance profile %q, the instance %s", got, awssdk.ToString(i.IamInstanceProfile.Arn))
	}
	checkImage(t, i, parameter)
}

// checkInterface checks what the class says of the network, and of monitoring.
func checkInterface(t *testing.T, i ec2types.Instance) {
	t.Helper()
	nic := i.NetworkInterfaces[0]
	track := nic.ConnectionTrackingConfiguration
	if track == nil || awssdk.ToInt32(track.TcpEstablishedTimeout) != 600 || awssdk.ToInt32(track.UdpStreamTimeout) != 120 || awssdk.ToInt32(track.UdpTimeout) != 40 {
		t.Errorf("connection tracking %+v", track)
	}
	if i.Monitoring.State != ec2types.MonitoringStateEnabled || len(nic.Ipv4Prefixes) != 2 {
		t.Errorf("monitoring %s, %d prefixes, want enabled and 2", i.Monitoring.State, len(nic.Ipv4Prefixes))
	}
}

// checkImage checks that the instance has an AMI of the parameter.
func checkImage(t *testing.T, i ec2types.Instance, parameter string) {
	t.Helper()
	recommended, err := ssm.New(ssm.Options{Region: sandbox.Region, BaseEndpoint: awssdk.String(shared.AWSEndpoint()), Credentials: somebody()}).
		GetParameter(t.Context(), &ssm.GetParameterInput{Name: awssdk.String(parameter)})
	if err != nil {
		t.Fatal(err)
	}
	// The parameter may name a newer AMI meanwhile: another test releases some. The instance runs one that it has named.
	named, err := ec2Client().DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{awssdk.ToString(i.ImageId), awssdk.ToString(recommended.Parameter.Value)}})
	if err != nil || len(named.Images) == 0 || named.Images[0].Architecture != named.Images[len(named.Images)-1].Architecture {
		t.Errorf("AMIs %+v (%v), want one of the parameter's", named, err)
	}
}

package aws_test

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The volumes and metadata options of a launch template are those that EC2 accepts.
func TestVolumesRefused(t *testing.T) {
	server := start(t, nil)
	root, other := awssdk.String("/dev/xvda"), awssdk.String("/dev/xvdb")
	type ebs = ec2types.LaunchTemplateEbsBlockDeviceRequest
	for name, tc := range map[string]struct {
		devices []ec2types.LaunchTemplateBlockDeviceMappingRequest
		hops    *int32
		want    string
	}{
		"none":                        {nil, nil, ""},
		"a larger root":               {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: root, Ebs: &ebs{VolumeSize: awssdk.Int32(50)}}}, nil, ""},
		"a root smaller than its AMI": {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: root, Ebs: &ebs{VolumeSize: awssdk.Int32(1)}}}, nil, "InvalidBlockDeviceMapping"},
		"a device twice": {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{
			{DeviceName: other, Ebs: &ebs{VolumeSize: awssdk.Int32(50)}}, {DeviceName: other, Ebs: &ebs{VolumeSize: awssdk.Int32(50)}},
		}, nil, "InvalidBlockDeviceMapping"},
		"no size":                  {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: other, Ebs: &ebs{VolumeType: "gp3"}}}, nil, "InvalidBlockDeviceMapping"},
		"a key without encryption": {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: root, Ebs: &ebs{VolumeSize: awssdk.Int32(50), KmsKeyId: awssdk.String("key-1")}}}, nil, "InvalidParameterDependency"},
		"IOPS of st1":              {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: other, Ebs: &ebs{VolumeSize: awssdk.Int32(500), VolumeType: "st1", Iops: awssdk.Int32(100)}}}, nil, "InvalidParameterCombination"},
		"io2 without IOPS":         {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: other, Ebs: &ebs{VolumeSize: awssdk.Int32(500), VolumeType: "io2"}}}, nil, "MissingParameter"},
		"throughput of gp2":        {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: other, Ebs: &ebs{VolumeSize: awssdk.Int32(50), VolumeType: "gp2", Throughput: awssdk.Int32(200)}}}, nil, "InvalidParameterCombination"},
		"initialized slowly":       {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: root, Ebs: &ebs{VolumeSize: awssdk.Int32(50), VolumeInitializationRate: awssdk.Int32(99)}}}, nil, "InvalidParameterValue"},
		"no IOPS at all":           {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: root, Ebs: &ebs{VolumeSize: awssdk.Int32(50), VolumeType: "gp3", Iops: awssdk.Int32(0)}}}, nil, "InvalidParameterValue"},
		"no throughput at all":     {[]ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: root, Ebs: &ebs{VolumeSize: awssdk.Int32(50), VolumeType: "gp3", Throughput: awssdk.Int32(0)}}}, nil, "InvalidParameterValue"},
		"too many hops":            {nil, awssdk.Int32(65), "InvalidParameterValue"},
	} {
		t.Run(name, func(t *testing.T) {
			out, got := launchTemplateWith(t, server, fleetInput(t, server, 1, "m5.large"), func(data *ec2types.RequestLaunchTemplateData) {
				data.BlockDeviceMappings, data.MetadataOptions.HttpPutResponseHopLimit = tc.devices, tc.hops
			})
			if got != tc.want {
				t.Errorf("%q, want %q: %+v", got, tc.want, out.Errors)
			}
		})
	}
}

package fromec2

import (
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// NodeClass converts the settings of an EC2NodeClass that decide its nodes' capacity. The caller adds the launcher's settings.
func NodeClass(class *awsv1.EC2NodeClass) catalog.NodeClass {
	spec := class.Spec
	out := catalog.NodeClass{
		AMIFamily:            Family(class),
		RAID0:                value(spec.InstanceStorePolicy) == awsv1.InstanceStorePolicyRAID0,
		ConnectionTracking:   spec.ConnectionTracking != nil,
		PublicIPv4:           value(spec.AssociatePublicIPAddress),
		NestedVirtualization: spec.CPUOptions != nil && value(spec.CPUOptions.NestedVirtualization) == "enabled",
	}
	if k := spec.Kubelet; k != nil {
		out.MaxPods, out.PodsPerCore = k.MaxPods, k.PodsPerCore
		out.KubeReserved, out.SystemReserved, out.EvictionHard = k.KubeReserved, k.SystemReserved, k.EvictionHard
	}
	for _, m := range spec.BlockDeviceMappings {
		if m == nil {
			continue
		}
		d := catalog.BlockDevice{DeviceName: value(m.DeviceName), Root: m.RootVolume}
		if m.EBS != nil && m.EBS.VolumeSize != nil {
			d.SizeBytes = m.EBS.VolumeSize.Value()
		}
		if m.EBS != nil {
			d.Encrypted = value(m.EBS.Encrypted)
			d.Type, d.IOPS, d.MiBps = value(m.EBS.VolumeType), value(m.EBS.IOPS), value(m.EBS.Throughput)
		}
		out.BlockDevices = append(out.BlockDevices, d)
	}
	for _, n := range spec.NetworkInterfaces {
		if n != nil {
			out.NetworkInterfaces = append(out.NetworkInterfaces, catalog.NetworkInterface{
				Card: int64(n.NetworkCardIndex), Device: int64(n.DeviceIndex), EFAOnly: n.InterfaceType == awsv1.InterfaceTypeEFAOnly,
			})
		}
	}
	return out
}

// Alias returns the first alias of the class's AMI terms, split at its @; ok is false if no term has one. The family is spelled as in
// spec.amiFamily; one that Karpenter does not support is returned unchanged, while EC2NodeClass.Alias ends the process.
func Alias(class *awsv1.EC2NodeClass) (family, version string, ok bool) {
	for _, term := range class.Spec.AMISelectorTerms {
		if term.Alias == "" {
			continue
		}
		family, version, _ = strings.Cut(term.Alias, "@")
		for _, known := range families() {
			if strings.ToLower(known) == family {
				family = known
			}
		}
		return family, version, true
	}
	return "", "", false
}

func families() []string {
	return []string{
		catalog.FamilyAL2, catalog.FamilyAL2023, catalog.FamilyBottlerocket,
		catalog.FamilyWindows2019, catalog.FamilyWindows2022, catalog.FamilyWindows2025,
	}
}

// AliasValid reports whether the class's alias, if it has one, names a family that Karpenter supports and a version.
func AliasValid(class *awsv1.EC2NodeClass) bool {
	family, version, ok := Alias(class)
	if !ok {
		return true
	}
	return slices.Contains(families(), family) && version != "" && !strings.Contains(version, "@")
}

// Family returns the AMI family of the class: spec.amiFamily, or its alias's, or Custom.
func Family(class *awsv1.EC2NodeClass) string {
	if f := class.Spec.AMIFamily; f != nil {
		return *f
	}
	if family, _, ok := Alias(class); ok {
		return family
	}
	return catalog.FamilyCustom
}

package aws

import (
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/aws/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// fault is an error in an EC2NodeClass that a user must fix before it can launch.
type fault struct{ reason, message string }

const notSupported = "NotSupported"

// faultOf returns the first fault of the class. An unsupported setting is reported, never ignored.
func faultOf(class *awsv1.EC2NodeClass, known cluster) (fault, bool) {
	for _, check := range []func(*awsv1.EC2NodeClass, cluster) fault{
		familyFault, interfaceFault, tagFault, clusterFault, kubeletFault, userDataFault,
	} {
		if f := check(class, known); f.reason != "" {
			return f, true
		}
	}
	return fault{}, false
}

func familyFault(class *awsv1.EC2NodeClass, _ cluster) fault {
	if !fromec2.AliasValid(class) {
		return fault{"AMISelectorInvalid", "spec.amiSelectorTerms: an alias is family@version, with family al2023, bottlerocket, al2, windows2019, windows2022 or windows2025"}
	}
	if family := fromec2.Family(class); !catalog.Supported(family) {
		return fault{notSupported, fmt.Sprintf("AMI family %s (spec.amiFamily, or the alias) is not supported", family)}
	}
	return fault{}
}

// interfaceFault validates spec.networkInterfaces as the CRD does: the launch template is built from them.
func interfaceFault(class *awsv1.EC2NodeClass, _ cluster) fault {
	seen, primary := map[[2]int32]bool{}, false
	for i, n := range class.Spec.NetworkInterfaces {
		switch {
		case n == nil:
			return fault{"NetworkInterfacesInvalid", fmt.Sprintf("spec.networkInterfaces[%d] is empty", i)}
		case seen[[2]int32{n.NetworkCardIndex, n.DeviceIndex}]:
			return fault{"NetworkInterfacesInvalid", fmt.Sprintf("spec.networkInterfaces[%d]: network card %d has device %d twice", i, n.NetworkCardIndex, n.DeviceIndex)}
		case n.NetworkCardIndex == 0 && n.DeviceIndex == 0 && n.InterfaceType == awsv1.InterfaceTypeEFAOnly:
			return fault{"NetworkInterfacesInvalid", fmt.Sprintf("spec.networkInterfaces[%d]: device 0 of network card 0 has the node's address: its interfaceType must be interface", i)}
		}
		seen[[2]int32{n.NetworkCardIndex, n.DeviceIndex}] = true
		primary = primary || n.NetworkCardIndex == 0 && n.DeviceIndex == 0
	}
	if len(class.Spec.NetworkInterfaces) > 0 && !primary {
		return fault{"NetworkInterfacesInvalid", "spec.networkInterfaces: device 0 of network card 0, which has the node's address, is missing"}
	}
	return fault{}
}

func tagFault(class *awsv1.EC2NodeClass, _ cluster) fault {
	for _, key := range sortedKeys(class.Spec.Tags) {
		for _, pattern := range awsv1.RestrictedTagPatterns {
			if pattern.MatchString(key) {
				return fault{"TagsInvalid", fmt.Sprintf("spec.tags: %s is set by the launcher itself", key)}
			}
		}
		if key == catalog.LaunchAnnotation {
			return fault{"TagsInvalid", fmt.Sprintf("spec.tags: %s is set by the launcher itself", key)}
		}
	}
	return fault{}
}

func clusterFault(class *awsv1.EC2NodeClass, known cluster) fault {
	switch {
	case fromec2.Family(class) == catalog.FamilyCustom:
		return fault{}
	case known.IPv6 && catalog.OS(fromec2.Family(class)) == corev1.Windows:
		// EKS user guide, "Learn about IPv6 addresses to clusters, Pods, and Services": Windows Pods and Services are not supported.
		return fault{notSupported, fmt.Sprintf("AMI family %s (spec.amiFamily, or the alias): nodes of Windows cannot join, the cluster's IP family is IPv6",
			fromec2.Family(class))}
	case known.ServiceCIDR != "" && known.IPv6 != isIPv6(known.ServiceCIDR):
		return fault{"ServiceCIDRInvalid", fmt.Sprintf("the launcher's setting serviceCIDR is %s, and the IP family of cluster %s is %s",
			known.ServiceCIDR, known.Name, familyName(known.IPv6))}
	case known.Endpoint == "":
		return unknownCluster(known.Name, "endpoint", "clusterEndpoint")
	case known.CertificateAuthority == "":
		return unknownCluster(known.Name, "certificate authority", "clusterCABundle")
	case known.ServiceCIDR == "" && fromec2.Family(class) == catalog.FamilyAL2023:
		return unknownCluster(known.Name, "service CIDR", "serviceCIDR")
	}
	return fault{}
}

// unknownCluster returns the fault of a cluster of which nodes lack a property, and the launcher's setting for it.
func unknownCluster(name, property, setting string) fault {
	return fault{"ClusterUnknown", fmt.Sprintf("EKS returned no %s for cluster %s: allow the launcher's role eks:DescribeCluster, or set the launcher's setting %s",
		property, name, setting)}
}

// kubeletFault validates the class's kubelet quantities with a small instance type.
func kubeletFault(class *awsv1.EC2NodeClass, _ cluster) fault {
	if _, err := catalog.New(catalog.Facts{Name: "any", VCPUs: 2, MemoryMiB: 4096}, fromec2.NodeClass(class)); err != nil {
		return fault{"KubeletInvalid", err.Error()}
	}
	return fault{}
}

func userDataFault(class *awsv1.EC2NodeClass, known cluster) fault {
	_, err := userdata.Render(userdata.Input{
		Family: fromec2.Family(class), Cluster: known.Cluster, Kubelet: class.Spec.Kubelet,
		RAID0: raid0(class), Custom: awssdk.ToString(class.Spec.UserData),
	})
	if err != nil {
		return fault{"UserDataInvalid", err.Error()}
	}
	return fault{}
}

// noteOn returns which settings of a valid class have no effect with its AMI family, as in Karpenter.
func noteOn(class *awsv1.EC2NodeClass) string {
	switch {
	case catalog.OS(fromec2.Family(class)) == corev1.Windows && raid0(class):
		return "spec.instanceStorePolicy has no effect on Windows"
	case class.Spec.Kubelet == nil:
	case fromec2.Family(class) == catalog.FamilyBottlerocket && class.Spec.Kubelet.PodsPerCore != nil:
		return "spec.kubelet.podsPerCore has no effect on Bottlerocket"
	case fromec2.Family(class) == catalog.FamilyCustom:
		return "spec.kubelet is counted with, but amiFamily Custom must pass it to the kubelet in spec.userData"
	}
	return ""
}

func raid0(class *awsv1.EC2NodeClass) bool {
	return class.Spec.InstanceStorePolicy != nil && *class.Spec.InstanceStorePolicy == awsv1.InstanceStorePolicyRAID0
}

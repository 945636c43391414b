package userdata

import (
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
)

// MaxBytes is the size of user data, before base64, that EC2 accepts.
const MaxBytes = 16 << 10

// Cluster holds the cluster's properties that a node needs to join.
type Cluster struct {
	// Name of the EKS cluster.
	Name string
	// Endpoint is the URL of its API server.
	Endpoint string
	// CertificateAuthority is the endpoint's, PEM in base64 as EKS returns it.
	CertificateAuthority string
	// ServiceCIDR is the range of its Services, in its IP family.
	ServiceCIDR string
	// IPv6 reports whether pods and Services have IPv6 addresses.
	IPv6 bool
	// DNS is the address of its DNS; empty leaves that to the AMI, which an IPv6 cluster does not allow.
	DNS string
}

// Input holds everything that the user data of a node depends on.
type Input struct {
	// Family is one of catalog's Family constants.
	Family string
	// Cluster to join.
	Cluster Cluster
	// Kubelet is spec.kubelet of the EC2NodeClass; may be nil.
	Kubelet *awsv1.KubeletConfiguration
	// MaxPods is passed to the kubelet; 0 leaves the number to spec.kubelet, or else to the AMI.
	MaxPods int64
	// Labels are those that the kubelet registers with.
	Labels map[string]string
	// Taints are those that the kubelet registers with.
	Taints []corev1.Taint
	// AMIVersion is the AMI's version, as in v1.46.0, or "latest"; empty if it is not known. Bottlerocket's settings depend on it.
	AMIVersion string
	// RAID0 joins the local disks for the kubelet's and containerd's files.
	RAID0 bool
	// Prefetch adds the unit that pulls the images of promised pods while the network starts, on AL2023 only.
	Prefetch bool
	// Hibernates adds the unit that registers the node again after hibernation, on AL2023 and AL2: its Node is deleted meanwhile.
	Hibernates bool
	// Custom is spec.userData of the EC2NodeClass.
	Custom string
	// atOnce raises the kubelet's limit of concurrent image pulls to the node's number of pods.
	atOnce bool
}

// kubelet returns spec.kubelet with the launch's number of pods, and the cluster's DNS unless the class has its own.
func (in Input) kubelet() *awsv1.KubeletConfiguration {
	out := &awsv1.KubeletConfiguration{}
	if in.Kubelet != nil {
		out = in.Kubelet.DeepCopy()
	}
	if in.MaxPods > 0 {
		n := int32(in.MaxPods)
		out.MaxPods = &n
	}
	if len(out.ClusterDNS) == 0 && in.Cluster.DNS != "" {
		out.ClusterDNS = []string{in.Cluster.DNS}
	}
	return out
}

// nodeLabels returns the value of --node-labels, sorted. It leaves out the labels of Kubernetes' own domains that the kubelet may not set on
// itself and would not start with (cmd/kubelet/app/options, ValidateKubeletFlags).
func (in Input) nodeLabels() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(in.Labels)) {
		if kubeletMaySet(key) {
			pairs = append(pairs, key+"="+in.Labels[key])
		}
	}
	return strings.Join(pairs, ",")
}

func kubeletMaySet(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if !under("kubernetes.io") && !under("k8s.io") || under("kubelet.kubernetes.io") || under("node.kubernetes.io") {
		return true
	}
	switch key {
	case corev1.LabelHostname, corev1.LabelArchStable, corev1.LabelOSStable,
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return false
}

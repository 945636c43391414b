package clusterview

import "slices"

// kubeletMinor is the minor version of the kubelet that nodes to launch are taken to have: the API server's, since EKS's AMIs are of the
// cluster's version. The scheduler asks for declared features only where the API server's version is at least that of its own code or emulated
// so (feature gate NodeDeclaredFeatures, on since 1.36).
const kubeletMinor = 36

// declaredSince is which features a kubelet declares in its Node's status.declaredFeatures, by the minor version of Kubernetes 1 since which it
// does by default. Source: k8s.io/component-helpers v0.36.3, nodedeclaredfeatures/features/registry.go, with the defaults of the gates that they
// name in k8s.io/kubernetes v1.36.3, pkg/features/kube_features.go. Not among them is UserNamespacesHostNetworkSupport, an alpha feature that
// depends on the container runtime. A test holds the table against both.
func declaredSince() map[string]int {
	return map[string]int{
		"ExtendWebSocketsToKubelet":               36,
		"InPlacePodLevelResourcesVerticalScaling": 36,
		"InPlacePodVerticalScalingInitContainers": 36,
		"RestartAllContainersOnContainerExits":    36,
	}
}

// declaredFeatures returns what a kubelet of Kubernetes 1.minor declares, sorted; none before the gate NodeDeclaredFeatures is on.
func declaredFeatures(minor int) []string {
	var out []string
	for name, since := range declaredSince() {
		if minor >= since {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

package e2e_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A pod that selects Windows runs on a node of a class with a Windows alias, which has the labels, the root volume and the addresses of
// Windows, and a Linux pod beside it on one of Linux.
func TestWindows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "windows")
	class := sandbox.NodeClass(w.name)
	class.Spec.AMISelectorTerms[0].Alias, class.Spec.UserData = "windows2022@latest", new("Write-Host 'it''s Windows'\n")
	w.create(class)
	w.pool(w.name, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "os", Value: "windows", Effect: corev1.TaintEffectNoSchedule}}
		p.Spec.Template.Labels = map[string]string{"team": "windows"}
	})
	w.pool(w.name+"-linux", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	w.deployment("web", 2, w.podSpec("500m", "1Gi", func(s *corev1.PodSpec) {
		s.OS = &corev1.PodOS{Name: corev1.Windows}
		s.NodeSelector = map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.20348"}
		s.Tolerations = []corev1.Toleration{{Key: "os", Operator: corev1.TolerationOpExists}}
		// EKS's webhook adds this request to pods that select Windows.
		one := corev1.ResourceList{catalog.ResourcePrivateIPv4: resource.MustParse("1")}
		s.Containers[0].Resources.Limits = one
		s.Containers[0].Resources.Requests[catalog.ResourcePrivateIPv4] = one[catalog.ResourcePrivateIPv4]
	}))
	w.deployment("linux", 1, w.podSpec("500m", "1Gi", nil))
	w.awaitRunning(3)

	claims := w.claimsOf(w.name)
	if len(claims) != 1 {
		t.Fatalf("%d nodes of Windows for two small pods, want 1", len(claims))
	}
	var node corev1.Node
	if err := w.client.Get(t.Context(), keyOf(claims[0].Object.Status.NodeName), &node); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		corev1.LabelOSStable: "windows", corev1.LabelArchStable: "amd64", corev1.LabelWindowsBuild: "10.0.20348", "team": "windows",
	} {
		if node.Labels[key] != want {
			t.Errorf("label %s of the node is %q, want %q", key, node.Labels[key], want)
		}
	}
	if addresses := node.Status.Allocatable[catalog.ResourcePrivateIPv4]; node.Status.NodeInfo.OperatingSystem != "windows" || addresses.Value() < 2 {
		t.Errorf("the kubelet reports %s and %s addresses", node.Status.NodeInfo.OperatingSystem, addresses.String())
	}
	for _, i := range shared.AWS().Instances() {
		if i.PrivateDNSName == node.Name && (!i.Windows || i.RootVolumeGiB != 50) {
			t.Errorf("instance %s: Windows %t, a root volume of %d GiB, want 50", i.ID, i.Windows, i.RootVolumeGiB)
		}
	}
	if linux := w.claimsOf(w.name + "-linux"); len(linux) != 1 {
		t.Errorf("%d nodes of Linux, want 1", len(linux))
	}
}

package kubelets_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// reserving is user data that nobody can predict: the kubelet keeps a core and a half for itself.
const reserving = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      kubeReserved: {cpu: 1500m}
`

// onArch picks what the host's architecture has.
func onArch(amd64, arm64 string) string {
	if runtime.GOARCH == "arm64" {
		return arm64
	}
	return amd64
}

// A node turns out to be smaller than was predicted (R8): its kubelet rejects what was bound to it before it could tell. What
// is bound when it can is never rejected. Both run on the next node, which is planned with what the first one taught.
func TestR8Rejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r8")
	w.create(nodeClass("reserving", reserving))
	small, large := onArch("m5.xlarge", "m6g.xlarge"), onArch("m5.2xlarge", "m6g.2xlarge")
	w.pool("r8", func(p *karpv1.NodePool) {
		require(p, awsv1.LabelInstanceCPU, "4", "8")
		require(p, corev1.LabelInstanceTypeStable, small, large)
		p.Spec.Template.Spec.NodeClassRef.Name = "reserving"
	})
	w.deployment("ours", 1, w.spec("3", 0, nil))
	w.careless("careless", "r8", w.spec("3", 0, nil))
	w.await(t, "the pod of ours to run", func() bool { return w.running("ours") == 1 })
	w.await(t, "the other to be rejected", func() bool { return w.pods("careless")[0].Failed.Seen() })
	if got := w.pods("careless")[0].Object.Status; got.Reason != "OutOfcpu" {
		t.Errorf("the pod that was bound before the boot failed with %s: %s", got.Reason, got.Message)
	}
	w.noneFailed("ours")
	ours := w.pods("ours")[0]
	if got := w.node(ours.Object.Spec.NodeName).Object.Labels[corev1.LabelInstanceTypeStable]; got != large {
		t.Errorf("it runs on %s, want %s", got, large)
	}
	// Another one: nobody tries the small type again.
	w.deployment("next", 1, w.spec("5", 0, nil))
	w.deployment("again", 1, w.spec("3", 0, func(s *corev1.PodSpec) { s.HostNetwork = true }))
	w.await(t, "more pods to run", func() bool { return w.running("next") == 1 && w.running("again") == 1 })
	w.noneFailed("next")
	w.noneFailed("again")
	tries := 0
	for _, c := range w.recorder.Claims() {
		if c.Object.Labels[karpv1.NodePoolLabelKey] == "r8" && c.Object.Labels[corev1.LabelInstanceTypeStable] == small {
			tries++
		}
	}
	if tries != 1 {
		t.Errorf("%d nodes of %s were launched, the first one taught that they are too small", tries, small)
	}
}

// Pods that need a device come when the node has it (R1): bound before, they start without it, or not at all.
func TestR1DevicePlugins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r1")
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	w.pool("r1", func(p *karpv1.NodePool) {
		require(p, awsv1.LabelInstanceCategory, "g")
		require(p, corev1.LabelInstanceTypeStable, onArch("g4dn.xlarge", "g5g.xlarge"))
	})
	w.daemonSet("plugin", w.devicePlugin(gpu))
	needs := w.spec("500m", 0, func(s *corev1.PodSpec) {
		c := &s.Containers[0]
		c.Command[2] = `[ -n "$DEVICES" ] || exit 7; ` + c.Command[2]
		c.Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("1")}
	})
	w.deployment("ours", 1, needs)
	careless := *needs.DeepCopy()
	careless.RestartPolicy = corev1.RestartPolicyNever
	w.careless("careless", "r1", careless)
	w.await(t, "the other pod to end without its device", func() bool { return w.pods("careless")[0].Failed.Seen() })
	w.await(t, "the pod of ours to run", func() bool { return w.running("ours") == 1 })
	w.noneFailed("ours")
	ours := w.pods("ours")[0]
	node := w.node(ours.Object.Spec.NodeName)
	if have := node.Object.Status.Allocatable[gpu]; have.Value() != 1 {
		t.Errorf("the node shows %s of %s", have.String(), gpu)
	}
	if restarts := ours.Object.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("the container was started %d times: once without its device?", restarts+1)
	}
	if plugin := onNode(w.pods("plugin"), node.Object.Name); plugin == nil || !plugin.Running.Before(ours.Bound) {
		t.Errorf("the pod was bound at %v, the device plugin ran at %+v", ours.Bound, plugin)
	}
}

func onNode(pods []observe.Pod, node string) *observe.Pod {
	for _, p := range pods {
		if p.Object.Spec.NodeName == node {
			return &p
		}
	}
	return nil
}

// devicePlugin is a pod that offers a device some seconds after its start.
func (w *world) devicePlugin(name corev1.ResourceName) corev1.PodSpec {
	folder, err := filepath.Abs(testbed.BinDir("../.."))
	if err != nil {
		w.t.Fatal(err)
	}
	mount := func(name, path string) (corev1.Volume, corev1.VolumeMount) {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}},
			corev1.VolumeMount{Name: name, MountPath: path}
	}
	return w.spec("10m", 0, func(s *corev1.PodSpec) {
		s.HostNetwork = true
		s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		c := &s.Containers[0]
		c.Command = []string{filepath.Join(folder, "slipway-device-plugin"), fmt.Sprintf("-resource=%s", name), "-after=5s"}
		for name, path := range map[string]string{"plugins": "/var/lib/kubelet/device-plugins", "program": folder} {
			v, m := mount(name, path)
			s.Volumes, c.VolumeMounts = append(s.Volumes, v), append(c.VolumeMounts, m)
		}
	})
}

// A node whose user data is wrong does not join, and that is said; its pods run on one of another NodePool.
func TestWrongUserData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "wrong")
	w.create(nodeClass("wrong", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    flags: [\"--no-such-flag=1\"]\n"))
	w.pool("wrong", func(p *karpv1.NodePool) {
		p.Spec.Weight = new(int32(100))
		p.Spec.Template.Spec.NodeClassRef.Name = "wrong"
	})
	w.pool("right", nil)
	w.deployment("web", 1, w.spec("500m", 0, nil))
	w.await(t, "the pod to run", func() bool { return w.running("web") == 1 })
	w.noneFailed("web")
	web := w.pods("web")[len(w.pods("web"))-1]
	if pool := w.node(web.Object.Spec.NodeName).Object.Labels[karpv1.NodePoolLabelKey]; pool != "right" {
		t.Errorf("it runs on a node of NodePool %s", pool)
	}
	var events corev1.EventList
	if err := w.client.List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, c := range w.recorder.Claims() {
		if c.Object.Labels[karpv1.NodePoolLabelKey] != "wrong" {
			continue
		}
		for _, e := range events.Items {
			if e.InvolvedObject.UID == c.Object.UID && e.Type == corev1.EventTypeWarning {
				said++
			}
		}
	}
	if said == 0 {
		t.Error("no Event says that nodes did not join")
	}
}

package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func disk() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data"},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1b"}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "disk", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

// A pod is launched for where its volume is, once its claim is there, and its condition says what is missing before.
func TestNodeComesWhereTheVolumeIs(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("full", "100m", nil), disk(),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}},
	}})
	h.pod("db", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	h.eventually("the pod's condition", func() bool { return strings.Contains(h.message("db"), `"data" not found`) })
	if _, err := h.client.CoreV1().PersistentVolumeClaims("default").Create(h.ctx, claim(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("a launch", func() bool { return h.launcher.podNames()["db"] == 1 })
	if zone := h.launcher.claims()[0].GetExpected().GetZone(); zone != "us-east-1b" {
		t.Errorf("launched in %s, the volume is in us-east-1b", zone)
	}
}

// withData gives the pod the claim data, and the labels of the app.
func withData(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": app}
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
}

// oncePod returns a cluster with one node in the zone of the claim data, which is ReadWriteOncePod.
func oncePod() []runtime.Object {
	data := claim()
	data.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	return []runtime.Object{
		newNode("small", "600m", map[string]string{corev1.LabelTopologyZone: "us-east-1b"}), disk(), data,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}},
	}
}

// While a Deployment is rolled out, no node is launched for a new pod whose claim the old one has for itself. Once the old one has ended, the new one
// gets its room.
func TestNoNodeWhileAnotherPodHasTheClaim(t *testing.T) {
	t.Parallel()
	old := newPod("old", "500m", "512Mi")
	withData("web")(old)
	old.Spec.NodeName = "small"
	h := start(t, harnessOptions{objects: append(oncePod(), old)})
	h.pod("new", withData("web"))
	h.eventually("the pod's condition", func() bool {
		return h.says("new", "volume claim data: its access mode is ReadWriteOncePod, and pod default/old uses it")
	})
	if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the new pod to be bound", func() bool { return h.bound() == 1 })
	if n := len(h.launcher.requests()); n > 0 {
		t.Errorf("%d launches for a pod whose claim was in use", n)
	}
}

// Of pods that want a claim for themselves, one gets a node.
func TestOneNodeForPodsOfOneClaim(t *testing.T) {
	t.Parallel()
	objects := oncePod()
	full := newPod("full", "500m", "512Mi")
	full.Spec.NodeName = "small"
	objects = append(objects, full)
	for _, name := range []string{"a", "b", "c"} {
		pod := newPod(name, "500m", "512Mi")
		app := "one"
		if name == "c" {
			app = "other"
		}
		withData(app)(pod)
		objects = append(objects, pod)
	}
	h := start(t, harnessOptions{objects: objects})
	h.eventually("the others' conditions", func() bool {
		said := 0
		for _, name := range []string{"a", "b", "c"} {
			if h.says(name, "ReadWriteOncePod") {
				said++
			}
		}
		return said == 2
	})
	if got := h.launcher.podNames(); len(got) != 1 {
		t.Errorf("launched for %v, want one pod", got)
	}
}

// Each pod with a generic ephemeral volume gets its node where its own volume is, though the pods are alike. One whose claim is missing holds up no other.
func TestEphemeralVolumesOfEachPod(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{newNode("full", "100m", nil), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}}}
	zones := map[string]string{"a": "", "b": "us-east-1a", "c": "us-east-1b"}
	for name, zone := range zones {
		pod := newPod(name, "500m", "512Mi")
		pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
		}}}}
		objects = append(objects, pod)
		if zone == "" {
			continue
		}
		pv, pvc := disk(), claim()
		pv.Name, pv.Spec.ClaimRef.Name = "disk-"+name, name+"-own"
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{zone}
		pvc.Name, pvc.Spec.VolumeName = name+"-own", pv.Name
		pvc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID, Controller: new(true)}}
		objects = append(objects, pv, pvc)
	}
	h := start(t, harnessOptions{objects: objects})
	h.eventually("the launches", func() bool { return len(h.launcher.podNames()) == 2 })
	for _, c := range h.launcher.claims() {
		for _, p := range c.GetPods() {
			if zone := c.GetExpected().GetZone(); zone != zones[p.GetName()] {
				t.Errorf("a node in %s is launched for pod %s, whose volume is in %q", zone, p.GetName(), zones[p.GetName()])
			}
		}
	}
}

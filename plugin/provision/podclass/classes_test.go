package podclass_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// boundIn is a claim and its volume, which is in the zone.
func boundIn(claim, zone string) []runtime.Object {
	pv := &corev1.PersistentVolume{}
	pv.Name = "pv-" + claim
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
	pv.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	return []runtime.Object{pv, st.MakePersistentVolumeClaim().Namespace("default").Name(claim).VolumeName(pv.Name).Obj()}
}

// Pods with generic ephemeral volumes are of one class only if their claims can be used in the same places.
func TestEphemeralVolumes(t *testing.T) {
	objects := slices.Concat(boundIn("p0-data", "z1"), boundIn("p1-data", "z2"), boundIn("p2-data", "z1"))
	classes := podclass.New(podclass.Needs{Volumes: volumesOf(t, objects...)})
	var got []int
	for i := range 5 {
		pod := st.MakePod().Namespace("default").Name(fmt.Sprintf("p%d", i)).Obj()
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		got = append(got, classes.Of(pod, ""))
	}
	if want := []int{0, 1, 0, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("classes %v, want %v: the volumes are in z1, z2 and z1, and two claims do not exist", got, want)
	}
}

// The pods of a set are of one class as long as no selector names the labels that number them.
func TestSelectedPods(t *testing.T) {
	selected := &plan.Selected{}
	selected.Add(st.MakePod().Namespace("default").PodAffinityIn("statefulset.kubernetes.io/pod-name", corev1.LabelHostname, []string{"db-1"}, st.PodAffinityWithRequiredReq).Obj())
	for name, c := range map[string]struct {
		selected *plan.Selected
		want     []int
	}{
		"not selected": {nil, []int{0, 0, 0, 0}},
		"one selected": {selected, []int{0, 1, 0, 0}},
	} {
		classes := podclass.New(podclass.Needs{Selected: c.selected})
		var got []int
		for i := range c.want {
			name := fmt.Sprintf("db-%d", i)
			got = append(got, classes.Of(st.MakePod().Namespace("default").Name(name).Label("app", "db").Label("statefulset.kubernetes.io/pod-name", name).Obj(), ""))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: classes %v, want %v", name, got, c.want)
		}
	}
}

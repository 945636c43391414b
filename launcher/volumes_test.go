package launcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The cache keeps of a PersistentVolume where it can be used, and nothing else: there may be one for each pod.
func TestVolumesInTheCache(t *testing.T) {
	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "pv", UID: "u", ResourceVersion: "7", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"by": "driver"},
	}}
	pv.Spec.NodeAffinity, pv.Spec.StorageClassName = affinity, "gp3"
	want := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u", ResourceVersion: "7", Labels: pv.Labels}}
	want.Spec.NodeAffinity = affinity
	keep := slim(Gates{})
	for range 2 { // An informer may transform an object again.
		got, err := keep(pv)
		if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
			t.Errorf("error %v, -want +got:\n%s", err, diff)
		}
		pv = want
	}
}

package verify_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// A driver of local volumes publishes the capacity of a node once it runs there. So a node that does not exist yet is not rejected for
// having published none; a node that exists is.
func TestStorageCapacity(t *testing.T) {
	const driver, local = "local.csi.example.com", "local"
	late, tracks, class := storagev1.VolumeBindingWaitForFirstConsumer, true, local
	v := verifytest.New(t, func(cfg *verify.Config) {
		claim := st.MakePersistentVolumeClaim().Namespace("default").Name("data").Obj()
		claim.Spec.StorageClassName = &class
		claim.Spec.Resources.Requests = verifytest.Quantities("storage", "5Gi")
		_, err := cfg.Client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
		if err == nil {
			_, err = cfg.Client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: local}, Provisioner: driver, VolumeBindingMode: &late,
			}, metav1.CreateOptions{})
		}
		if err == nil {
			_, err = cfg.Client.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &tracks},
			}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	classes := []plan.Class{verifytest.Class("a", 1, verifytest.Pod("a").PVC("data"))}
	cat := verifytest.Zones("z1")
	launched := verifytest.PlanOf(classes, verifytest.Claim{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}})
	if got := check(t, v, scene{classes, launched, cat, nil}); len(got) != 0 {
		t.Errorf("a node that does not exist yet is rejected: %v", got)
	}
	node := st.MakeNode().Name("there").UID("there").Capacity(map[corev1.ResourceName]string{"cpu": "2", "memory": "8Gi", "pods": "10"}).Obj()
	placed := plan.Plan{Placements: []plan.Placement{{Node: "there", Members: []plan.Member{{Class: 0, Pods: classes[0].Pods}}}}}
	got := check(t, v, scene{classes, placed, cat, []*corev1.Node{node}})
	if len(got) != 1 || got[0].Node != "there" || !strings.Contains(got[0].Reason, "enough free storage") {
		t.Errorf("rejected %v, want the node without capacity", got)
	}
}

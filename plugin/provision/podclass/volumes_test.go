package podclass_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// bound is claim c and its volume, and unbound claim c of a class.
func bound(change func(*corev1.PersistentVolume)) []runtime.Object {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-c"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
	change(pv)
	pvc := st.MakePersistentVolumeClaim().Namespace("default").Name("c").VolumeName(pv.Name).Obj()
	return []runtime.Object{pv, pvc}
}

func unbound(class *storagev1.StorageClass, more ...runtime.Object) []runtime.Object {
	pvc := st.MakePersistentVolumeClaim().Namespace("default").Name("c").Obj()
	pvc.Spec.StorageClassName = &class.Name
	pvc.Spec.Resources.Requests = verifytest.Quantities("storage", "5Gi")
	return append([]runtime.Object{pvc, class}, more...)
}

func storageClass(provisioner string, mode storagev1.VolumeBindingMode, zones ...string) *storagev1.StorageClass {
	sc := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "sc"}, Provisioner: provisioner, VolumeBindingMode: &mode}
	if len(zones) > 0 {
		sc.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: zones}},
		}}
	}
	return sc
}

func inZone(pv *corev1.PersistentVolume) {
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z1"}}},
	}}}}
}

func localVolume(size string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local-" + size}}
	pv.Spec.StorageClassName, pv.Spec.Capacity = "sc", verifytest.Quantities("storage", size)
	inZone(pv)
	return pv
}

// volumesOf returns Volumes of a cluster with the objects.
func volumesOf(t *testing.T, objects ...runtime.Object) *podclass.Volumes {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	out := podclass.NewVolumes(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	return out
}

// What a pod's claims say about where it can run.
func TestVolumes(t *testing.T) {
	wait, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	for name, c := range map[string]struct {
		objects []runtime.Object
		// want is driver, terms and problem.
		want string
	}{
		"anywhere":      {bound(func(*corev1.PersistentVolume) {}), "ebs.csi.aws.com"},
		"node affinity": {bound(inZone), "ebs.csi.aws.com " + corev1.LabelTopologyZone + " in z1"},
		"zone label":    {bound(func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{corev1.LabelTopologyZone: "z1__z2"} }), "ebs.csi.aws.com " + corev1.LabelTopologyZone + " in z1,z2"},
		"in-tree": {bound(func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}
		}), "ebs.csi.aws.com"},
		"late":            {unbound(storageClass("ebs.csi.aws.com", wait, "z1", "z2")), "ebs.csi.aws.com " + corev1.LabelTopologyZone + " in z1,z2"},
		"late, in-tree":   {unbound(storageClass("kubernetes.io/aws-ebs", wait)), "ebs.csi.aws.com"},
		"at once":         {unbound(storageClass("ebs.csi.aws.com", now)), "! it is not bound yet, which needs no node"},
		"local":           {unbound(storageClass("kubernetes.io/no-provisioner", wait), localVolume("10Gi")), " " + corev1.LabelTopologyZone + " in z1"},
		"local, no room":  {unbound(storageClass("kubernetes.io/no-provisioner", wait), localVolume("1Gi")), "! no free persistentvolume of storageclass sc is large enough, and it provisions none"},
		"no claim":        {nil, "! it does not exist"},
		"no volume":       {bound(func(pv *corev1.PersistentVolume) { pv.Name = "other" })[1:], "! its volume other does not exist"},
		"class not known": {unbound(storageClass("x", wait))[:1], `! its storageclass "sc" does not exist`},
		"no class named":  {unbound(&storagev1.StorageClass{})[:1], "! it is not bound yet, and names no storageclass"},
	} {
		t.Run(name, func(t *testing.T) {
			got := volumesOf(t, c.objects...).Of(st.MakePod().Namespace("default").Name("p").PVC("c").Obj())
			if len(got) != 1 || got[0].Claim != "c" {
				t.Fatalf("volumes %+v, want one of claim c", got)
			}
			text := got[0].Driver
			for _, term := range got[0].Terms {
				for _, e := range term.MatchExpressions {
					text += " " + e.Key + " in " + strings.Join(e.Values, ",")
				}
			}
			if got[0].Problem != "" {
				text += "! " + got[0].Problem
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// A claim is for one pod at a time if it is ReadWriteOncePod, unless it is made for the one pod.
func TestReadWriteOncePod(t *testing.T) {
	var objects []runtime.Object
	for name, mode := range map[string]corev1.PersistentVolumeAccessMode{"once": corev1.ReadWriteOnce, "pod": corev1.ReadWriteOncePod, "p-own": corev1.ReadWriteOncePod} {
		objects = append(objects, st.MakePersistentVolumeClaim().Namespace("default").Name(name).AccessModes([]corev1.PersistentVolumeAccessMode{mode}).Obj())
	}
	pod := st.MakePod().Namespace("default").Name("p").PVC("once").PVC("pod").Obj()
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	for _, v := range volumesOf(t, objects...).Of(pod) {
		if want := v.Claim == "pod"; v.ReadWriteOncePod != want {
			t.Errorf("claim %s: ReadWriteOncePod is %t, want %t", v.Claim, v.ReadWriteOncePod, want)
		}
	}
}

package join_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// bindVolume gives a pod the claim data, which is bound to a volume. Without one, the cache has the claim alone.
func (w *world) bindVolume(podName string, mode corev1.PersistentVolumeAccessMode, volume *corev1.PersistentVolume) {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: podName}, pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Spec.Volumes = onClaim(podName, "", "").Spec.Volumes
	if err := w.api.Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	data := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	data.Spec.AccessModes, data.Spec.VolumeName = []corev1.PersistentVolumeAccessMode{mode}, "pv-data"
	data.Status.Phase = corev1.ClaimBound
	w.create(data)
	if volume != nil {
		volume.Name = data.Spec.VolumeName
		w.create(volume)
	}
}

// volumeIn returns a volume with node affinity to the values of a label.
func volumeIn(key string, values ...string) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{}
	out.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
	}}}}
	return out
}

// A volume may be created in another zone while the node boots, for a node that the scheduler chose or for another pod of the claim: the pod would be in
// ContainerCreating for ever. One that asks for a label of its driver waits for the scheduler.
func TestVolumeElsewhere(t *testing.T) {
	const elsewhere = "event web-1 NotPreBound: Left to the scheduler: its volume pv-data cannot be used on node node-1, which is elsewhere"
	for name, c := range map[string]struct {
		volume *corev1.PersistentVolume
		// label is one that the driver has put on the node.
		label string
		// want is what is done at Ready; nothing for "". rule is that of the pod.
		want, rule string
	}{
		"in the node's zone":          {volume: volumeIn(corev1.LabelTopologyZone, "us-east-1a"), want: "bind web-1", rule: "VolumeDriver"},
		"in another zone":             {volume: volumeIn(corev1.LabelTopologyZone, "us-east-1b"), want: elsewhere, rule: "VolumeDriver"},
		"the driver's zone, later":    {volume: volumeIn("topology.ebs.csi.aws.com/zone", "us-east-1a"), want: "bind web-1", rule: "VolumeDriver"},
		"the driver's, in another":    {volume: volumeIn("topology.ebs.csi.aws.com/zone", "us-east-1b"), want: elsewhere, rule: "VolumeDriver"},
		"the driver's label, later":   {volume: volumeIn("example.com/rack", "r1"), rule: "VolumeLabel"},
		"the driver's label is there": {volume: volumeIn("example.com/rack", "r1"), label: "r1", want: "bind web-1", rule: "VolumeDriver"},
		"the driver's label differs":  {volume: volumeIn("example.com/rack", "r1"), label: "r2", want: elsewhere, rule: "VolumeDriver"},
		"not in the cache yet":        {rule: "UnboundVolume"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim(time.Minute, "web-1")
			w.bindVolume("web-1", corev1.ReadWriteOnce, c.volume)
			controller := w.controller()
			w.looks(controller, 2)
			if c.label != "" {
				n := w.node("node-1")
				n.Labels["example.com/rack"] = c.label
				if err := w.api.Update(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			w.kubelet("node-1", corev1.ConditionTrue)
			w.looks(controller, 2)
			if c.want == "" {
				w.wantTrace()
			} else {
				w.wantTrace(c.want)
			}
			if plan := w.current().Annotations[catalog.BindingsAnnotation]; !strings.Contains(plan, c.rule) {
				t.Errorf("bindings %s, want rule %s", plan, c.rule)
			}
		})
	}
}

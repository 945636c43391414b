package join_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// onClaim returns a pod of a ReadWriteOncePod claim.
func onClaim(name, node string, phase corev1.PodPhase) *corev1.Pod {
	s := newScenario()
	s.pod(name, nil)
	pod := s.Slots[0].Pod
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	return pod
}

// A pod whose ReadWriteOncePod claim another pod has been bound with meanwhile would hang in ContainerCreating. One that has ended, or uses a claim of
// another access mode, keeps it from nothing.
func TestClaimTakenMeanwhile(t *testing.T) {
	taken := "event web-1 NotPreBound: Left to the scheduler: volume claim data is ReadWriteOncePod, and pod other on node elsewhere uses it"
	for name, c := range map[string]struct {
		mode corev1.PersistentVolumeAccessMode
		user *corev1.Pod
		// leaves means that the user terminates.
		leaves bool
		want   string
	}{
		"no user":     {mode: corev1.ReadWriteOncePod, want: "bind web-1"},
		"a user":      {mode: corev1.ReadWriteOncePod, user: onClaim("other", "elsewhere", corev1.PodRunning), want: taken},
		"one leaving": {mode: corev1.ReadWriteOncePod, user: onClaim("other", "elsewhere", corev1.PodRunning), leaves: true, want: taken},
		"one pending": {mode: corev1.ReadWriteOncePod, user: onClaim("other", "", corev1.PodPending), want: "bind web-1"},
		"one ended":   {mode: corev1.ReadWriteOncePod, user: onClaim("other", "elsewhere", corev1.PodSucceeded), want: "bind web-1"},
		"shared":      {mode: corev1.ReadWriteOnce, user: onClaim("other", "elsewhere", corev1.PodRunning), want: "bind web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim(time.Minute, "web-1")
			pod := &corev1.Pod{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, pod); err != nil {
				t.Fatal(err)
			}
			pod.Spec.Volumes = onClaim("web-1", "", "").Spec.Volumes
			if err := w.api.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			data := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
			data.Spec.AccessModes, data.Status.Phase = []corev1.PersistentVolumeAccessMode{c.mode}, corev1.ClaimBound
			w.create(data)
			if c.user != nil {
				c.user.Finalizers = []string{"example.com/kept"}
				w.create(c.user)
			}
			if c.leaves {
				if err := w.api.Delete(t.Context(), c.user); err != nil {
					t.Fatal(err)
				}
			}
			controller := w.controller()
			w.looks(controller, 2)
			w.kubelet("node-1", corev1.ConditionTrue)
			w.looks(controller, 2)
			w.wantTrace(c.want)
		})
	}
}

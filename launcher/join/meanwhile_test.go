package join_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

// overZones gives a pod a topology spread with its own kind over zones, with a skew of 1 at most.
func overZones(pod *corev1.Pod) {
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
}

// neighbor adds a pod that is bound in a zone.
func (s *scenario) neighbor(name string, args map[string]string) {
	_, newcomer := args["newcomer"]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{NodeName: "node-of-" + name}}
	overZones(pod)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName, Labels: map[string]string{corev1.LabelTopologyZone: args["zone"]}}}
	s.neighbors = append(s.neighbors, bind.NeighborOf(pod, node, newcomer))
}

// around observes the neighbors, and the promised pods among them.
func (s *scenario) around() {
	s.Around = bind.Around{Others: slices.Clone(s.neighbors)}
	for _, slot := range s.Slots {
		if slot.Pod != nil && s.Node != nil {
			s.Around.Others = append(s.Around.Others, bind.NeighborOf(slot.Pod, s.Node, false))
		}
	}
}

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
			w.bindVolume("web-1", c.mode, &corev1.PersistentVolume{})
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

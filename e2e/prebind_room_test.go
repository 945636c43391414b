package e2e_test

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// R5: a pod that is bound past the scheduler never has its volume: nobody tells the provisioner for which node. slipway leaves such
// a pod to the scheduler, in time for the room that it was promised.
func TestR5VolumeNeverProvisioned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r5")
	w.pool("r5", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "r5"}, Provisioner: "e2e.slipway.dev/nobody",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	w.create(class)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, class)); err != nil {
			t.Error(err)
		}
	})
	claimed := func(name string) corev1.PodSpec {
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
		pvc.Spec.StorageClassName = &class.Name
		pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		w.create(pvc)
		return w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}}
		})
	}
	selected := func(name string) string {
		pvc := &corev1.PersistentVolumeClaim{}
		if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: w.name, Name: name}, pvc); err != nil {
			t.Fatal(err)
		}
		return pvc.Annotations["volume.kubernetes.io/selected-node"]
	}
	w.deployment("db", 1, claimed("db"))
	careless := w.carelessPod(claimed("careless"))
	node := w.bindAtLaunch(careless, "r5")
	w.await(t, "the scheduler to choose a node for the volume", func() bool { return selected("db") != "" })
	if got := selected("db"); got != node {
		t.Errorf("the volume is made for node %s, the pod was promised %s", got, node)
	}
	if got := selected("careless"); got != "" {
		t.Errorf("the careless pod's volume is made for node %s: nothing is shown", got)
	}
	if n := len(w.events("PreBound")); n != 0 {
		t.Errorf("%d pods were bound before their volumes", n)
	}
}

// lessThanPlanned is a class whose user data keeps more from pods than the launcher reads of it.
func (w *world) lessThanPlanned(name, systemReserved string) {
	w.t.Helper()
	w.classOf(name, func(s *awsv1.EC2NodeClassSpec) {
		s.UserData = new(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      systemReserved: {` + systemReserved + `}
`)
	})
}

// R8: the node has less room than planned. A pod that is bound by the plan alone is rejected, and lost. slipway holds each of its pods
// against the Node as it is, plans the one that does not fit anew, and the next nodes with what this one has.
func TestR8LessRoomThanPlanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r8")
	w.lessThanPlanned("r8", "cpu: 400m")
	w.pool("r8", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = "r8"
		require(p, corev1.LabelInstanceTypeStable, "m6i.large", "m6i.xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	web := w.deployment("web", 1, w.podSpec("1600m", "64Mi", nil))
	var small string
	w.await(t, "a kubelet that leaves less to pods than planned", func() bool {
		for _, c := range w.claimsOf("r8") {
			n := w.node(c.Object.Status.NodeName)
			if cpu := n.Object.Status.Allocatable.Cpu(); n.Joined.Seen() && !cpu.IsZero() && cpu.MilliValue() < 1600 {
				small = n.Object.Name
			}
		}
		return small != ""
	})
	careless := w.carelessPod(w.podSpec("1600m", "64Mi", nil))
	if err := w.bindTo(careless, small); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the careless pod to be rejected", func() bool {
		return w.history(careless.UID).Object.Status.Reason == "OutOfcpu"
	})
	w.awaitRunning(1)
	// The first pod may be planned again before what its node reports is learned.
	refused, tried := len(w.events("NotPreBound")), len(w.everClaimed("r8"))
	w.scale(web, 3)
	w.awaitRunning(3)
	for _, p := range w.others() {
		if p.Failed.Seen() || w.node(p.Object.Spec.NodeName).Object.Name == small {
			t.Errorf("pod %s on node %s: %s %s", p.Object.Name, p.Object.Spec.NodeName, p.Object.Status.Reason, p.Object.Status.Message)
		}
	}
	// The pod that did not fit was left to the scheduler; and nothing of the kind was launched once that was known.
	if n := len(w.events("NotPreBound")); refused == 0 || n != refused {
		t.Errorf("%d pods, and then %d, were planned onto less room than they need", refused, n-refused)
	}
	for _, c := range w.everClaimed("r8")[tried:] {
		if c.Object.Labels[corev1.LabelInstanceTypeStable] == "m6i.large" {
			t.Errorf("NodeClaim %s is of the type that is too small", c.Object.Name)
		}
	}
}

// R10: a pod that is bound before its Node exists has no topology labels, and Kubernetes deletes it after a while.
func TestR10BoundBeforeItsNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r10")
	w.pool("r10", nil)
	careless := w.carelessPod(w.podSpec("100m", "64Mi", nil))
	if err := w.bindTo(careless, "not-yet"); err != nil {
		t.Fatal(err)
	}
	w.deployment("host", 1, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) { s.HostNetwork = true }))
	w.deployment("web", 1, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(2)
	for _, p := range w.pods() {
		zone := p.Object.Labels[corev1.LabelTopologyZone]
		node := w.node(p.Object.Spec.NodeName).Object
		switch {
		case p.Object.UID == careless.UID:
			if zone != "" {
				t.Errorf("the careless pod has zone %s: nothing is shown", zone)
			}
		case zone == "" && p.Object.Spec.HostNetwork: // It was bound at launch, when the API server may not have seen the Node yet.
		case zone == "" || zone != node.Labels[corev1.LabelTopologyZone]:
			t.Errorf("pod %s has zone %q, its node %s %q", p.Object.Name, zone, node.Name, node.Labels[corev1.LabelTopologyZone])
		}
	}
}

// R11: pods that come while nodes boot must be spread over what was promised, not over what is bound: nothing is bound yet.
func TestR11SpreadOverPromises(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r11")
	boot := w.hold("r11")
	w.pool("r11", nil)
	spread := w.podSpec("250m", "256Mi", func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	})
	web := w.deployment("web", 2, spread)
	w.await(t, "the first wave's NodeClaims", func() bool { return len(w.claimsOf("r11")) >= 2 })
	// Nothing is bound while the machines are held: whoever spreads over bound pods takes every zone for empty, and may put the next
	// pod beside the first.
	w.scale(web, 6)
	w.await(t, "all pods to be promised", func() bool {
		promised := 0
		for _, c := range w.claimsOf("r11") {
			promised += len(observe.PromisedTo(c))
		}
		return promised == 6
	})
	for _, p := range w.pods() {
		if p.Bound.Seen() {
			t.Errorf("pod %s is bound already: nothing is shown", p.Object.Name)
		}
	}
	boot()
	w.awaitRunning(6)
	zones := map[string]int{}
	for _, p := range w.pods() {
		zones[w.node(p.Object.Spec.NodeName).Object.Labels[corev1.LabelTopologyZone]]++
	}
	for zone, n := range zones {
		if n != 2 || len(zones) != 3 {
			t.Errorf("%d pods in zone %s, pods per zone %v", n, zone, zones)
		}
	}
}

// R12: a pod with volumes of the API server that is bound before the network is ready fails to mount them, and backs off. The one
// that slipway binds at Ready does not.
func TestR12BacksOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r12")
	boot := w.hold("r12")
	w.pool("r12", nil)
	w.deployment("web", 2, w.podSpec("100m", "64Mi", nil))
	careless := w.carelessPod(w.podSpec("100m", "64Mi", nil))
	w.bindAtLaunch(careless, "r12")
	boot()
	w.awaitRunning(3)
	w.await(t, "the careless pod's failed mounts", func() bool { return len(w.events("FailedMount")) > 0 })
	for _, e := range w.events("FailedMount") {
		if e.InvolvedObject.Name != careless.Name {
			t.Errorf("pod %s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
	for _, p := range w.others() {
		if node := w.node(p.Object.Spec.NodeName); !node.Ready.Before(p.Bound) {
			t.Errorf("pod %s was bound before node %s was ready", p.Object.Name, node.Object.Name)
		}
	}
}

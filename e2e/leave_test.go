package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// EC2 takes a spot instance away: its pods run elsewhere, none is lost, the queue goes on after a message nobody can read.
func TestSpotInterruption(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "interruption")
	w.pool("interruption", func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, "spot") })
	w.deployment("web", 8, w.podSpec("500m", "1Gi", nil))
	w.awaitRunning(8)
	victim := w.claimsOf("interruption")[0]
	if err := shared.AWS().SendRaw("this is { no JSON"); err != nil {
		t.Fatal(err)
	}
	// The warning alone: a busy machine would need longer than the seconds that are left of the two minutes here.
	if err := shared.AWS().SendRaw(spotWarning(instanceID(victim))); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the interrupted node to be gone and all pods to run elsewhere", func() bool {
		return w.running() == 8 && claimGone(w.cluster, victim)
	})
	for _, n := range w.recorder.Nodes() {
		if n.Object.Name == victim.Object.Status.NodeName && !n.Cordoned.Seen() {
			t.Errorf("node %s was never tainted as disrupted", n.Object.Name)
		}
	}
	for _, p := range w.pods() {
		if p.Failed.Seen() {
			t.Errorf("pod %s failed instead of being evicted: %s %s", p.Object.Name, p.Object.Status.Reason, p.Object.Status.Message)
		}
	}
}

// leaving lists the NodeClaims of a pool whose end has begun.
func (w *world) leaving(pool string) []observe.Claim {
	return slices.DeleteFunc(w.everClaimed(pool), func(c observe.Claim) bool { return !c.Terminating.Seen() })
}

// Without a word from the queue: EC2 is asked which instances are not well. One whose host has failed goes at once, one that EC2 will
// retire in good order, and both nodes' pods run elsewhere.
func TestInstancesThatAreNotWell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ailing")
	w.pool("ailing", smallSpot)
	w.deployment("web", 3, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(3)
	claims := w.claimsOf("ailing")
	broken, retired, well := claims[0], claims[1], claims[2]
	if err := shared.AWS().FailCheck(instanceID(broken), "system", time.Now().Add(-3*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := shared.AWS().ScheduleEvent(instanceID(retired), "instance-retirement", "The instance is running on degraded hardware"); err != nil {
		t.Fatal(err)
	}
	// EC2 is asked once a minute.
	w.await(t, "both nodes to be ended", func() bool { return len(w.leaving("ailing")) == 2 })
	w.await(t, "both nodes to be gone and all pods to run elsewhere", func() bool {
		return w.running() == 3 && claimGone(w.cluster, broken) && claimGone(w.cluster, retired)
	})
	reasons := map[string]string{broken.Object.Name: "system_status", retired.Object.Name: "event_status"}
	for _, c := range w.everClaimed("ailing") {
		want, ended := reasons[c.Object.Name]
		if got := c.Object.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); ended && (!got.IsTrue() || got.Reason != want) {
			t.Errorf("NodeClaim %s ended because of %+v, want %s", c.Object.Name, got, want)
		}
		if c.Object.Name == well.Object.Name && c.Terminating.Seen() {
			t.Errorf("NodeClaim %s, whose instance is well, was ended", c.Object.Name)
		}
	}
	for _, p := range w.pods() {
		if p.Failed.Seen() && p.Object.Spec.NodeName == retired.Object.Status.NodeName {
			t.Errorf("pod %s failed instead of being evicted from the node that will be retired", p.Object.Name)
		}
	}
}

func instanceID(c observe.Claim) string {
	id := c.Object.Status.ProviderID
	return id[strings.LastIndexByte(id, '/')+1:]
}

func claimGone(c *cluster, claim observe.Claim) bool {
	for _, other := range c.recorder.Claims() {
		if other.Object.UID == claim.Object.UID {
			return other.Deleted.Seen()
		}
	}
	return false
}

// A node without pods goes after consolidateAfter, and its instance with it.
func TestEmptyReclaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "reclaim")
	w.pool("reclaim", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("2s") })
	d := w.deployment("web", 3, w.podSpec("500m", "512Mi", nil))
	w.awaitRunning(3)
	claims := w.claimsOf("reclaim")
	w.scale(d, 0)
	w.await(t, "the empty nodes to be gone", func() bool { return len(w.claimsOf("reclaim")) == 0 })
	for _, c := range claims {
		awaitTerminated(t, instanceID(c))
	}
}

func awaitTerminated(t *testing.T, id string) {
	t.Helper()
	shared.await(t, "instance "+id+" to be terminated", func() bool {
		for _, i := range shared.AWS().Instances() {
			if i.ID == id {
				return i.State == "terminated" || i.State == "shutting-down"
			}
		}
		return true
	})
}

// kubectl delete node drains it within the PodDisruptionBudget, then ends the instance and the NodeClaim.
func TestDeleteNodeDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "delete-node")
	w.pool("delete-node", nil)
	w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{IntVal: 1},
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
	w.deployment("web", 4, w.podSpec("500m", "512Mi", nil))
	w.awaitRunning(4)
	claim := w.claimsOf("delete-node")[0]
	node := w.node(claim.Object.Status.NodeName).Object
	before, together := len(w.pods()), 0
	for _, p := range w.pods() {
		if p.Object.Spec.NodeName == node.Name {
			together++
		}
	}
	if err := w.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	lowest := 4
	w.await(t, "the node to be drained and gone", func() bool {
		lowest = min(lowest, w.running())
		return claimGone(w.cluster, claim) && w.running() == 4
	})
	if lowest < 3 {
		t.Errorf("%d pods ran at one time, the PodDisruptionBudget allows one to be away", lowest)
	}
	if len(w.pods()) == before {
		t.Error("no pod was moved: the node had none, or they were not drained")
	}
	var events corev1.EventList
	if err := w.client.List(t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	// The second of two that leave at once is refused.
	if together > 1 && !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Name == node.Name && e.Reason == "FailedDraining" && strings.Contains(e.Message, "The disruption budget web ")
	}) {
		t.Error("no Event names the PodDisruptionBudget that made the drain wait")
	}
	awaitTerminated(t, instanceID(claim))
}

// A NodePool whose EC2NodeClass does not exist, or from which no instance type can be launched, is not Ready and says why. It stops no other.
func TestMalformedNodePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "malformed")
	w.pool("malformed-class", func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Name = "nobody" })
	w.pool("malformed-types", func(p *karpv1.NodePool) { onlyTypes(p, "m99.large") })
	w.pool("malformed-good", nil)
	w.deployment("web", 2, w.podSpec("500m", "512Mi", nil))
	w.awaitRunning(2)
	for name, says := range map[string]string{"malformed-class": "nobody", "malformed-types": "node.kubernetes.io/instance-type in [m99.large]: the instance types of"} {
		w.await(t, "NodePool "+name+" to say what is wrong", func() bool {
			pool, message := karpv1.NodePool{}, ""
			if err := w.client.Get(t.Context(), keyOf(name), &pool); err != nil {
				t.Fatal(err)
			}
			for _, c := range pool.Status.Conditions {
				message += c.Message
			}
			return pool.StatusConditions().Root().IsFalse() && strings.Contains(message, says)
		})
	}
}

// GPU pods are bound by the scheduler once the device is there, never before.
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "gpu")
	w.pool("gpu", func(p *karpv1.NodePool) { require(p, "karpenter.k8s.aws/instance-category", "g") })
	w.deployment("train", 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *s.Containers[0].Resources.Requests.Cpu()}
	}))
	w.awaitRunning(1)
	for _, p := range w.pods() {
		if p.Failed.Seen() {
			t.Errorf("pod %s was bound before the device was there: %s", p.Object.Name, p.Object.Status.Message)
		}
	}
	if n := len(w.events("PreBound")); n != 0 {
		t.Errorf("%d GPU pods were pre-bound", n)
	}
}

package kubelets_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// The instance of a standby buffer boots, joins, pulls the buffer's images and is stopped. Its disk stays. A pod of the buffer wakes it: its kubelet comes back
// under the same Node name, with a Node and a Lease of their own, starts no pod again that ran before the stop, and pulls nothing.
func TestStandby(t *testing.T) {
	w := newWorld(t, "standby")
	w.pool("standby", func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand) })
	w.daemonSet("daemon", w.spec("100m", 0, nil))
	spec := w.spec("500m", 0, func(s *corev1.PodSpec) { s.Containers[0].Image = "example.com/standby/pad-20:1" })
	buffer := w.standbyBuffer("web", spec)
	w.await(t, "a stopped instance", func() bool { return len(w.asleep()) == 1 && len(w.nodesOf("standby")) == 0 })
	w.awaitBuffered(buffer)
	claim := w.asleep()[0]
	name := claim.Object.Status.NodeName
	checkInstance(t, w, claim, aws.StateStopped, 0)
	if images, err := os.ReadDir(filepath.Join(w.machine(claim), "lib", "containerd")); err != nil || len(images) == 0 {
		t.Errorf("containerd's folder on the disk of a stopped machine: %v, %v", images, err)
	}
	stopped := time.Now()

	w.deployment("web", 1, spec)
	w.await(t, "the pod, and what runs on each node, on the node that was woken", func() bool {
		return w.running("web") == 1 && onNode(w.runningPods("daemon"), name) != nil && onNode(w.runningPods("web"), name) != nil
	})
	woken := w.pods("web")[0]
	t.Logf("the pod ran %s after its creation", woken.Running.At.Sub(woken.Created.At))
	w.noneFailed("")
	checkInstance(t, w, claim, aws.StateRunning, 1)
	t.Run("Nodes", func(t *testing.T) { checkAgain(t, w, name, stopped) })
	t.Run("pods", func(t *testing.T) { checkNoneAgain(t, w, name, stopped) })
	if began := w.pulls(spec.Containers[0].Image); len(began) == 0 || slices.MaxFunc(began, time.Time.Compare).After(stopped) && len(w.events(woken.Object.Name, "Pulling")) > 0 {
		t.Errorf("the image of the buffer was pulled at %v, the machine had been stopped at %v", began, stopped)
	}

	id := w.machine(claim)
	w.scale("web", 0)
	if err := w.client.Delete(t.Context(), buffer); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), claim.Object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the machine's folder to be gone", func() bool {
		_, err := os.Stat(id)
		return w.gone(claim) && os.IsNotExist(err)
	})
}

// checkInstance holds that a NodeClaim's instance is in a state, after so many starts of what was stopped.
func checkInstance(t *testing.T, w *world, claim observe.Claim, state string, starts int) {
	t.Helper()
	if i := w.instanceOf(claim); i.State != state || i.Starts != starts {
		t.Errorf("instance %s is %s after %d starts", i.ID, i.State, i.Starts)
	}
}

// checkAgain holds that a machine had two Nodes of one name, one before its stop and one after its start, each made for it before its kubelet came, and that the
// second one's conditions and Lease are its own.
func checkAgain(t *testing.T, w *world, name string, stopped time.Time) {
	t.Helper()
	nodes := w.nodes(name)
	if len(nodes) != 2 {
		t.Fatalf("%d Nodes were named %s, want one before the stop and one after the start", len(nodes), name)
	}
	first, second := nodes[0], nodes[1]
	if first.Deleted.At.After(stopped) || !first.Deleted.Before(second.Created) {
		t.Errorf("the first Node went at %v, the instance had been stopped at %v, the next Node came at %v", first.Deleted.At, stopped, second.Created.At)
	}
	if first.Object.Spec.ProviderID != second.Object.Spec.ProviderID {
		t.Errorf("the Nodes have the providerIDs %s and %s", first.Object.Spec.ProviderID, second.Object.Spec.ProviderID)
	}
	for _, n := range nodes {
		checkNode(t, []observe.Node{n})
		if n.Ready.Before(n.Joined) {
			t.Errorf("Node %s was Ready at %v, before its kubelet came at %v", n.Object.Name, n.Ready.At, n.Joined.At)
		}
	}
	ready := conditions.Ready(second.Object)
	if ready == nil || ready.Status != corev1.ConditionTrue || ready.LastTransitionTime.Time.Before(stopped.Truncate(time.Second)) {
		t.Errorf("the condition Ready of the Node that was woken is %+v, its machine had been stopped at %v", ready, stopped)
	}
	w.awaitLease(t, second)
}

// awaitLease waits until a kubelet that came has renewed its Lease, which belongs to its Node. The kubelet renews it every ten seconds, and for the first time
// while it registers, so the renewal that shows it alive may be yet to come.
func (w *world) awaitLease(t *testing.T, of observe.Node) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, keyOf(corev1.NamespaceNodeLease, of.Object.Name), lease)
		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(of.Joined.At), err
	})
	owned := slices.ContainsFunc(lease.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == of.Object.UID })
	if err != nil || !owned {
		t.Errorf("the Lease is renewed at %v and belongs to %+v, the Node %s came at %v: %v", lease.Spec.RenewTime, lease.OwnerReferences, of.Object.UID, of.Joined.At, err)
	}
}

// checkNoneAgain holds that the pods that ran before the stop are gone for good, and that those after the start are new: their containers never ran before.
func checkNoneAgain(t *testing.T, w *world, name string, stopped time.Time) {
	t.Helper()
	before := 0
	for _, p := range w.pods("") {
		if p.Object.Spec.NodeName != name {
			continue
		}
		if p.Created.At.Before(stopped) {
			before++
			if !p.Deleted.Seen() {
				t.Errorf("pod %s ran before the stop and is there: %+v", p.Object.Name, p.Object.Status)
			}
			continue
		}
		for _, c := range p.Object.Status.ContainerStatuses {
			if c.RestartCount != 0 || c.State.Running == nil || c.State.Running.StartedAt.Time.Before(stopped.Truncate(time.Second)) {
				t.Errorf("a container of pod %s, which was created after the stop at %v: %+v", p.Object.Name, stopped, c)
			}
		}
	}
	if before == 0 {
		t.Error("no pod ran before the stop")
	}
}

// standbyBuffer creates a buffer of one pod of an app, by whose name it is called.
func (w *world) standbyBuffer(app string, spec corev1.PodSpec) *autoscalingv1beta1.CapacityBuffer {
	w.t.Helper()
	_, template := w.template(app, spec)
	w.create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: app}, Template: template})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: app}}
	// A kubelet may take half a minute until it lists an image that is there.
	buffer.Annotations = map[string]string{"slipway.dev/standby-prepare": "15s"}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: app}, new(int32(1))
	buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/standby")
	w.create(buffer)
	return buffer
}

// awaitBuffered waits until all instances of a buffer are stopped, as the scheduler knows.
func (w *world) awaitBuffered(buffer *autoscalingv1beta1.CapacityBuffer) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(buffer), buffer)
		return err == nil && meta.IsStatusConditionTrue(buffer.Status.Conditions, "Provisioning"), err
	})
	if err != nil {
		w.t.Fatalf("buffer %s has no stopped instance: %v: %+v", buffer.Name, err, buffer.Status.Conditions)
	}
}

// asleep are the NodeClaims of the test whose instances are stopped.
func (w *world) asleep() []observe.Claim {
	return slices.DeleteFunc(w.claims("standby"), func(c observe.Claim) bool { return !conditions.ClaimIs(c.Object, "Standby") })
}

// nodesOf are the Nodes that a pool has.
func (w *world) nodesOf(pool string) []observe.Node {
	return slices.DeleteFunc(w.recorder.Nodes(), func(n observe.Node) bool {
		return n.Object.Labels[karpv1.NodePoolLabelKey] != pool || n.Deleted.Seen()
	})
}

// runningPods are the pods with this prefix that run.
func (w *world) runningPods(prefix string) []observe.Pod {
	return slices.DeleteFunc(w.pods(prefix), func(p observe.Pod) bool {
		return p.Deleted.Seen() || p.Terminating.Seen() || p.Object.Status.Phase != corev1.PodRunning
	})
}

// instanceOf is the instance of a NodeClaim as AWS has it.
func (w *world) instanceOf(c observe.Claim) aws.Instance {
	for _, i := range w.AWS().Instances() {
		if i.ID == index.InstanceID(c.Object.Status.ProviderID) {
			return i
		}
	}
	return aws.Instance{}
}

// machine is the folder of the machine of a NodeClaim.
func (w *world) machine(c observe.Claim) string {
	id := c.Object.Status.ProviderID
	return filepath.Join(w.Folder(), "machines", id[strings.LastIndexByte(id, '/')+1:])
}

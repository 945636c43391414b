package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// sleepers are the NodeClaims of the test whose instances are stopped, by name.
func (w *world) sleepers() map[string]observe.Claim {
	out := map[string]observe.Claim{}
	for _, c := range w.claimsOf(w.name) {
		if conditions.ClaimIs(c.Object, "Standby") && !c.Terminating.Seen() {
			out[c.Object.Name] = c
		}
	}
	return out
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

// waited returns how long the pods of an app waited for their start, the shortest time first.
func (w *world) waited(app string) []time.Duration {
	var out []time.Duration
	for _, p := range w.pods() {
		if p.Object.Labels["app"] == app && p.Running.Seen() {
			out = append(out, p.Running.At.Sub(p.Created.At))
		}
	}
	slices.Sort(out)
	return out
}

// standbyBuffer creates a buffer of so many pods of 1.1 CPUs with label app=web: each needs a node of two CPUs for itself.
func (w *world) standbyBuffer(n int32) *autoscalingv1beta1.CapacityBuffer {
	w.t.Helper()
	buffer := w.standbyBufferOf("web", n, w.podSpec("1100m", "1Gi", nil))
	w.awaitBuffered(buffer)
	return buffer
}

// standbyBufferOf creates a buffer of so many pods of an app, by whose name it is called.
func (w *world) standbyBufferOf(app string, n int32, spec corev1.PodSpec) *autoscalingv1beta1.CapacityBuffer {
	w.t.Helper()
	template := corev1.PodTemplateSpec{Spec: spec}
	template.Labels = map[string]string{"app": app}
	w.create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: app}, Template: template})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: app}}
	// A machine lists the images that it has every ten seconds of its time.
	buffer.Annotations = map[string]string{"slipway.dev/standby-prepare": "1s"}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: app}, &n
	buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/standby")
	w.create(buffer)
	return buffer
}

// awaitSleepers waits until that many instances of the test are stopped, and returns their NodeClaims.
func (w *world) awaitSleepers(n int) map[string]observe.Claim {
	w.t.Helper()
	w.await(w.t, "stopped instances", func() bool { return len(w.sleepers()) == n })
	return w.sleepers()
}

// The instances of a standby buffer are stopped, and none of them has a Node. The buffer's pods wake them, and run sooner than others do on new nodes,
// which wake none. What was woken is launched again. Where EC2 has no capacity for a stopped instance, its pods have a new node. Without the buffer the
// instances terminate.
func TestStandbyBuffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "standby")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "r6i.large", "r6id.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	buffer := w.standbyBuffer(2)
	first := w.awaitSleepers(2)
	w.await(t, "the Nodes of stopped instances to be gone", func() bool {
		for _, c := range first {
			if w.node(c.Object.Status.NodeName).Created.Seen() {
				return false
			}
		}
		return true
	})
	for _, c := range first {
		if i := w.instanceOf(c); i.State != aws.StateStopped || w.node(c.Object.Status.NodeName).Object.Name != "" {
			t.Errorf("NodeClaim %s sleeps: its instance is %s, its Node %q", c.Object.Name, i.State, w.node(c.Object.Status.NodeName).Object.Name)
		}
	}
	w.deployment("other", 2, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(2)
	if n := len(w.claimsOf(w.name)); n != 4 || len(w.sleepers()) != 2 {
		t.Errorf("%d NodeClaims of which %d sleep, want two new ones for pods that the buffer does not wait for", n, len(w.sleepers()))
	}
	web := w.deployment("web", 2, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(4)
	w.wereWoken(first)
	second := w.awaitSleepers(2)
	w.awaitBuffered(buffer)

	for _, c := range second {
		i := w.instanceOf(c)
		w.AWS().ICE(i.Type, "all", "all", time.Hour)
		t.Cleanup(func() { w.AWS().ICE(i.Type, "all", "all", 0) })
	}
	w.scale(web, 4)
	w.awaitRunning(6)
	for _, c := range second {
		if i := w.instanceOf(c); i.Starts != 0 || len(w.eventsAbout(c.Object.Name, "StandbyNotStarted")) == 0 {
			t.Errorf("where EC2 has no capacity, the instance of NodeClaim %s was started %d times; an Event must say that it was not", c.Object.Name, i.Starts)
		}
	}

	if err := w.client.Delete(t.Context(), buffer); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the stopped instances to terminate", func() bool { return len(w.claimsOf(w.name)) == 6 && w.running() == 6 })
}

// wereWoken checks that the pods of app web run on the nodes of the NodeClaims, whose instances were started once, and that they ran sooner than those of app
// other on new nodes.
func (w *world) wereWoken(claims map[string]observe.Claim) {
	w.t.Helper()
	nodes := map[string]bool{}
	for _, c := range claims {
		nodes[c.Object.Status.NodeName] = true
		if i := w.instanceOf(c); i.Starts != 1 || i.State != aws.StateRunning {
			w.t.Errorf("the instance of NodeClaim %s was started %d times and is %s", c.Object.Name, i.Starts, i.State)
		}
	}
	for _, p := range w.web() {
		if !nodes[p.Object.Spec.NodeName] {
			w.t.Errorf("pod %s runs on node %s, which was not woken for it", p.Object.Name, p.Object.Spec.NodeName)
		}
	}
	cold, woken := w.waited("other"), w.waited("web")
	w.t.Logf("at %d times their speed pods ran %s after their creation on new nodes, %s on woken ones", speed, cold, woken)
	// A busy machine delays both pods for which the nodes are woken by as much as it does any: what is shown is that nothing boots for them.
	if woken[0] >= cold[len(cold)-1]+15*time.Second {
		w.t.Errorf("pods waited %s for woken nodes, others %s for new ones", woken, cold)
	}
}

// Where the class wants it, the instance of a standby buffer is hibernated once it is old enough, and goes on from there for the buffer's pod. Where EC2 cannot,
// as with a root volume that is too small for the memory, the instance is stopped, and the NodeClaim says why.
func TestHibernatedStandbyBuffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "hibernate")
	class := w.ownClass(newerImages)
	wants := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"slipway.dev/hibernate":"true"}}}`))
	if err := w.client.Patch(t.Context(), class, wants); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{"small": "m7i.large", "big": "r7i.large"}
	w.pool(w.name, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		onlyTypes(p, types["small"], types["big"])
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	spec := func(app string) corev1.PodSpec {
		return w.podSpec("1100m", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[corev1.LabelInstanceTypeStable] = types[app] })
	}
	for app := range types {
		w.awaitBuffered(w.standbyBufferOf(app, 1, spec(app)))
	}
	want := map[string]string{"m7i.large": "Hibernated", "r7i.large": "Asleep"}
	sleepers := w.awaitSleepers(2)
	for _, c := range sleepers {
		i, standby := w.instanceOf(c), conditions.Claim(c.Object, "Standby")
		if hibernated := want[i.Type] == "Hibernated"; standby.Reason != want[i.Type] || i.Hibernated != hibernated || i.State != aws.StateStopped ||
			strings.Contains(standby.Message, "It is not hibernated: the root volume has 20 GiB") == hibernated {
			t.Errorf("instance %s of type %s is %s, hibernated %v; its NodeClaim says %s: %s", i.ID, i.Type, i.State, i.Hibernated, standby.Reason, standby.Message)
		}
	}
	for app := range types {
		w.deployment(app, 1, spec(app))
	}
	w.awaitRunning(2)
	for _, c := range sleepers {
		if i := w.instanceOf(c); i.Starts != 1 || i.State != aws.StateRunning {
			t.Errorf("the instance of NodeClaim %s was started %d times and is %s", c.Object.Name, i.Starts, i.State)
		}
	}
	t.Logf("at %d times its speed a pod ran %s after its creation on a node that was hibernated, %s on one that was stopped", speed, w.waited("small"), w.waited("big"))
}

// A restart of both processes forgets no stopped instance and starts none. One that has drifted is replaced: the next is launched before it terminates. What
// sleeps terminates with its NodePool, as the clean-up of the test sees.
func TestStandbyBufferOverRestartsAlone(t *testing.T) {
	w := newWorld(t, "standbyrestart")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	buffer := w.standbyBuffer(1)
	first := w.awaitSleepers(1)
	w.kill(sandbox.Launcher)
	w.kill(sandbox.Scheduler)
	w.deployment("other", 1, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(1)
	w.awaitBuffered(buffer)
	if n := len(w.everClaimed(w.name)); n != 2 || len(w.sleepers()) != 1 {
		t.Fatalf("after the restart there were %d NodeClaims, of which %d sleep: want the one that slept and another for the pod", n, len(w.sleepers()))
	}
	w.deployment("web", 1, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(2)
	w.wereWoken(first)

	for _, c := range w.awaitSleepers(1) {
		drifted := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"another"}}}`, karpv1.NodePoolHashAnnotationKey))
		if err := w.client.Patch(t.Context(), c.Object.DeepCopy(), drifted); err != nil {
			t.Fatal(err)
		}
		w.await(t, "another stopped instance in place of the one that drifted", func() bool {
			_, same := w.sleepers()[c.Object.Name]
			return !same && len(w.sleepers()) == 1
		})
		for _, next := range w.sleepers() {
			if gone := slices.IndexFunc(w.everClaimed(w.name), func(o observe.Claim) bool { return o.Object.Name == c.Object.Name }); next.Created.At.After(w.everClaimed(w.name)[gone].Terminating.At) {
				t.Errorf("NodeClaim %s was created after the one that drifted was deleted", next.Object.Name)
			}
		}
	}
}

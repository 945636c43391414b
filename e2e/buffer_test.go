package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// A CapacityBuffer launches nodes for pods that do not exist. A pod that comes runs there at once, and its room is launched again. Nodes without
// a pod stay as long as the buffer needs them, and no longer.
func TestCapacityBuffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "buffer")
	w.shrinking(nil)
	w.create(&corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "chunk"},
		Template:   corev1.PodTemplateSpec{Spec: w.podSpec("1100m", "1Gi", nil)},
	})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "spare"}}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, new(int32(2))
	w.create(buffer)
	w.awaitBuffered(buffer)
	w.await(t, "the nodes to be seen", func() bool { return len(w.fixed(w.name)) >= 2 })
	first := w.fixed(w.name)
	if len(first) != 2 {
		t.Fatalf("%d nodes for 2 pods of 1.1 CPUs", len(first))
	}

	// A pod takes room that is there, and the buffer launches room for the next.
	web := w.deployment("web", 1, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(1)
	took := slices.IndexFunc(w.pods(), func(p observe.Pod) bool { return p.Object.Labels["app"] == "web" })
	node := w.pods()[took].Object.Spec.NodeName
	if !slices.ContainsFunc(first, func(c observe.Claim) bool { return c.Object.Status.NodeName == node }) {
		t.Errorf("pod web runs on node %s, which was launched for it: the buffer had room", node)
	}
	w.await(t, "room for the buffer beside the pod", func() bool { return len(w.fixed(w.name)) == 3 })
	w.awaitBuffered(buffer)

	// Without the pod one node is too many. The two that stay have no pod either, one of them for longer.
	w.scale(web, 0)
	w.await(t, "the node that the buffer does not need to terminate", func() bool { return len(w.claimsOf(w.name)) == 2 })
	w.awaitBuffered(buffer)
	if n := len(w.everClaimed(w.name)); n != 3 {
		t.Errorf("%d NodeClaims in all, want 3: a node of the buffer terminated, and was launched again", n)
	}

	w.scale(web, 1)
	w.awaitRunning(1)
	w.await(t, "room for the buffer beside the pod again", func() bool { return len(w.fixed(w.name)) == 3 })
	if err := w.client.Delete(t.Context(), buffer); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the nodes of the buffer to terminate", func() bool { return len(w.claimsOf(w.name)) == 1 && w.running() == 1 })
	if len(w.events("CapacityBufferLaunched")) == 0 {
		t.Error("no Event says that the buffer had NodeClaims launched")
	}
}

// The pods of a buffer are as large as admission makes those that come: a LimitRange gives them the requests that their template lacks. Counted by
// the template alone, one node would have room for all.
func TestBufferOfLimitRange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bufferrange")
	w.pool(w.name, func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")}
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "cpu"}}
	ranges.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: cpu, DefaultRequest: cpu}}
	w.create(ranges)
	bare := w.podSpec("1", "1Mi", func(s *corev1.PodSpec) { s.Containers[0].Resources = corev1.ResourceRequirements{} })
	w.create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "chunk"}, Template: corev1.PodTemplateSpec{Spec: bare}})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "spare"}}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, new(int32(2))
	w.create(buffer)
	w.awaitBuffered(buffer)
	w.await(t, "the nodes to be seen", func() bool { return len(w.fixed(w.name)) >= 2 })
	nodes := w.fixed(w.name)
	if len(nodes) != 2 {
		t.Errorf("%d nodes of 2 CPUs for 2 pods that have 1.1 CPUs by the LimitRange", len(nodes))
	}
	w.deployment("web", 2, bare)
	w.awaitRunning(2)
	for _, p := range w.pods() {
		if !slices.ContainsFunc(nodes, func(c observe.Claim) bool { return c.Object.Status.NodeName == p.Object.Spec.NodeName }) {
			t.Errorf("pod %s runs on node %s, which was launched for it: the buffer had room", p.Object.Name, p.Object.Spec.NodeName)
		}
	}
}

// awaitBuffered waits until all pods of the buffer have room on initialized nodes.
func (w *world) awaitBuffered(buffer *autoscalingv1beta1.CapacityBuffer) {
	w.t.Helper()
	w.await(w.t, "room for CapacityBuffer "+buffer.Name, func() bool {
		got := &autoscalingv1beta1.CapacityBuffer{}
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(buffer), got); err != nil {
			w.t.Fatal(err)
		}
		return meta.IsStatusConditionTrue(got.Status.Conditions, autoscalingv1beta1.ProvisioningCondition)
	})
}

// The room of a reserved buffer is for the pods that it waits for: others have nodes launched, whatever their priority. Its own run there at once, and
// the room is launched again. While nothing comes, no node does and none terminates.
func TestReservedBuffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "reservedbuffer")
	w.shrinking(nil)
	template := corev1.PodTemplateSpec{Spec: w.podSpec("1100m", "1Gi", nil)}
	template.Labels = map[string]string{"app": "web"}
	w.create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "chunk"}, Template: template})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "spare"}}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, new(int32(2))
	buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/reserved")
	all := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "all"}, Spec: *buffer.Spec.DeepCopy()}
	all.Annotations = map[string]string{"slipway.dev/reserved-for": "!app"}
	w.create(all)
	w.create(buffer)
	w.awaitBuffered(buffer)
	w.await(t, "the nodes to be seen", func() bool { return len(w.fixed(w.name)) >= 2 })
	room := map[string]bool{}
	for _, c := range w.fixed(w.name) {
		room[c.Object.Status.NodeName] = true
	}
	if len(room) != 2 {
		t.Fatalf("%d nodes for 2 pods of 1.1 CPUs", len(room))
	}

	w.deployment("other", 3, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(3)
	w.deployment("web", 2, template.Spec)
	w.awaitRunning(5)
	for _, p := range w.pods() {
		if web := p.Object.Labels["app"] == "web"; web != room[p.Object.Spec.NodeName] {
			t.Errorf("pod %s runs on node %s, which the buffer has room on: %t", p.Object.Name, p.Object.Spec.NodeName, room[p.Object.Spec.NodeName])
		}
		t.Logf("pod %s was bound %s after its creation", p.Object.Name, p.Bound.At.Sub(p.Created.At))
	}
	w.await(t, "room for the buffer beside its pods", func() bool { return len(w.fixed(w.name)) == 7 })
	w.awaitBuffered(buffer)
	if got := w.reason(all); !strings.Contains(got, "selects pods without labels") {
		t.Errorf("a selector of all pods: %q", got)
	}

	// Each pod of another test that is bound has the room planned again, and consolidation looks at the nodes once a second.
	time.Sleep(10 * time.Second)
	if n := len(w.everClaimed(w.name)); n != 7 || len(w.claimsOf(w.name)) != 7 {
		t.Errorf("%d NodeClaims in all and %d now, want 7: the cluster is steady", n, len(w.claimsOf(w.name)))
		for _, c := range w.everClaimed(w.name) {
			t.Logf("NodeClaim %s: created %s, initialized %s, terminating %s, annotations %v, conditions %v", c.Object.Name, c.Created.At.Format(time.TimeOnly),
				c.Initialized.At.Format(time.TimeOnly), c.Terminating.At.Format(time.TimeOnly), c.Object.Annotations, c.Object.Status.Conditions)
		}
	}
}

// A one-shot buffer has no node launched while not all of its pods would have room, and says why. Then it has room for all, for its own pods alone, once,
// and until its time is over.
func TestOneShotBuffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "oneshotbuffer")
	w.shrinking(func(p *karpv1.NodePool) {
		p.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("2")}
	})
	template := corev1.PodTemplateSpec{Spec: w.podSpec("1100m", "1Gi", nil)}
	template.Labels = map[string]string{"app": "job"}
	w.create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "chunk"}, Template: template})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "run", Annotations: map[string]string{"slipway.dev/booked-for": "45s"}}}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, new(int32(3))
	buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/one-shot")
	w.create(buffer)
	w.await(t, "a reason why not all pods have room", func() bool {
		c := w.condition(buffer, "Infeasible")
		return c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "limit nodes of 2")
	})
	if n := len(w.everClaimed(w.name)); n != 0 {
		t.Errorf("%d NodeClaims for a buffer that cannot be met", n)
	}
	w.change(func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("5")} })
	w.await(t, "room for all pods", func() bool { return w.condition(buffer, "Provisioned").Status == metav1.ConditionTrue })
	if c := w.condition(buffer, "Infeasible"); c.Status != metav1.ConditionFalse {
		t.Errorf("with room: %v", c)
	}
	w.await(t, "the nodes to be seen", func() bool { return len(w.fixed(w.name)) >= 3 })
	room := map[string]bool{}
	for _, c := range w.fixed(w.name) {
		room[c.Object.Status.NodeName] = true
	}
	w.deployment("other", 1, w.podSpec("1100m", "1Gi", nil))
	w.deployment("job", 2, template.Spec)
	w.awaitRunning(3)
	for _, p := range w.pods() {
		if job := p.Object.Labels["app"] == "job"; job != room[p.Object.Spec.NodeName] {
			t.Errorf("pod %s runs on node %s, which the buffer has room on: %t", p.Object.Name, p.Object.Spec.NodeName, room[p.Object.Spec.NodeName])
		}
	}
	w.await(t, "the time to be over", func() bool { return w.condition(buffer, "BookingExpired").Status == metav1.ConditionTrue })
	w.await(t, "the node without a pod to terminate", func() bool { return len(w.claimsOf(w.name)) == 3 })
	if n := len(w.everClaimed(w.name)); n != 4 {
		t.Errorf("%d NodeClaims in all, want 4: what the pods took was launched again", n)
	}
}

// reason is the message of the condition ReadyForProvisioning.
func (w *world) reason(buffer *autoscalingv1beta1.CapacityBuffer) string {
	return w.condition(buffer, autoscalingv1beta1.ReadyForProvisioningCondition).Message
}

// condition returns a condition of the buffer; an empty one where it has none.
func (w *world) condition(buffer *autoscalingv1beta1.CapacityBuffer, of string) metav1.Condition {
	w.t.Helper()
	got := &autoscalingv1beta1.CapacityBuffer{}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(buffer), got); err != nil {
		w.t.Fatal(err)
	}
	if c := meta.FindStatusCondition(got.Status.Conditions, of); c != nil {
		return *c
	}
	return metav1.Condition{}
}

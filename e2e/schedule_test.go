package e2e_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// Outside of its window a NodePool launches nothing, and a buffer has no room. Both change by the clock alone, when it opens and when it closes.
func TestWindowsOfTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "by-the-clock")
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	// Time enough to see what holds before.
	opens := time.Now().Add(25 * time.Second).Truncate(time.Minute).Add(time.Minute).In(tokyo)
	windows := func(what string) map[string]string {
		return map[string]string{"slipway.dev/windows": fmt.Sprintf(`[{schedule: "%d %d * * *", timeZone: Asia/Tokyo, duration: 150s, %s}]`, opens.Minute(), opens.Hour(), what)}
	}
	w.shrinking(func(p *karpv1.NodePool) {
		maps.Copy(p.Annotations, windows(`limits: {nodes: "2"}`))
		p.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("0")}
	})
	w.deployment("web", 1, w.podSpec("1100m", "1Gi", nil))
	w.create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "chunk"}, Template: corev1.PodTemplateSpec{Spec: w.podSpec("1100m", "1Gi", nil)}})
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "spare", Annotations: windows("replicas: 1")}}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, new(int32(0))
	w.create(buffer)
	w.await(t, "a reason for the pod", func() bool {
		pods := w.pods()
		return time.Now().After(opens) || len(pods) == 1 && strings.Contains(fmt.Sprint(pods[0].Object.Status.Conditions), "limit nodes of 0 reached")
	})
	w.awaitRunning(1)
	// The pod may take the room of the buffer, which then has another node.
	w.await(t, "a node for the pod and one for the buffer", func() bool { return len(w.fixed(w.name)) == 2 })
	for _, c := range w.everClaimed(w.name) {
		if created := c.Object.CreationTimestamp.Time; created.Before(opens) {
			t.Errorf("NodeClaim %s was created at %s, and the window opens at %s", c.Object.Name, created, opens)
		}
	}
	pool := &karpv1.NodePool{}
	if err := w.client.Get(t.Context(), keyOf(w.name), pool); err != nil {
		t.Fatal(err)
	}
	if c := pool.StatusConditions().Get(nodepool.ConditionWindow); time.Now().Before(opens.Add(140*time.Second)) && !c.IsTrue() {
		t.Errorf("the window is open, and the NodePool says %v", c)
	}
	w.await(t, "the node of the buffer to terminate", func() bool { return len(w.claimsOf(w.name)) == 1 && w.running() == 1 })
	if time.Now().Before(opens.Add(150 * time.Second)) {
		t.Error("the buffer's node terminated before the window closed")
	}
}

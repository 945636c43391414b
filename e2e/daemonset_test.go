package e2e_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// high creates a PriorityClass of the test's.
func (w *world) high() string {
	w.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-high"}, Value: 1000000}
	w.create(class)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, class)); err != nil {
			w.t.Error(err)
		}
	})
	return class.Name
}

// daemonSet creates a DaemonSet on the test's nodes.
func (w *world) daemonSet(name string, spec corev1.PodSpec) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	w.create(ds)
}

// A LimitRange gives the pods of a DaemonSet requests that its template does not have. Whoever plans by the template launches a
// node on which the daemon pod, of higher priority, leaves no room for the pod that the node is for; the node is empty and goes,
// and the next is launched, without end.
func TestLimitRangeOfDaemonPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "limitrange")
	w.pool("limitrange", func(p *karpv1.NodePool) {
		require(p, corev1.LabelInstanceTypeStable, "t4g.xlarge", "m6g.xlarge", "m6g.2xlarge", "c6g.2xlarge")
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	})
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "cpu"}}
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	ranges.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: two, DefaultRequest: two}}
	w.create(ranges)
	without := func(s *corev1.PodSpec) { s.Containers[0].Resources = corev1.ResourceRequirements{} }
	high := w.high()
	w.daemonSet("agent", w.podSpec("1", "1Mi", func(s *corev1.PodSpec) {
		without(s)
		s.PriorityClassName = high
	}))
	w.deployment("web", 1, w.podSpec("1", "1Mi", without))
	w.await(t, "both pods to run", func() bool { return w.running() == 2 || len(w.everClaimed("limitrange")) > 2 })
	shared.measured(t, "%d NodeClaims for one pod", len(w.everClaimed("limitrange")))
	if n := len(w.everClaimed("limitrange")); n > 2 || w.running() != 2 {
		t.Errorf("%d NodeClaims for one pod, %d of 2 pods run", n, w.running())
	}
	for _, p := range w.pods() {
		if cpu := p.Object.Spec.Containers[0].Resources.Requests.Cpu(); cpu.MilliValue() != 2000 {
			t.Errorf("pod %s requests %s: nothing is shown", p.Object.Name, cpu)
		}
	}
}

// bindEater binds a pod by hand to a node.
func (w *world) bindEater(name, node string, spec corev1.PodSpec) {
	w.t.Helper()
	eater := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Spec: spec}
	eater.Spec.SchedulerName = "careless"
	w.create(eater)
	if err := w.bindTo(eater, node); err != nil {
		w.t.Fatal(err)
	}
}

// TestUselessLaunchesAreDelayed takes the room of each new node before the pod comes that it was launched for: the next launch waits, longer each time, and
// the pod says what it waits for. Here a pod that is bound by hand takes it, which no plan can foresee.
func TestUselessLaunchesAreDelayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "useless")
	// The kubelet of a node waits until its eater is bound.
	release, held := w.hold("useless"), true
	w.pool("useless", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	web := w.podSpec("1500m", "64Mi", nil)
	w.deployment("web", 1, web)
	eaten := map[string]bool{}
	eat := func(most int) {
		for _, c := range w.everClaimed("useless") {
			node, at := c.Object.Status.NodeName, w.node(c.Object.Status.NodeName)
			if eaten[node] && !held && len(eaten) < most && at.Joined.Seen() {
				release, held = w.hold("useless"), true // The next launch is ten seconds away.
			}
			if at.Object.Name == "" || eaten[node] || len(eaten) == most {
				continue
			}
			eaten[node] = true
			w.bindEater("eats-"+c.Object.Name, node, web)
			release()
			held = false
		}
	}
	told := ""
	w.await(t, "the third node", func() bool {
		eat(2)
		told = cmp.Or(delayOf(w.pods()), told)
		return len(w.everClaimed("useless")) > 2
	})
	w.awaitRunning(3)
	claims := w.everClaimed("useless")
	slices.SortFunc(claims, func(a, b observe.Claim) int { return a.Created.At.Compare(b.Created.At) })
	if len(claims) != 3 {
		t.Fatalf("%d NodeClaims, want 3: the third runs the pod", len(claims))
	}
	// The least time between the end of one launch and the next; a busy machine makes it longer.
	for i, least := range []time.Duration{9 * time.Second, 19 * time.Second} {
		done := claims[i].Object.StatusConditions().Get(karpv1.ConditionTypeInitialized).LastTransitionTime
		if waited := claims[i+1].Object.CreationTimestamp.Sub(done.Time); waited < least {
			t.Errorf("launch %d came %s after the node of the last was initialized, want %s at least", i+2, waited, least)
		}
	}
	if !strings.Contains(told, "(NodeClaim useless-") || !strings.Contains(told, "; next launch after ") {
		t.Errorf("the pod was told %q", told)
	}
	if len(w.events("LaunchDelayed")) == 0 {
		t.Error("no Event LaunchDelayed on the pod")
	}
}

// delayOf returns the condition of the last pod that waits because a node launched for it could not run it; empty for none.
func delayOf(pods []observe.Pod) string {
	message := ""
	for _, p := range pods {
		for _, c := range p.Object.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "could not run it") {
				message = c.Message
			}
		}
	}
	return message
}

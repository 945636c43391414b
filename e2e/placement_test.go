package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

// Selectors, taints, architecture and capacity type land where they must; each Deployment's pods land on nodes with all of
// its labels.
func TestPlacement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "placement")
	w.pool("placement", nil)
	want := map[string]map[string]string{
		"zone":      {corev1.LabelTopologyZone: "us-east-1b"},
		"arm":       {corev1.LabelArchStable: "arm64"},
		"spot":      {karpv1.CapacityTypeLabelKey: "spot"},
		"on-demand": {karpv1.CapacityTypeLabelKey: "on-demand"},
		"family":    {"karpenter.k8s.aws/instance-family": "c7i", corev1.LabelTopologyZone: "us-east-1a"},
	}
	for name, labels := range want {
		w.deployment(name, 2, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
			maps.Copy(s.NodeSelector, labels)
		}))
	}
	w.awaitRunning(2 * len(want))
	for _, p := range w.pods() {
		node := w.node(p.Object.Spec.NodeName).Object
		for k, v := range want[p.Object.Labels["app"]] {
			if node.Labels[k] != v {
				t.Errorf("pod %s is on node %s with %s=%s, want %s", p.Object.Name, node.Name, k, node.Labels[k], v)
			}
		}
	}
}

// Required spread over zones and hosts holds among the new nodes.
func TestSpread(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "spread")
	boot := w.hold("spread")
	w.pool("spread", nil)
	spread := func(app, key string) corev1.PodSpec {
		return w.podSpec("250m", "256Mi", func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			}}
		})
	}
	w.deployment("zonal", 9, spread("zonal", corev1.LabelTopologyZone))
	w.deployment("apart", 4, w.podSpec("250m", "256Mi", func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "apart"}},
			}},
		}}
	}))
	w.awaitPromised("spread", 13)
	boot()
	w.awaitRunning(13)
	zones, hosts := map[string]int{}, map[string]int{}
	for _, p := range w.pods() {
		node := w.node(p.Object.Spec.NodeName).Object
		if p.Object.Labels["app"] == "zonal" {
			zones[node.Labels[corev1.LabelTopologyZone]]++
		} else {
			hosts[node.Name]++
		}
	}
	if want := map[string]int{"us-east-1a": 3, "us-east-1b": 3, "us-east-1c": 3}; fmt.Sprint(zones) != fmt.Sprint(want) {
		t.Errorf("pods per zone: %v, want %v", zones, want)
	}
	if len(hosts) != 4 {
		t.Errorf("pods that keep apart are on %v", hosts)
	}
}

// The pod's condition says for each NodePool why it cannot run the pod.
func TestReasonsPerNodePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "reasons")
	w.pool("reasons-small", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	w.pool("reasons-tainted", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = append(p.Spec.Template.Spec.Taints, corev1.Taint{Key: "team", Value: "other", Effect: corev1.TaintEffectNoSchedule})
	})
	w.deployment("big", 1, w.podSpec("20", "1Gi", nil))
	message := ""
	w.await(t, "a reason per NodePool", func() bool {
		for _, p := range w.pods() {
			message = scheduledMessage(p)
		}
		return containsAll(message, "reasons-small", "m6i.large", "reasons-tainted", "team")
	})
	if n := len(w.everClaimed("reasons-small")) + len(w.everClaimed("reasons-tainted")); n != 0 {
		t.Errorf("%d NodeClaims were created for a pod that fits nowhere", n)
	}
	w.explained()
}

// explained expects the reasons as a condition of their own, which `slipway explain` prints, and no such condition once the pod has a
// node.
func (w *world) explained() {
	refusal := explain.Refusal{}
	read := func() (found bool) {
		for _, p := range w.pods() {
			refusal, found = explain.Read(p.Object)
		}
		return found
	}
	codeOf := func(pool string) string {
		for _, r := range refusal.Reasons {
			if slices.Contains(r.NodePools, pool) {
				return r.Code
			}
		}
		return ""
	}
	w.await(w.t, "the typed reasons", func() bool {
		return read() && codeOf("reasons-small") == "NoInstanceTypeFits" && codeOf("reasons-tainted") == "TaintNotTolerated"
	})
	pod := w.pods()[0].Object
	printed := ""
	w.await(w.t, "slipway explain to print each reason once", func() bool {
		printed = w.slipway("explain", "pod", pod.Namespace+"/"+pod.Name)
		return containsAll(printed, "No node can be launched: see below.", "Why no node is launched for it:\n", "\n  NodePool reasons-small: asks for ",
			"\n  NodePool reasons-tainted: does not tolerate ") && !strings.Contains(printed, "If it were planned now")
	})

	w.pool("reasons-large", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.8xlarge") })
	w.awaitRunning(1)
	w.explainedNode(pod)
	w.await(w.t, "the condition to be gone from the pod that runs", func() bool {
		return !slices.ContainsFunc(w.pods(), func(p observe.Pod) bool { return conditions.Pod(p.Object, explain.NodeLaunchable) != nil })
	})
}

// explainedNode expects the steps of a pod and of its node, in order, once the pod runs.
func (w *world) explainedNode(pod *corev1.Pod) {
	node := w.pods()[0].Object.Spec.NodeName
	for _, c := range []struct{ kind, name, steps string }{
		{"pod", pod.Namespace + "/" + pod.Name, "created|node planned: m6i.8xlarge|node launched: aws:|containers started"},
		{"node", node, "planned: m6i.8xlarge|launched: aws:|joined: " + node},
	} {
		printed := w.slipway("explain", c.kind, c.name)
		rest := printed
		for step := range strings.SplitSeq(c.steps, "|") {
			_, after, found := strings.Cut(rest, "  "+step)
			if !found {
				w.t.Errorf("explain %s: step %q is not where it belongs:\n%s", c.kind, step, printed)
			}
			rest = after
		}
	}
}

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func scheduledMessage(p observe.Pod) string {
	for _, c := range p.Object.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Pods beyond the limits stay pending, and say so.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "limits")
	w.pool("limits", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.xlarge")
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("8")}
	})
	w.deployment("web", 12, w.podSpec("1", "1Gi", nil))
	w.await(t, "the pods that fit to run and the others to name the limit", func() bool {
		return w.running() == 6 && len(slices.DeleteFunc(w.pods(), func(p observe.Pod) bool {
			return !strings.Contains(scheduledMessage(p), "limit")
		})) == 6
	})
	if n := len(w.everClaimed("limits")); n != 2 {
		t.Errorf("%d nodes of 4 cores were launched, the limit of 8 cores allows 2", n)
	}
}

// The pool of higher weight is used while it can be, the other where it cannot.
func TestWeights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "weights")
	weight := int32(50)
	w.pool("weights-first", func(p *karpv1.NodePool) {
		p.Spec.Weight = &weight
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Spec.Limits = karpv1.Limits{corev1.ResourceName("nodes"): resource.MustParse("1")}
		onlyTypes(p, "m6i.xlarge")
	})
	w.pool("weights-second", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.xlarge") })
	w.await(t, "the first pool to be ready", func() bool {
		pool := &karpv1.NodePool{}
		return w.client.Get(t.Context(), keyOf("weights-first"), pool) == nil && pool.StatusConditions().Root().IsTrue()
	})
	w.deployment("web", 6, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(6)
	if first, second := len(w.claimsOf("weights-first")), len(w.claimsOf("weights-second")); first != 1 || second != 1 {
		t.Errorf("%d nodes of the first pool, which allows one, and %d of the second", first, second)
	}
}

// EC2 has no capacity for what is cheapest: the next offering is launched, without waiting.
func TestInsufficientCapacity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "no-capacity")
	w.pool("no-capacity", func(p *karpv1.NodePool) {
		onlyTypes(p, "r6i.xlarge", "r5.xlarge", "r7i.xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	cheapest := []string{"r6i.xlarge", "r5.xlarge"} // No other test has them alone.
	for _, instanceType := range cheapest {
		shared.AWS().ICE(instanceType, "all", "all", time.Hour)
	}
	w.deployment("web", 3, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(3)
	for _, c := range w.claimsOf("no-capacity") {
		if got := c.Object.Labels[corev1.LabelInstanceTypeStable]; got != "r7i.xlarge" {
			t.Errorf("NodeClaim %s is a %s, which has no capacity", c.Object.Name, got)
		}
	}
}

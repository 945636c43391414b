package plugin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// A pod that runs only beside another, which does not exist, is planned again once that one has a node. Nodes that exist have no room for it, and reject it for that
// alone.
func TestAPodIsPlannedAgainWhenTheOneItFollowsComes(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("small", "100m", nil)}})
	h.pod("follows", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leads"}},
		}}}}
	})
	h.eventually("the pod's condition", func() bool { return h.says("follows", "Insufficient cpu", "No node can be launched") })
	h.asks("leads", 50, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "leads"} })
	h.eventually("the other pod to be bound", func() bool { return h.nodeOf("leads") == "small" })
	h.eventually("a launch", func() bool { return h.launcher.podNames()["follows"] == 1 })
	if zone := h.launcher.claims()[0].GetExpected().GetZone(); zone != "us-east-1a" {
		t.Errorf("launched in %s, the other pod is in us-east-1a", zone)
	}
}

// A pod whose topology spread leaves it a zone alone in which nothing can be launched is planned again once that zone has no node any more, or has a pod that the
// spread counts. Nodes that exist have no room for it, and reject it for that alone.
func TestAPodIsPlannedAgainWhenItsSpreadAllowsMore(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*harness){
		"the last node of a zone goes": func(h *harness) {
			if err := h.client.CoreV1().Nodes().Delete(h.ctx, "in-b", metav1.DeleteOptions{}); err != nil {
				h.t.Fatal(err)
			}
		},
		"a pod of another workload is bound": func(h *harness) {
			h.asks("other", 50, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
			h.eventually("the other pod to be bound", func() bool { return h.nodeOf("other") == "in-b" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := newPod("there", "100m", "64Mi")
			there.Labels, there.Spec.NodeName = map[string]string{"app": "web"}, "in-a"
			h := start(t, harnessOptions{
				objects: []runtime.Object{
					newNode("in-a", "100m", nil), newNode("in-b", "100m", map[string]string{corev1.LabelTopologyZone: "us-east-1b"}), there,
				},
				prepare: func(l *testLauncher) {
					l.pools[0].Requirements = append(l.pools[0].GetRequirements(), &api.Requirement{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"us-east-1a"}})
				},
			})
			h.pod("web", func(p *corev1.Pod) {
				p.Labels = map[string]string{"app": "web"}
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				}}
			})
			h.eventually("the pod's condition", func() bool { return h.says("web", "Insufficient cpu", "No node can be launched") })
			change(h)
			h.eventually("a launch", func() bool { return h.launcher.podNames()["web"] == 1 })
		})
	}
}

// A pod for which nothing can be launched is planned again when its user edits what it needs. No node that exists has rejected it for that, so nothing else tries it.
func TestAnEditedPodIsPlannedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		create, edit func(*corev1.Pod)
		taints       []*api.Taint
		says         string
	}{
		"a toleration": {
			taints: []*api.Taint{{Key: "team", Value: "a", Effect: "NoSchedule"}}, says: "tolerate",
			edit: func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
			},
		},
		"the gang's size": {create: inGang(2), says: "waits for its pods: 1 of 2", edit: func(p *corev1.Pod) {
			p.Annotations[plan.KeyGangSize] = "1"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				args: []string{"gangTimeout: 50ms", "batchIdle: 50ms"}, objects: []runtime.Object{newNode("full", "100m", nil)},
				prepare: func(l *testLauncher) { l.pools[0].Taints = c.taints },
			})
			h.pod("web", c.create)
			h.eventually("the pod's condition", func() bool { return h.says("web", c.says) })
			pod := h.get("web")
			c.edit(pod)
			if _, err := h.client.CoreV1().Pods("default").Update(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			h.eventually("a launch", func() bool { return h.launcher.podNames()["web"] == 1 })
		})
	}
}

// A pod that is held and has a node nominated from outside has a moment to get there. Then it is planned as if it were not nominated.
func TestAHeldPodThatIsNominatedFromOutside(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) {
			l.pools[0].Taints = []*api.Taint{{Key: "team", Value: "a", Effect: "NoSchedule"}}
		},
	})
	h.pod("web", nil)
	h.eventually("the pod's condition", func() bool { return h.says("web", "tolerate") })
	pod := h.get("web")
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	pod.Status.NominatedNodeName = "full"
	if _, err := h.client.CoreV1().Pods("default").Update(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	edited := time.Now()
	h.eventually("a launch", func() bool { return h.launcher.podNames()["web"] == 1 })
	if took := time.Since(edited); took < 5*time.Second {
		t.Errorf("a node was launched %s after the nomination", took)
	}
}

// A pod that the scheduler nominates a node while its batch is planned preempts there: no node is launched for it. Where it does not get there, it is planned again.
func TestAPodThatIsNominatedWhileItIsPlanned(t *testing.T) {
	t.Parallel()
	h := startWhilePlanned(t, func(h *harness) {
		pod := h.get("web-0")
		pod.Status.NominatedNodeName = "full"
		if _, err := h.client.CoreV1().Pods("default").UpdateStatus(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		h.eventually("the informer to have seen it", func() bool {
			pod, err := h.informer.Core().V1().Pods().Lister().Pods("default").Get("web-0")
			return err == nil && pod.Status.NominatedNodeName != ""
		})
	})
	h.deployment("web", 2)
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) > 0 })
	if names := h.launcher.podNames(); len(names) != 1 || names["web-1"] == 0 {
		t.Errorf("launched for %v, want web-1 alone", names)
	}
	h.eventually("the pod that did not get there to be launched for", func() bool { return h.launcher.podNames()["web-0"] > 0 })
}

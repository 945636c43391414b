package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// setPools replaces the NodePools.
func (l *testLauncher) setPools(pools ...*api.NodePool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools = pools
	l.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{NodePools: pools} })
}

// Pods that are created together with their NodePool do not warn that it is not ready yet, unless it stays so.
func TestPodsThatComeWithTheirNodePool(t *testing.T) {
	t.Parallel()
	unready := func(name, why string) *api.NodePool {
		p := pool(name)
		p.Ready, p.NotReadyMessage = false, why
		return p
	}
	for name, becomesReady := range map[string]bool{"it becomes ready": true, "it stays so": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{prepare: func(l *testLauncher) { l.pools[0].Ready = false }})
			h.launcher.setPools(unready("default", "it was edited"), unready("late", "it starts"))
			// What this pod says shows that the scheduler has received both.
			h.pod("first", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "default"} })
			h.eventually("the NodePools", func() bool { return h.warned("it was edited") })
			planned := h.metric("slipway_planned_pods_total", "unplaced")
			h.pod("web", nil)
			h.eventually("a plan", func() bool { return h.metric("slipway_planned_pods_total", "unplaced") > planned })
			if !becomesReady {
				h.eventually("a Warning", func() bool { return h.warned("it starts") })
				return
			}
			h.launcher.setPools(unready("default", "it was edited"), pool("late"))
			h.eventually("a launch", func() bool { return h.launcher.podNames()["web"] == 1 })
			if h.warned("it starts") || strings.Contains(h.message("web"), "it starts") {
				t.Error("the pod has a Warning of a NodePool that was being created")
			}
		})
	}
}

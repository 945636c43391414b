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

// startsUnready returns a harness with a pod "web" that was planned while its only NodePool was being created.
func startsUnready(t *testing.T) *harness {
	t.Helper()
	h := start(t, harnessOptions{prepare: func(l *testLauncher) { l.pools[0].Ready = false }})
	h.launcher.setPools(unready("default", "it was edited"), unready("late", "it starts"))
	// What this pod says shows that the scheduler has received both.
	h.pod("first", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "default"} })
	h.eventually("the NodePools", func() bool { return h.says("first", "it was edited") })
	planned := h.metric("slipway_planned_pods_total", "unplaced")
	h.pod("web", nil)
	h.eventually("a plan", func() bool { return h.metric("slipway_planned_pods_total", "unplaced") > planned })
	return h
}

func unready(name, why string) *api.NodePool {
	p := pool(name)
	p.Ready, p.NotReadyMessage = false, why
	return p
}

// Pods that are created together with their NodePool do not warn that it is not ready yet. It runs alone, so that ten seconds are enough.
func TestPodsThatComeWithTheirNodePool(t *testing.T) {
	h := startsUnready(t)
	h.launcher.setPools(unready("default", "it was edited"), pool("late"))
	h.eventually("a launch", func() bool { return h.launcher.podNames()["web"] == 1 })
	if h.warned("it starts") || strings.Contains(h.message("web"), "it starts") {
		t.Error("the pod has a Warning of a NodePool that was being created")
	}
}

// They do where it stays so.
func TestPodsOfANodePoolThatStaysUnready(t *testing.T) {
	t.Parallel()
	h := startsUnready(t)
	h.eventually("a Warning", func() bool { return h.warned("it starts") })
}

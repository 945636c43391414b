package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// A limit in USD per hour has room for two nodes of 0.0982 USD. The pods that wait say so with the figures, the NodePool's status has what is used, no
// instance more is launched, and a higher limit launches another one. So does the end of a window with a lower limit.
func TestLimitInUSDAlone(t *testing.T) {
	const name = "usd"
	w := newWorld(t, name)
	w.pool(name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Spec.Limits = karpv1.Limits{catalog.LimitUSD: resource.MustParse("0.29")}
	})
	for i := range 4 {
		w.deployment(fmt.Sprintf("web-%d", i), 1, w.podSpec("1", "1Gi", nil))
	}
	w.awaitRunning(2)
	const want = "limit slipway.dev/usd-per-hour of 0.29 reached: 0.196384 in use, the smallest node that fits, m6i.large, adds 0.098192"
	w.await(t, "a pod that says why it waits", func() bool {
		return slices.ContainsFunc(w.events("FailedScheduling"), func(e corev1.Event) bool { return strings.Contains(e.Message, want) })
	})
	used := func() int64 {
		pool := &karpv1.NodePool{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, pool); err != nil {
			t.Fatal(err)
		}
		return catalog.MicroUSDOf(pool.Status.Resources[catalog.LimitUSD])
	}
	w.await(t, "the NodePool's status to have what two nodes cost", func() bool { return used() == 196_384 })
	launched := func() int {
		n := 0
		for _, i := range shared.AWS().Instances() {
			if i.Tags[karpv1.NodePoolLabelKey] == name {
				n++
			}
		}
		return n
	}
	if n := launched(); n != 2 {
		t.Errorf("%d instances were launched, want 2", n)
	}
	w.change(func(p *karpv1.NodePool) { p.Spec.Limits[catalog.LimitUSD] = resource.MustParse("0.3") })
	w.awaitRunning(3)
	w.await(t, "the NodePool's status to have what three nodes cost", func() bool { return used() == 294_576 })
	if n := launched(); n != 3 {
		t.Errorf("%d instances were launched, want 3", n)
	}
	// A window that is always open has a lower limit than the spec. Without it the last pod runs.
	w.change(func(p *karpv1.NodePool) {
		p.Annotations["slipway.dev/windows"] = `[{schedule: "0 * * * *", duration: 2h, limits: {slipway.dev/usd-per-hour: "0.31"}}]`
		p.Spec.Limits[catalog.LimitUSD] = resource.MustParse("1")
	})
	const reached = "limit slipway.dev/usd-per-hour of 0.31 reached: 0.294576 in use, the smallest node, m6i.large, adds 0.098192"
	w.await(t, "the NodePool to say that the limit of its window is reached", func() bool {
		pool := &karpv1.NodePool{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, pool); err != nil {
			t.Fatal(err)
		}
		c := pool.StatusConditions().Get(nodepool.ConditionLimitReached)
		return c.IsTrue() && c.Message == reached
	})
	if n := launched(); n != 3 {
		t.Errorf("%d instances were launched while the window is open, want 3", n)
	}
	w.await(t, "an Event about the limit of the NodePool", func() bool { return len(w.eventsAbout(name, nodepool.ReasonLimitReached)) > 0 })
	w.change(func(p *karpv1.NodePool) { delete(p.Annotations, "slipway.dev/windows") })
	w.awaitRunning(4)
}

// A replacement counts against a limit in USD beside the node that it replaces: while there is no room for both the node stays, and says why. With room for both
// it is replaced, and the NodePool's status has what the smaller one costs.
func TestConsolidationKeepsALimitInUSD(t *testing.T) {
	t.Parallel()
	const name = "usd-consolidated"
	w := newWorld(t, name)
	w.shrinking(func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large", "m6i.xlarge")
		p.Spec.Limits = karpv1.Limits{catalog.LimitUSD: resource.MustParse("0.25")}
	})
	filler := w.deployment("filler", 1, w.podSpec("2500m", "1Gi", nil))
	// A node for web alone would leave no room in the limit for the node of filler.
	w.awaitRunning(1)
	w.deployment("web", 1, w.podSpec("300m", "1Gi", nil))
	w.awaitRunning(2)
	w.scale(filler, 0)
	const want = "limit slipway.dev/usd-per-hour of 0.25 reached: 0.194192 in use, the smallest node that fits, m6i.large, adds 0.098192"
	w.await(t, "the node to say why it stays", func() bool {
		return slices.ContainsFunc(w.toldOf("Unconsolidatable"), func(m string) bool { return strings.Contains(m, want) })
	})
	if n := len(w.everClaimed(name)); n != 1 {
		t.Errorf("%d nodes were bought while the limit has room for one", n)
	}
	w.change(func(p *karpv1.NodePool) { p.Spec.Limits[catalog.LimitUSD] = resource.MustParse("0.3") })
	w.await(t, "the smaller node to replace it, and to be what counts", func() bool {
		pool := &karpv1.NodePool{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, pool); err != nil {
			t.Fatal(err)
		}
		return w.running() == 1 && len(w.claimsOf(name)) == 1 && catalog.MicroUSDOf(pool.Status.Resources[catalog.LimitUSD]) == 98_192
	})
}

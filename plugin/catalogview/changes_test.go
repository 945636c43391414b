package catalogview

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

func smallCatalog(change func(*catalog.NodePool, *catalog.InstanceType)) catalog.State {
	pool := catalog.NodePool{Name: "p", NodeClass: "c", Ready: true, Limits: cpus("10"), Usage: cpus("4")}
	it := catalog.InstanceType{Name: "t", Allocatable: cpus("4"), Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "spot", Price: 1, Available: true}, {Zone: "b", CapacityType: "spot", Price: 1},
	}}
	if change != nil {
		change(&pool, &it)
	}
	return catalog.State{
		NodePools:     map[string]catalog.NodePool{pool.Name: pool},
		InstanceTypes: map[string][]catalog.InstanceType{"c": {it}},
	}
}

// Pods without hope are not planned again for changes that give them none.
func TestMayHelp(t *testing.T) {
	type pool = catalog.NodePool
	type kind = catalog.InstanceType
	for _, tc := range []struct {
		name   string
		change func(*pool, *kind)
		want   bool
	}{
		{"nothing", nil, false},
		{"a price", func(_ *pool, it *kind) { it.Offerings[0].Price = 0.5 }, false},
		{"an offering has no capacity any more", func(_ *pool, it *kind) { it.Offerings[0].Available = false }, false},
		{"an offering has capacity again", func(_ *pool, it *kind) { it.Offerings[1].Available = true }, true},
		{"an offering more", func(_ *pool, it *kind) {
			it.Offerings = append(it.Offerings, catalog.Offering{Zone: "c", CapacityType: "spot", Available: true})
		}, true},
		{"the type is larger", func(_ *pool, it *kind) { it.Allocatable = cpus("5") }, true},
		{"the type has a resource more", func(_ *pool, it *kind) {
			it.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse("1")}
		}, true},
		{"the type is smaller", func(_ *pool, it *kind) { it.Allocatable = cpus("3") }, false},
		{"the type's labels", func(_ *pool, it *kind) { it.Labels = map[string]string{"a": "b"} }, true},
		{"another type", func(_ *pool, it *kind) { it.Name = "u" }, true},
		{"another type without capacity", func(_ *pool, it *kind) { it.Name, it.Offerings[0].Available = "u", false }, false},
		{"the pool's usage rises", func(p *pool, _ *kind) { p.Usage = cpus("8") }, false},
		{"the pool's usage falls", func(p *pool, _ *kind) { p.Usage = cpus("2") }, true},
		{"the pool's usage ends", func(p *pool, _ *kind) { p.Usage = nil }, true},
		{"the pool's limit rises", func(p *pool, _ *kind) { p.Limits = cpus("20") }, true},
		{"the pool's limit goes", func(p *pool, _ *kind) { p.Limits = nil }, true},
		{"the pool's limit falls", func(p *pool, _ *kind) { p.Limits = cpus("5") }, false},
		{"the pool is not ready", func(p *pool, _ *kind) { p.Ready = false }, false},
		{"another pool", func(p *pool, _ *kind) { p.Name = "q" }, true},
		{"a taint", func(p *pool, _ *kind) { p.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} }, true},
		{"a requirement", func(p *pool, _ *kind) { p.Requirements = []catalog.Requirement{{Key: "a", Operator: "Exists"}} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := MayHelp(smallCatalog(nil), smallCatalog(tc.change)); got != tc.want {
				t.Errorf("may help: %v, want %v", got, tc.want)
			}
		})
	}
	unready := smallCatalog(func(p *pool, _ *kind) { p.Ready = false })
	if !MayHelp(unready, smallCatalog(nil)) {
		t.Error("a pool that becomes ready helps")
	}
	share := func(share float64) catalog.State {
		return smallCatalog(func(p *pool, _ *kind) { p.OnDemandShare = share })
	}
	if !MayHelp(share(0.2), share(0.1)) || MayHelp(share(0.1), share(0.2)) {
		t.Error("a lower on-demand share helps, and a higher one does not")
	}
}

// An edit is another spec, another readiness, a NodePool more or less; what is launched is none.
func TestEdited(t *testing.T) {
	state := func(pools ...catalog.NodePool) catalog.State {
		out := catalog.State{NodePools: map[string]catalog.NodePool{}}
		for _, p := range pools {
			out.NodePools[p.Name] = p
		}
		return out
	}
	pool := catalog.NodePool{Name: "a", Generation: 1, Ready: true}
	with := func(change func(*catalog.NodePool)) catalog.State {
		p := pool
		change(&p)
		return state(p)
	}
	for name, c := range map[string]struct {
		after catalog.State
		want  bool
	}{
		"nothing":   {state(pool), false},
		"usage":     {with(func(p *catalog.NodePool) { p.Usage = corev1.ResourceList{"nodes": resource.MustParse("1")} }), false},
		"spec":      {with(func(p *catalog.NodePool) { p.Generation = 2 }), true},
		"readiness": {with(func(p *catalog.NodePool) { p.Ready, p.NotReadyMessage = false, "why" }), true},
		"share":     {with(func(p *catalog.NodePool) { p.OnDemandShare = 0.2 }), true},
		"new":       {state(pool, catalog.NodePool{Name: "b"}), true},
		"gone":      {state(), true},
	} {
		if got := Edited(state(pool), c.after); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

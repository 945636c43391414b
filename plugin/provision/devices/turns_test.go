package devices_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// different are classes of one pod each, all with another claim, of which those of the first namespace come first.
func (o *objects) different(pods ...int) []plan.Class {
	var out []plan.Class
	for tenant, n := range pods {
		for i := range n {
			key := fmt.Sprintf("tenant-%d-%d", tenant, i)
			claim := o.claim(key, 1, "A")
			claim.Spec.Devices.Requests[0].Name = key
			c := asks(key, key, 1, true)
			c.Pod.Namespace = fmt.Sprint("tenant-", tenant)
			o.claims[c.Pod.Namespace+"/"+key] = claim
			out = append(out, c)
		}
	}
	return out
}

// served returns the keys of the classes that are planned for, and how many are postponed.
func served(classes []plan.Class) (keys map[string]bool, later int) {
	keys = map[string]bool{}
	for _, c := range classes {
		if c.Claims.Problem == nil {
			keys[c.Key] = true
		} else if c.Claims.Problem.Code == "PlanningCutShort" {
			later++
		}
	}
	return keys, later
}

// Very many different claims of one namespace are planned in turns, within some megabytes, and those of another namespace have a turn in each plan. Each claim
// has its turn, also if none of them gets a node.
func TestManyDifferentClaims(t *testing.T) {
	const many = 2000
	o := newObjects()
	p := o.planner(t, declared()[:1])
	classes := o.different(many, 1)
	had := map[string]bool{}
	for plans := 0; len(had) <= many; plans++ {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		out, err := p.Prepare(t.Context(), classes, market())
		if err != nil {
			t.Fatal(err)
		}
		keys, later := served(out.Classes)
		if !keys["tenant-1-0"] || later == 0 || !out.Postponed || plans > 100 {
			t.Fatalf("plan %d: %d classes are planned for, %d later; that of the other tenant: %t", plans, len(keys), later, keys["tenant-1-0"])
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if more := int64(after.HeapAlloc) - int64(before.HeapAlloc); len(out.Rejected) > 1<<14 || more > 32<<20 {
			t.Fatalf("plan %d: %d rejections, %d MiB", plans, len(out.Rejected), more>>20)
		}
		for key := range keys {
			had[key] = true
		}
	}
}

// Equal claims of very many classes are planned at once; a few different claims as well.
func TestClaimsPlannedAtOnce(t *testing.T) {
	o := newObjects()
	classes := o.different(20, 20)
	for i := range 1000 {
		classes = append(classes, asks(fmt.Sprint("same-", i), "same", 1, true))
		name := fmt.Sprint("same-", i)
		o.claims["default/"+name] = o.claim(name, 1, "A")
		classes[len(classes)-1].Pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	}
	for name, c := range map[string][]plan.Class{"different": classes[:40], "equal": classes[40:]} {
		out, err := o.planner(t, declared()[:1]).Prepare(t.Context(), c, market())
		if err != nil {
			t.Fatal(err)
		}
		if keys, later := served(out.Classes); len(keys) != len(c) || later > 0 || out.Postponed {
			t.Errorf("%s: %d of %d classes are planned for, %d later", name, len(keys), len(c), later)
		}
	}
}

// A plan for some of very many different claims is followed by one for the others, until each has had its turn. After that only a plan that launches nodes is:
// something has to change first.
func TestPostponed(t *testing.T) {
	for _, available := range []bool{true, false} {
		o := newObjects()
		templates := declared()[:1]
		templates[0].InstanceTypes = []string{"m7g.large"}
		p, err := provision.New(provision.Config{Verifier: verifytest.New(t), Devices: o.planner(t, templates)})
		if err != nil {
			t.Fatal(err)
		}
		cat := verifytest.Zones("z1")
		cat.InstanceTypes["default"][0].Offerings[0].Available = available
		classes := o.different(150)
		for n, postponed := range []bool{true, available} {
			r, err := p.Provision(t.Context(), provision.Request{Classes: classes, Cluster: clusterview.Source{
				Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil },
			}})
			if err != nil {
				t.Fatal(err)
			}
			if launches := len(r.Plan.Claims) > 0; launches != available || r.Postponed != postponed || len(r.Plan.Unplaced) == 0 {
				t.Errorf("with capacity %t, plan %d: %d claims, %d classes without a node, postponed %t", available, n+1, len(r.Plan.Claims), len(r.Plan.Unplaced), r.Postponed)
			}
		}
	}
}

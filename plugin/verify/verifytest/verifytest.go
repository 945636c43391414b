// Package verifytest makes what tests of the filters and of their callers use: a Verifier with the scheduler's default profile,
// classes of pods, plans, and a catalog with one instance type.
package verifytest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// TB is what New needs of a test or benchmark.
type TB interface {
	// Helper marks the caller as a helper.
	Helper()
	// Context returns a context that ends with the test.
	Context() context.Context
	// Cleanup calls f when the test has ended.
	Cleanup(f func())
	// Fatal fails the test.
	Fatal(args ...any)
}

// New returns a Verifier with the default profile and a cluster without objects; change adapts its configuration.
func New(tb TB, change ...func(*verify.Config)) *verify.Verifier {
	tb.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	cfg, err := latest.Default()
	if err != nil {
		tb.Fatal(err)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	config := verify.Config{Profiles: cfg.Profiles, Informers: factory, Client: client}
	for _, f := range change {
		f(&config)
	}
	v, err := verify.New(ctx, config)
	if err != nil {
		tb.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	tb.Cleanup(func() { cancel(); factory.Shutdown() })
	return v
}

// Class returns a class of n pods, named KEY-0 and so on.
func Class(key string, n int, pod *st.PodWrapper) plan.Class {
	p := pod.Name(key).UID(key).Namespace("default").SchedulerName("default-scheduler").Obj()
	c := plan.Class{Key: key, Pod: p}
	for i := range n {
		c.Pods = append(c.Pods, catalog.PodRef{Namespace: "default", Name: fmt.Sprintf("%s-%d", key, i), UID: fmt.Sprintf("%s-%d", key, i)})
	}
	return c
}

// Pod returns a pod of half a CPU with the label app.
func Pod(app string) *st.PodWrapper {
	return st.MakePod().Label("app", app).Req(map[corev1.ResourceName]string{"cpu": "500m", "memory": "512Mi"})
}

// Claim describes a node of a plan.
type Claim struct {
	// Name of the claim.
	Name string
	// Zone that is expected.
	Zone string
	// Pods are the numbers of pods of each class on the node. Each claim takes the pods that earlier claims left.
	Pods map[int]int
}

// PlanOf returns a plan of the claims.
func PlanOf(classes []plan.Class, claims ...Claim) plan.Plan {
	taken := map[int]int{}
	var out plan.Plan
	for _, c := range claims {
		pc := plan.Claim{
			Name: c.Name, NodePool: "default",
			Labels:      map[string]string{"karpenter.sh/nodepool": "default", catalog.LabelNodeClass: "default"},
			Expected:    plan.Offer{InstanceType: "m7g.large", Zone: c.Zone, CapacityType: "spot", Price: 0.03},
			Allocatable: Quantities("cpu", "2", "memory", "7Gi", "pods", "20", "ephemeral-storage", "10Gi"),
		}
		for index := range classes {
			if n := c.Pods[index]; n > 0 {
				pc.Members = append(pc.Members, plan.Member{Class: index, Pods: classes[index].Pods[taken[index] : taken[index]+n]})
				taken[index] += n
			}
		}
		out.Claims = append(out.Claims, pc)
	}
	return out
}

// Quantities returns a list of names and amounts as resources.
func Quantities(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// Zones returns a catalog with one type in the zones.
func Zones(names ...string) catalog.State {
	it := catalog.InstanceType{Name: "m7g.large", Allocatable: Quantities("cpu", "2", "memory", "7Gi", "pods", "20")}
	for _, z := range names {
		it.Offerings = append(it.Offerings, catalog.Offering{Zone: z, CapacityType: "spot", Price: 0.03, Available: true})
	}
	return catalog.State{
		NodePools:     map[string]catalog.NodePool{"default": {Name: "default", NodeClass: "default", Ready: true}},
		InstanceTypes: map[string][]catalog.InstanceType{"default": {it}},
	}
}

package day

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/expect"
)

// count counts the pods of Deployments where that is due.
func count(c *cluster) {
	if c.growth == nil || !c.growth.Due(c.clock()) {
		return
	}
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		one := *c.pods[name].object
		one.Spec.NodeName = c.pods[name].node
		pods = append(pods, &one)
	}
	c.growth.Observe(c.clock(), pods)
}

// expected returns what simulate.Options.Expected has; nil where no pods are expected.
func expected(c *cluster) func(catalog.PodRef) (string, int) {
	if c.growth == nil {
		return nil
	}
	return func(ref catalog.PodRef) (string, int) {
		w := expect.WorkloadOf(c.pods[ref.Name].object)
		return w.String(), c.growth.Of(w)
	}
}

// keepExpected finds the nodes with pods that have room for those that are expected, as the scheduler does before it decides.
func keepExpected(ctx context.Context, c *cluster) error {
	if c.growth == nil {
		return nil
	}
	room := map[string]*pod{}
	for _, e := range c.growth.All(expect.MostKept) {
		for i := range e.Pods {
			one := e.Like.DeepCopy()
			one.Name, one.Spec.NodeName = fmt.Sprintf("expected:%s-%d", e.Workload.Name, i+1), ""
			one.UID = types.UID(catalog.VirtualUIDPrefix + one.Name)
			room[one.Name] = &pod{object: one}
		}
	}
	if len(room) == 0 {
		return nil
	}
	on := podsOn(c)
	for name := range c.nodes {
		if len(on[name]) == 0 {
			c.avoid = append(c.avoid, name)
		}
	}
	c.room = room
	placed, err := c.plan(ctx, nil)
	c.avoid = nil
	if err != nil {
		return err
	}
	for _, at := range placed.Plan.Placements {
		for _, name := range names(at.Members) {
			room[strings.TrimPrefix(name, "default/")].node = at.Node
		}
	}
	maps.DeleteFunc(room, func(_ string, p *pod) bool { return p.node == "" })
	return nil
}

// expectedOn are the pods that are expected and have room on the node.
func expectedOn(c *cluster, node string) (out []*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(c.room)) {
		if p := c.room[name]; p.node == node {
			out = append(out, p.object)
		}
	}
	return out
}

package invariants_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// launchedFor adds NodeClaims that are gone, each of which was launched for a pod.
func launchedFor(e *invariants.Evidence, n int, uid func(int) string) {
	for i := range n {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("l-%d", i), Annotations: map[string]string{
			catalog.PodsAnnotation: `[{"uids":["` + uid(i) + `"]}]`,
		}}}
		e.Claims = append(e.Claims, observe.Claim{Object: c, Created: seen(), Launched: seen(), Terminating: seen(), Deleted: seen()})
	}
}

// An owner for which nodes are launched again and again is found, whether its pod stays or a new one comes for each node; not one
// whose pods ran.
func TestLaunchesOfOwners(t *testing.T) {
	owned := func(p *observe.Pod) { p.Object.OwnerReferences[0].Controller = new(true) }
	each := func(n int) string { return fmt.Sprintf("v-%d", n) }
	for _, c := range []struct {
		name, want string
		when       func(*invariants.Evidence)
	}{
		{"a pod that stays", "launches of Pod ns/web-1 exceed its pods by more than 5: 7 nodes for 1 pods", func(e *invariants.Evidence) {
			e.Pods[0].Object.OwnerReferences = nil
			launchedFor(e, 7, func(int) string { return "u-1" })
		}},
		{"a new pod for each node", "launches of ReplicaSet ns/web exceed its pods by more than 5: 7 nodes for 1 pods", func(e *invariants.Evidence) {
			launchedFor(e, 7, each)
			for n := range 7 {
				gone := refused("gone", types.UID(each(n)))
				gone.Running, gone.Failed = observe.Moment{}, seen()
				owned(&gone)
				e.Pods = append(e.Pods, gone)
			}
		}},
		{"a pod that ran on each node", "", func(e *invariants.Evidence) {
			launchedFor(e, 7, each)
			for n := range 7 {
				ran := pod("ran", types.UID(each(n)))
				ran.Deleted = seen()
				owned(&ran)
				e.Pods = append(e.Pods, ran)
			}
		}},
		{"a few", "", func(e *invariants.Evidence) { launchedFor(e, 6, func(int) string { return "u-1" }) }},
	} {
		e := good()
		owned(&e.Pods[0])
		c.when(e)
		var got []string
		for _, broken := range invariants.Always(*e) {
			if strings.Contains(broken, "launches of") {
				got = append(got, broken)
			}
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

package view_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// A NodeClaim that is initialized or terminates keeps its annotation, and promises nothing to pods without a node. Of several that promise one, the newest has
// it, in whatever order they are listed.
func TestWhichNodeClaimPromises(t *testing.T) {
	initialized := claim("default-i", "n1", karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized)
	ended := claim("default-e", "")
	ended.DeletionTimestamp = &metav1.Time{Time: created()}
	newer := claim("default-a", "")
	newer.CreationTimestamp = metav1.NewTime(created().Add(time.Minute))
	for name, c := range map[string]struct {
		claims []*karpv1.NodeClaim
		want   string
	}{
		"initialized":          {[]*karpv1.NodeClaim{initialized}, ""},
		"it terminates":        {[]*karpv1.NodeClaim{ended}, ""},
		"in flight":            {[]*karpv1.NodeClaim{initialized, claim("default-b", ""), ended}, "default-b"},
		"the newest":           {[]*karpv1.NodeClaim{newer, claim("default-b", ""), claim("default-c", "")}, "default-a"},
		"at once, by the name": {[]*karpv1.NodeClaim{claim("default-c", ""), claim("default-b", "")}, "default-c"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				slices.Reverse(c.claims)
				web := pod("web-1", "u1", "", corev1.PodPending)
				in := view.Objects{NodeClaims: c.claims, Pods: []*corev1.Pod{web}}
				got := ""
				if of := view.ClaimOf(web, in); of != nil {
					got = of.Name
				}
				if got != c.want {
					t.Errorf("explained with %q, want %q", got, c.want)
				}
				counts, _ := view.Pods(in)
				if want := min(len(c.want), 1); counts.Promised != want || counts.Pending != 1-want {
					t.Errorf("counted %+v, want %d promised", counts, want)
				}
				for _, of := range c.claims {
					if waits := len(view.PodsOf(in, view.NodeRow{NodeClaim: of.Name})) > 0; waits != (of.Name == c.want) {
						t.Errorf("the pod waits for %s: %t", of.Name, waits)
					}
				}
			}
		})
	}
}

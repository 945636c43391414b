package consolidate_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// TestLooksAreRareWhereTheyTakeLong checks that a cluster of thousands of nodes, in which a look takes long, costs a sixtieth of a core while it changes
// and a two hundredth while it does not, and that every node is looked at within minutes all the same.
func TestLooksAreRareWhereTheyTakeLong(t *testing.T) {
	for _, c := range []struct {
		took    time.Duration
		changes bool
		want    int
	}{{0, false, 31}, {300 * time.Millisecond, true, 17}, {300 * time.Millisecond, false, 6}, {10 * time.Second, false, 5}} {
		synctest.Test(t, func(t *testing.T) {
			w, looks := newWorld(t), 0
			w.api = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, ok := list.(*karpv1.NodeClaimList); ok {
						looks++
						time.Sleep(c.took)
						if c.changes {
							w.pod(fmt.Sprintf("late-%d", looks), "b")
						}
					}
					return api.List(ctx, list, opts...)
				},
			})
			w.run(5*time.Minute + 5*time.Second)
			if looks != c.want {
				t.Errorf("a look takes %s, the fleet changes %t: %d looks in five minutes, want %d", c.took, c.changes, looks, c.want)
			}
		})
	}
}

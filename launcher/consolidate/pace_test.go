package consolidate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// TestLooksAreRareWhereTheyTakeLong checks that a cluster of thousands of nodes, in which a look takes a second, costs a sixtieth of a core, and that every
// node is looked at within minutes all the same.
func TestLooksAreRareWhereTheyTakeLong(t *testing.T) {
	for took, want := range map[time.Duration]int{0: 31, 400 * time.Millisecond: 13, 10 * time.Second: 5} {
		synctest.Test(t, func(t *testing.T) {
			w, looks := newWorld(t), 0
			w.api = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, ok := list.(*karpv1.NodeClaimList); ok {
						looks++
						time.Sleep(took)
					}
					return c.List(ctx, list, opts...)
				},
			})
			w.run(5*time.Minute + 5*time.Second)
			if looks != want {
				t.Errorf("a look takes %s: %d looks in five minutes, want %d", took, looks, want)
			}
		})
	}
}

package roll_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// counted is the client of the Roller.
func (s *scene) counted() client.Client {
	return interceptor.NewClient(s.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*karpv1.NodePoolList); ok {
				s.passes++
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// Where nothing is to be replaced, thousands of NodeClaims are looked at every ten seconds; where something is, every two.
func TestPassesAreRareWhereThereIsNothingToReplace(t *testing.T) {
	for _, c := range []struct {
		cluster string
		want    int
	}{
		{"pool default nodes=0\n----\n\nnode a pool=default\n----\n", 6},
		{"pool default nodes=0\n----\n\nnode a pool=default drifted=1m\n----\n", 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			datadriven.RunTestFromString(t, c.cluster, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
			ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
			defer cancel()
			if err := s.subject.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if s.passes != c.want {
				t.Errorf("%d passes in a minute, want %d, of %s", s.passes, c.want, c.cluster)
			}
		})
	}
}

package roll_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// counted is the client of the Roller. Like a cache it lists in no order.
func (s *scene) counted() client.Client {
	shuffle := rand.New(rand.NewPCG(1, 2)).Shuffle
	return interceptor.NewClient(s.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			switch l := list.(type) {
			case *karpv1.NodePoolList:
				s.passes++
			case *corev1.PodList:
				shuffle(len(l.Items), func(i, j int) { l.Items[i], l.Items[j] = l.Items[j], l.Items[i] })
			case *policyv1.PodDisruptionBudgetList:
				shuffle(len(l.Items), func(i, j int) { l.Items[i], l.Items[j] = l.Items[j], l.Items[i] })
			}
			return err
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

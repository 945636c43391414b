package join

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// What was chosen for the pods of one namespace decides nothing for those of another that name the same set.
func TestChosenPerNamespace(t *testing.T) {
	b := fake.NewClientBuilder()
	index.Each(func(o client.Object, field string, value client.IndexerFunc) {
		if field == index.PodKept {
			b.WithIndex(o, field, value)
		}
	})
	costs := &deletionCosts{cache: b.Build(), recent: map[replicaSet]*chosen{}}
	for _, namespace := range []string{"tenant-1", "tenant-2"} {
		for i := range scalein.LastNodes + 1 {
			last, err := costs.last(t.Context(), replicaSet{namespace: namespace, uid: "web"}, fmt.Sprint("node-", i), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if want := i < scalein.LastNodes; last != want {
				t.Errorf("%s, node %d: kept for last: %t, want %t", namespace, i, last, want)
			}
		}
	}
}

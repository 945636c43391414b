package server_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

// BenchmarkCatalog builds the catalog of ten NodePools from 900 instance types in three zones, on-demand and spot, until the scheduler has
// read the first full state from the socket. The pools share one EC2NodeClass, or have ten.
func BenchmarkCatalog(b *testing.B) {
	types := market(b, 900, []string{"us-east-1a", "us-east-1b", "us-east-1c"})
	for _, classes := range []int{1, 10} {
		b.Run(fmt.Sprintf("900types/3zones/10pools/%dclasses", classes), func(b *testing.B) {
			var objects []client.Object
			for i := range 10 {
				both := ready(fmt.Sprintf("pool-%d", i), nil)
				if pool := both[0]; i >= classes {
					pool.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef.Name = fmt.Sprintf("pool-%d", i%classes)
					both = both[:1]
				}
				objects = append(objects, both...)
			}
			b.ReportAllocs()
			start, n := cputime.Used(), 0
			for ; b.Loop(); n++ {
				w := newWorldOver(b, func(c client.WithWatch) client.Client { return c }, types, objects...)
				size, sentState := 0, 0
				w.await(w.watch(w.client), "the types of every class", func(u *api.CatalogUpdate) bool {
					size += proto.Size(u)
					for _, c := range u.GetInstanceTypes() {
						if len(c.GetTypes()) == 900 {
							sentState++
						}
					}
					return sentState == classes
				})
				b.ReportMetric(float64(size)/1e6, "MB-sent")
			}
			b.ReportMetric(float64((cputime.Used()-start).Milliseconds())/float64(n), "cpu-ms/op")
		})
	}
}

// market is n types of the built-in catalogue, repeated under other names until there are enough.
func market(tb testing.TB, n int, zones []string) []catalog.InstanceType {
	tb.Helper()
	known, err := builtin.Types()
	if err != nil {
		tb.Fatal(err)
	}
	var out []catalog.InstanceType
	for i := range n {
		f := known[i%len(known)].Facts()
		if i >= len(known) {
			f.Name = fmt.Sprintf("x%d%s", i/len(known), f.Name)
		}
		it, err := catalog.New(f, catalog.NodeClass{AMIFamily: catalog.FamilyAL2023})
		if err != nil {
			tb.Fatal(err)
		}
		for _, zone := range zones {
			for _, ct := range []string{"on-demand", "spot"} {
				it.Offerings = append(it.Offerings, catalog.Offering{Zone: zone, ZoneID: "use1-" + zone[len(zone)-1:], CapacityType: ct, Price: 0.1, Available: true})
			}
		}
		out = append(out, it)
	}
	return out
}

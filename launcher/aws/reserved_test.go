package aws_test

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	awsfake "github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// A full reservation leaves another one in use, and a launch lowers what is left of its own.
func TestOneOfTwoReservationsIsFull(t *testing.T) {
	server := startAWS(t)
	c := newCloud(t, server)
	subnets := server.Resources().Subnets
	add := func(subnet, total int) string {
		return server.AddCapacityReservation(awsfake.CapacityReservation{
			InstanceType: "m5.large", Zone: subnets[subnet].Zone, Total: total, Tags: map[string]string{"team": "a"},
		})
	}
	small, large := add(0, 1), add(1, 10)
	of := class()
	of.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"team": "a"}}}
	status, err := c.Resolve(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	of.Status = status
	// offered returns the number of free instances of the reservations that are offered, and the options to launch into them.
	offered := func() (map[string]int64, []cloud.Option) {
		t.Helper()
		types, err := c.InstanceTypes(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		left, options := map[string]int64{}, []cloud.Option{}
		for _, it := range types {
			for _, o := range it.Offerings {
				if o.ReservationID == "" || !o.Available {
					continue
				}
				left[o.ReservationID] = o.Remaining
				options = append(options, cloud.Option{
					InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, MaxPods: it.Allocatable.Pods().Value(),
					Reservation: cloud.Reservation{ID: o.ReservationID, Type: o.ReservationType},
				})
			}
		}
		return left, options
	}
	before, options := offered()
	if diff := cmp.Diff(map[string]int64{small: 1, large: 10}, before); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	launch := func(id string, n int, options []cloud.Option) int {
		t.Helper()
		in := cloud.LaunchInput{LaunchID: id, Class: of, Options: options, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}
		for range n {
			in.Claims = append(in.Claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: in.Labels}})
		}
		out, err := c.Launch(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return len(out.InstanceIDs)
	}
	got := launch("launch-1", 3, options) + launch("launch-2", 2, options)
	after, _ := offered()
	if _, ok := after[small]; ok || after[large] != int64(10-got+1) {
		t.Errorf("after %d instances: %v", got, after)
	}
}

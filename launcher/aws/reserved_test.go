package aws_test

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	awsfake "github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// reserving is a class that selects the capacity reservations of team a.
type reserving struct {
	t      *testing.T
	server *awsfake.Server
	cloud  *aws.Cloud
	class  *awsv1.EC2NodeClass
}

func newReserving(t *testing.T) *reserving {
	t.Helper()
	server := startAWS(t)
	return &reserving{t: t, server: server, cloud: newCloud(t, server), class: class()}
}

// add reserves capacity in the zone of a subnet.
func (r *reserving) add(subnet, total int) string {
	return r.server.AddCapacityReservation(awsfake.CapacityReservation{
		InstanceType: "m5.large", Zone: r.server.Resources().Subnets[subnet].Zone, Total: total, Tags: map[string]string{"team": "a"},
	})
}

func (r *reserving) resolve() {
	r.t.Helper()
	r.class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"team": "a"}}}
	status, err := r.cloud.Resolve(r.t.Context(), r.class)
	if err != nil {
		r.t.Fatal(err)
	}
	r.class.Status = status
}

// offered returns the number of free instances of the reservations that are offered, and the options to launch into them.
func (r *reserving) offered() (map[string]int64, []cloud.Option) {
	r.t.Helper()
	types, err := r.cloud.InstanceTypes(r.t.Context(), r.class)
	if err != nil {
		r.t.Fatal(err)
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

func (r *reserving) launch(id string, n int, options []cloud.Option) cloud.LaunchOutput {
	r.t.Helper()
	in := cloud.LaunchInput{LaunchID: id, Class: r.class, Options: options, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}
	for range n {
		in.Claims = append(in.Claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: in.Labels}})
	}
	out, err := r.cloud.Launch(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// A full reservation leaves another one in use, and a launch lowers what is left of its own.
func TestOneOfTwoReservationsIsFull(t *testing.T) {
	r := newReserving(t)
	small, large := r.add(0, 1), r.add(1, 10)
	r.resolve()
	before, options := r.offered()
	if diff := cmp.Diff(map[string]int64{small: 1, large: 10}, before); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	got := len(r.launch("launch-1", 3, options).InstanceIDs) + len(r.launch("launch-2", 2, options).InstanceIDs)
	after, _ := r.offered()
	if _, ok := after[small]; ok || after[large] != int64(10-got+1) {
		t.Errorf("after %d instances: %v", got, after)
	}
}

// Five NodeClaims are planned into two reservations of one instance type and zone. EC2 refuses a fleet with both: one call fills the larger one, and
// the next the other. No call requests more than its reservation has free, so that none of them fails.
func TestTwoReservationsOfOnePool(t *testing.T) {
	r := newReserving(t)
	small, large := r.add(0, 2), r.add(0, 3)
	r.resolve()
	before, options := r.offered()
	if diff := cmp.Diff(map[string]int64{small: 2, large: 3}, before); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	first := r.launch("launch-1", 5, options)
	second := r.launch("launch-2", 5-len(first.InstanceIDs), options)
	if len(first.InstanceIDs) != 3 || len(second.InstanceIDs) != 2 || len(first.Failures)+len(second.Failures) > 0 {
		t.Errorf("launched %d and %d instances with the failures %+v and %+v", len(first.InstanceIDs), len(second.InstanceIDs), first.Failures, second.Failures)
	}
	if after, _ := r.offered(); len(after) > 0 {
		t.Errorf("still offered: %v", after)
	}
}

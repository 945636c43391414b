package buffersize_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
)

// booking is how far a buffer is by its status.
func booking(t *testing.T, cb *autoscalingv1beta1.CapacityBuffer) buffersize.Booking {
	t.Helper()
	b, err := buffersize.BookingOf(cb)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A change of the spec asks again: the time that the room is kept for begins anew, even where all pods have room at once.
func TestBookedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, there := buffersize.Resolution{Replicas: 3}, &buffersize.Places{Existing: 3}
		cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		buffersize.SetBooking(cb, booking(t, cb), r, there, time.Now())
		first := booking(t, cb)
		if !first.Provisioned() {
			t.Fatal("not provisioned")
		}
		time.Sleep(time.Hour)
		buffersize.SetBooking(cb, first, r, nil, time.Now())
		if !meta.IsStatusConditionTrue(cb.Status.Conditions, buffersize.ConditionBookingExpired) {
			t.Fatal("not expired")
		}

		cb.Generation, r.Replicas, there.Existing = 2, 4, 4
		buffersize.SetBooking(cb, booking(t, cb), r, there, time.Now())
		second := booking(t, cb)
		if !second.Provisioned() || second.Expired(time.Now()) || second.Since.Sub(first.Since) != time.Hour {
			t.Errorf("booked again since %s until %s, first since %s", second.Since, second.Until, first.Since)
		}
		if meta.FindStatusCondition(cb.Status.Conditions, buffersize.ConditionBookingExpired) != nil {
			t.Errorf("conditions %v", conditions(cb))
		}
	})
}

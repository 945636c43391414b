package aws

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func reservationXML(id, zone string, free string, more ...string) string {
	return "<item><capacityReservationId>" + id + "</capacityReservationId><ownerId>123456789012</ownerId><instanceType>m7g.large</instanceType>" +
		"<availabilityZone>" + zone + "</availabilityZone><instanceMatchCriteria>targeted</instanceMatchCriteria>" +
		"<availableInstanceCount>" + free + "</availableInstanceCount>" + strings.Join(more, "") + "</item>"
}

func reservationsXML(items ...string) answer {
	return ok("<DescribeCapacityReservationsResponse><capacityReservationSet>" + strings.Join(items, "") +
		"</capacityReservationSet></DescribeCapacityReservationsResponse>")
}

// reservedOf are the reserved offerings of m7g.large.
func reservedOf(t *testing.T, c *Cloud, class *awsv1.EC2NodeClass) []catalog.Offering {
	t.Helper()
	types, err := c.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	var out []catalog.Offering
	for _, it := range types {
		for _, o := range it.Offerings {
			if o.CapacityType == "reserved" {
				out = append(out, o)
			}
		}
	}
	return out
}

// Reservations that the class selects are offered with EC2's count of free instances less the launches since.
func TestReservedOfferings(t *testing.T) {
	w, c, class := newAccount(t)
	class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{
		{Tags: map[string]string{"team": "a", "any": "*"}, OwnerID: "123456789012", InstanceMatchCriteria: "targeted"}, {ID: "cr-2"},
	}
	w.handle("DescribeCapacityReservations", func(v url.Values) answer {
		if v.Get("CapacityReservationId.1") == "cr-2" {
			return reservationsXML(reservationXML("cr-2", "us-east-1b", "3"), reservationXML("cr-block", "us-east-1b", "3", "<reservationType>capacity-block</reservationType>"),
				reservationXML("cr-ending", "us-east-1b", "3", "<reservationType>capacity-block</reservationType><endDate>"+time.Now().Add(catalog.BlockDrains).UTC().Format(time.RFC3339)+"</endDate>"),
				reservationXML("cr-lent", "us-east-1b", "3", "<interruptible>true</interruptible>"))
		}
		return reservationsXML(reservationXML("cr-1", "us-east-1a", "1"), reservationXML("cr-elsewhere", "us-east-1f", "1"),
			reservationXML("cr-over", "us-east-1a", "1", "<endDate>2020-01-01T00:00:00Z</endDate>"))
	})
	status, err := c.Resolve(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	class.Status = status
	filters := map[string]string{}
	first := w.made("DescribeCapacityReservations")[0]
	for key, v := range first {
		if n, found := strings.CutSuffix(key, ".Name"); found {
			filters[v[0]] = first.Get(n + ".Value.1")
		}
	}
	want := map[string]string{
		"tag-key": "any", "tag:team": "a", "state": "active", "owner-id": "123456789012", "instance-match-criteria": "targeted",
	}
	if diff := cmp.Diff(want, filters); diff != "" {
		t.Errorf("filters of the first term (-want +got):\n%s", diff)
	}
	ready := class.StatusConditions().Get(awsv1.ConditionTypeCapacityReservationsReady)
	if len(status.CapacityReservations) != 6 || !ready.IsTrue() {
		t.Errorf("resolved %+v, condition %+v", status.CapacityReservations, ready)
	}
	offer := func(id, zone string, left int64) catalog.Offering {
		return catalog.Offering{
			Zone: "us-east-1" + zone, ZoneID: "use1-" + zone, CapacityType: "reserved", Price: 0.08*reservedShare + 0.002192,
			ReservationID: id, ReservationType: "default", Remaining: left, Available: left > 0,
		}
	}
	check := func(what string, want ...catalog.Offering) {
		t.Helper()
		if diff := cmp.Diff(want, reservedOf(t, c, class), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	block, ending, lent := offer("cr-block", "b", 3), offer("cr-ending", "b", 3), offer("cr-lent", "b", 3)
	block.ReservationType, ending.ReservationType, ending.Available, lent.Interruptible = "capacity-block", "capacity-block", false, true
	const rank = 0.08 * reservedShare * 1e-3
	block.Price, ending.Price, lent.Price = block.Price+rank, ending.Price+rank, lent.Price+2*rank
	check("as EC2 states", offer("cr-1", "a", 1), offer("cr-2", "b", 3), block, ending, lent)
	c.reserved.take("cr-1", 2)
	c.changed.fire()
	check("one is used up", offer("cr-1", "a", 0), offer("cr-2", "b", 3), block, ending, lent)
	c.seen.note([]cloud.Instance{{ID: "i-lent", CapacityType: "reserved", ReservationID: "cr-lent"}}, time.Now())
	c.markInterrupted([]cloud.Message{{Kind: cloud.CapacityReservation, InstanceIDs: []string{"i-lent", "i-other"}}})
	lent.Available, lent.Remaining = false, 0
	check("an owner takes its capacity back", offer("cr-1", "a", 0), offer("cr-2", "b", 3), block, ending, lent)
	o := cloud.Option{
		InstanceType: "m7g.large", Zone: "us-east-1b", CapacityType: "reserved", Reservation: cloud.Reservation{ID: "cr-2", Type: "default"},
	}
	c.remember([]fleetFailure{{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: ec2error.ReservationCapacityExceeded, Cause: cloud.CauseCapacity}}})
	if got := reservedOf(t, c, class); got[1].Available || got[1].UnavailableUntil.IsZero() {
		t.Errorf("after EC2 said that it is full: %+v", got[1])
	}
	class.Status.CapacityReservations = nil
	check("none is selected any more")
}

// Without an answer the class can still launch: reservations only lower the price.
func TestReservationsAreOptional(t *testing.T) {
	for name, tc := range map[string]struct {
		answer answer
		status string
		reason string
	}{
		"none selected":  {reservationsXML(), "True", "CapacityReservationsNotFound"},
		"unknown id":     {refuse(http.StatusBadRequest, "InvalidCapacityReservationId.NotFound", "cr-1"), "True", "CapacityReservationsNotFound"},
		"not allowed":    {refuse(http.StatusForbidden, "UnauthorizedOperation", "DescribeCapacityReservations"), "False", "Unauthorized"},
		"no such API":    {answer{http.StatusInternalServerError, "<!doctype html>\n<html lang=en>Internal Server Error"}, "True", "NotOffered"},
		"not in service": {refuse(http.StatusServiceUnavailable, "Unavailable", "later"), "Unknown", "NotAnswered"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, class := newAccount(t)
			class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
			w.on("DescribeCapacityReservations", tc.answer)
			status, err := c.Resolve(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			class.Status = status
			got := class.StatusConditions().Get(awsv1.ConditionTypeCapacityReservationsReady)
			if string(got.Status) != tc.status || got.Reason != tc.reason {
				t.Errorf("%+v, want %s because of %s", got, tc.status, tc.reason)
			}
			if root := class.StatusConditions().Root(); !root.IsTrue() {
				t.Errorf("Ready: %+v", root)
			}
		})
	}
}

func TestReservationOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	whole := func(change func(*ec2types.CapacityReservation)) ec2types.CapacityReservation {
		r := ec2types.CapacityReservation{
			CapacityReservationId: new("cr-1"), InstanceType: new("p5.48xlarge"), AvailabilityZone: new("us-east-1a"), OwnerId: new("1"),
			InstanceMatchCriteria: "targeted", ReservationType: "capacity-block", EndDate: new(now.Add(time.Hour)),
		}
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		change func(*ec2types.CapacityReservation)
		ok     bool
		state  awsv1.CapacityReservationState
	}{
		"a block":         {func(*ec2types.CapacityReservation) {}, true, "active"},
		"a block's end":   {func(r *ec2types.CapacityReservation) { r.EndDate = new(now.Add(30 * time.Minute)) }, true, "expiring"},
		"40 minutes":      {func(r *ec2types.CapacityReservation) { r.EndDate = new(now.Add(40 * time.Minute)) }, true, "expiring"},
		"over":            {func(r *ec2types.CapacityReservation) { r.EndDate = new(now) }, false, ""},
		"without a type":  {func(r *ec2types.CapacityReservation) { r.InstanceType = nil }, false, ""},
		"of another kind": {func(r *ec2types.CapacityReservation) { r.InstanceMatchCriteria = "later" }, false, ""},
		"nothing":         {func(r *ec2types.CapacityReservation) { *r = ec2types.CapacityReservation{} }, false, ""},
	} {
		got, ok := reservationOf(whole(tc.change), now)
		if ok != tc.ok || ok && got.State != tc.state {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	got, _ := reservationOf(whole(func(r *ec2types.CapacityReservation) { r.Interruptible = new(true) }), now)
	want := awsv1.CapacityReservation{
		ID: "cr-1", InstanceType: "p5.48xlarge", AvailabilityZone: "us-east-1a", OwnerID: "1", InstanceMatchCriteria: "targeted",
		ReservationType: awsv1.CapacityReservationTypeCapacityBlock, Interruptible: true, EndTime: &metav1.Time{Time: now.Add(time.Hour)},
		State: awsv1.CapacityReservationStateActive,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a reservation (-want +got):\n%s", diff)
	}
}

// A block's end is EC2's, also while EC2 does not answer; reservations of other types have none.
func TestBlockEnd(t *testing.T) {
	w, c, _ := newAccount(t)
	end := time.Date(2026, 3, 1, 11, 30, 0, 0, time.UTC)
	const ends = "<endDate>2026-03-01T11:30:00Z</endDate>"
	w.handle("DescribeCapacityReservations", func(v url.Values) answer {
		switch v.Get("CapacityReservationId.1") {
		case "cr-block":
			return reservationsXML(reservationXML("cr-block", "us-east-1b", "3", ends, "<reservationType>capacity-block</reservationType>"))
		case "cr-1":
			return reservationsXML(reservationXML("cr-1", "us-east-1b", "3", ends))
		}
		return refuse(http.StatusBadRequest, "InvalidCapacityReservationId.NotFound", "unknown")
	})
	check := func(id string, want time.Time) {
		t.Helper()
		if got, err := c.BlockEnd(t.Context(), id); err != nil || !got.Equal(want) {
			t.Errorf("%s ends at %s, %v; want %s", id, got, err, want)
		}
	}
	check("cr-block", end)
	check("cr-1", time.Time{})
	check("cr-gone", time.Time{})
	w.on("DescribeCapacityReservations", refuse(http.StatusForbidden, "UnauthorizedOperation", "no"))
	c.blocks.period = 0
	c.blocks.put("cr-block", end, 0)
	check("cr-block", end)
	if _, err := c.BlockEnd(t.Context(), "cr-new"); err == nil || !strings.Contains(err.Error(), "capacity reservation cr-new") {
		t.Errorf("a block that EC2 never described: %v", err)
	}
}

// When a block closes, its offering is announced as unavailable without another answer of EC2.
func TestBlockCloseIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cloud{changed: newSignal()}
		c.without = newUnavailable(time.Minute, c.changed)
		end := metav1.NewTime(time.Now().Add(catalog.BlockCloses + time.Hour))
		c.reserved.set(map[string]int64{"cr-1": 1})
		c.reserved.closeAt("cr-1", end.Add(-catalog.BlockCloses))
		ctx, stop := context.WithCancel(t.Context())
		go c.expire(ctx)
		synctest.Wait()
		begun := time.Now()
		<-c.changed.wait()
		if waited := time.Since(begun); waited != time.Hour {
			t.Errorf("announced after %s, want 1h", waited)
		}
		of := offerInput{
			facts: catalog.Facts{Name: "m7g.large"}, onDemand: 1, now: time.Now(), zones: map[string]offerZone{"us-east-1a": {}}, left: c.reserved.of,
			refused: func(string, string) mark { return mark{} }, full: func(string) mark { return mark{} },
			reservations: []awsv1.CapacityReservation{{
				ID: "cr-1", InstanceType: "m7g.large", AvailabilityZone: "us-east-1a", EndTime: &end, State: awsv1.CapacityReservationStateActive,
				ReservationType: awsv1.CapacityReservationTypeCapacityBlock,
			}},
		}
		if got := of.offerReserved(); len(got) != 1 || got[0].Available {
			t.Errorf("offered %+v", got)
		}
		of.now = of.now.Add(-time.Second)
		if got := of.offerReserved(); len(got) != 1 || !got[0].Available {
			t.Errorf("a second before: offered %+v", got)
		}
		stop()
	})
}

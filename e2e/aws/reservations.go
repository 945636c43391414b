package aws

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// CapacityReservation is capacity that is paid for whether it is used or not.
type CapacityReservation struct {
	// ID is such as cr-0123456789abcdef0; AddCapacityReservation sets it.
	ID string
	// InstanceType and Zone are those of the capacity.
	InstanceType, Zone string
	// Total is the number of instances.
	Total int
	// Open is true where any matching instance uses it. Otherwise instances must name the reservation.
	Open bool
	// Type is default or capacity-block; the default is default.
	Type string
	// Ends is when the reservation ends; zero means never.
	Ends time.Time
	// Tags are its tags.
	Tags map[string]string
}

// reservations holds the capacity reservations and the instances in each.
type reservations struct {
	mu   sync.Mutex
	all  []CapacityReservation
	used map[string]map[string]bool
}

func newReservations() *reservations { return &reservations{used: map[string]map[string]bool{}} }

// AddCapacityReservation reserves capacity and returns the reservation's id.
func (s *Server) AddCapacityReservation(c CapacityReservation) string {
	c.ID, c.Type = s.dice.id("cr"), cmp.Or(c.Type, "default")
	s.reservations.mu.Lock()
	defer s.reservations.mu.Unlock()
	s.reservations.all = append(s.reservations.all, c)
	s.reservations.used[c.ID] = map[string]bool{}
	return c.ID
}

// CancelCapacityReservation cancels the reservation. Instances in it keep running.
func (s *Server) CancelCapacityReservation(id string) {
	s.reservations.mu.Lock()
	defer s.reservations.mu.Unlock()
	s.reservations.all = slices.DeleteFunc(s.reservations.all, func(c CapacityReservation) bool { return c.ID == id })
}

func (r *reservations) list(now time.Time) []CapacityReservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(c CapacityReservation) bool { return !c.Ends.IsZero() && c.Ends.Before(now) })
}

// free returns how many more instances of the type the reservation has capacity for. It fails where there is no reservation
// of that id, type and zone.
func (r *reservations) free(id, instanceType, zone string) (int, *wire.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(c CapacityReservation) bool { return c.ID == id })
	switch {
	case i < 0:
		return 0, wire.Errorf("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist", id)
	case r.all[i].InstanceType != instanceType, r.all[i].Zone != zone:
		return 0, wire.Errorf("InvalidParameterCombination", "The capacity reservation '%s' is for %s in %s", id, r.all[i].InstanceType, r.all[i].Zone)
	}
	return r.all[i].Total - len(r.used[id]), nil
}

// use records that an instance runs in a reservation. It returns false if the reservation is full.
func (r *reservations) use(id, instance string) bool {
	if id == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(c CapacityReservation) bool { return c.ID == id })
	if i < 0 || len(r.used[id]) >= r.all[i].Total {
		return false
	}
	r.used[id][instance] = true
	return true
}

// reservationWantXML is the reservation that an instance requested.
type reservationWantXML struct {
	Preference string `xml:"capacityReservationPreference"`
	ID         string `xml:"capacityReservationTarget>capacityReservationId"`
}

// of returns the reservation in which an instance runs, empty once it has ended, and the one that the instance requested;
// nil for none.
func (r *reservations) of(instance, wanted string) (string, *reservationWantXML) {
	if wanted == "" {
		return "", nil
	}
	in := ""
	if slices.ContainsFunc(r.list(time.Now()), func(c CapacityReservation) bool { return c.ID == wanted }) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.used[wanted][instance] {
			in = wanted
		}
	}
	return in, &reservationWantXML{Preference: "capacity-reservations-only", ID: wanted}
}

// leave frees what an instance used.
func (r *reservations) leave(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, used := range r.used {
		delete(used, instance)
	}
}

func (r *reservations) available(c CapacityReservation) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, c.Total-len(r.used[c.ID]))
}

func errReservationFull(id string) *wire.Error {
	return wire.Errorf("ReservationCapacityExceeded", "The requested Capacity Reservation '%s' does not have sufficient compatible and available capacity for this request.", id)
}

type reservedXML struct {
	ID        string           `xml:"capacityReservationId"`
	ARN       string           `xml:"capacityReservationArn"`
	OwnerID   string           `xml:"ownerId"`
	Type      string           `xml:"instanceType"`
	Platform  string           `xml:"instancePlatform"`
	Zone      string           `xml:"availabilityZone"`
	Tenancy   string           `xml:"tenancy"`
	Total     int              `xml:"totalInstanceCount"`
	Available int              `xml:"availableInstanceCount"`
	State     string           `xml:"state"`
	EndDate   string           `xml:"endDate,omitempty"`
	EndType   string           `xml:"endDateType"`
	Match     string           `xml:"instanceMatchCriteria"`
	Kind      string           `xml:"reservationType"`
	Tags      wire.Set[tagXML] `xml:"tagSet"`
}

func (s *Server) describeCapacityReservations(_ context.Context, r request) (any, error) {
	page, next, err := listOf[CapacityReservation]{
		items: s.reservations.list(time.Now()), key: func(c CapacityReservation) string { return c.ID }, idParam: "CapacityReservationId",
		notFound: func(id string) error {
			return wire.Errorf("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist.", id)
		},
		attributes: func(c CapacityReservation) wire.Attribute {
			return wire.Tagged(c.Tags, fixed(map[string]string{
				"instance-type": c.InstanceType, "availability-zone": c.Zone, "owner-id": s.cfg.AccountID, "state": "active",
				"instance-match-criteria": match(c), "tenancy": "default", "instance-platform": "Linux/UNIX",
				"available-instance-count": strconv.Itoa(s.reservations.available(c)), "reservation-type": c.Type,
			}))
		},
		pages: wire.Pages{Min: 1, Max: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[reservedXML] `xml:"capacityReservationSet"`
		Next string                `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, c := range page {
		x := reservedXML{
			ID: c.ID, ARN: s.ec2ARN("capacity-reservation", c.ID), OwnerID: s.cfg.AccountID, Type: c.InstanceType, Platform: "Linux/UNIX",
			Zone: c.Zone, Tenancy: "default", Total: c.Total, Available: s.reservations.available(c), State: "active", EndType: "unlimited",
			Match: match(c), Kind: c.Type, Tags: tagSet(c.Tags),
		}
		if !c.Ends.IsZero() {
			x.EndDate, x.EndType = wire.Timestamp(c.Ends), "limited"
		}
		out.Set.Items = append(out.Set.Items, x)
	}
	return out, nil
}

func match(c CapacityReservation) string {
	if c.Open {
		return "open"
	}
	return "targeted"
}

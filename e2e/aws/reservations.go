package aws

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
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
	// Open is true where any matching instance uses it that does not ask for none. Otherwise instances must name the reservation.
	Open bool
	// Type is default or capacity-block; the default is default.
	Type string
	// Interruptible means that its owner lends it and may reclaim the instances in it: Server.Interrupt.
	Interruptible bool
	// Starts is when instances can be launched into it; zero means at once.
	Starts time.Time
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
	if c.market() == marketBlock && !c.Ends.IsZero() {
		s.agenda.add(c.Ends.Add(-blockTerminates), func() {
			for _, m := range s.instances.list(func(m *machine) bool { return m.reserved == c.ID && m.Live() }) {
				s.end(m.ID, stateReason{"Server.CapacityBlockExpired", "Server.CapacityBlockExpired: the Capacity Block ends"})
			}
		})
	}
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
	return slices.DeleteFunc(slices.Clone(r.all), func(c CapacityReservation) bool { return c.over(now) })
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
func (r *reservations) of(instance, wanted string) (in string, want *reservationWantXML) {
	if wanted != "" {
		want = &reservationWantXML{Preference: "capacity-reservations-only", ID: wanted}
	}
	current := r.list(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range current {
		if r.used[c.ID][instance] {
			in = c.ID
		}
	}
	return in, want
}

// useOpen runs an on-demand instance in an open reservation with room, as EC2 does unless the launch asks for none (EC2 user guide, "Capacity
// Reservation launch preferences").
func (r *reservations) useOpen(l launch, instance string, now time.Time) {
	if !l.open || l.capacityType != OnDemand {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(c CapacityReservation) bool {
		return c.Open && c.InstanceType == l.info.Name && c.Zone == l.subnet.Zone && c.market() == "" && c.state(now) == "active" && !c.over(now) && len(r.used[c.ID]) < c.Total
	})
	if i >= 0 {
		r.used[r.all[i].ID][instance] = true
	}
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
	StartDate string           `xml:"startDate,omitempty"`
	EndDate   string           `xml:"endDate,omitempty"`
	EndType   string           `xml:"endDateType"`
	Match     string           `xml:"instanceMatchCriteria"`
	Kind      string           `xml:"reservationType"`
	Lent      bool             `xml:"interruptible"`
	Tags      wire.Set[tagXML] `xml:"tagSet"`
}

func (s *Server) describeCapacityReservations(_ context.Context, r request) (any, error) {
	now := time.Now()
	page, next, err := listOf[CapacityReservation]{
		items: s.reservations.list(now), key: func(c CapacityReservation) string { return c.ID }, idParam: "CapacityReservationId",
		notFound: func(id string) error {
			return wire.Errorf("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist.", id)
		},
		attributes: func(c CapacityReservation) wire.Attribute {
			return wire.Tagged(c.Tags, fixed(map[string]string{
				"instance-type": c.InstanceType, "availability-zone": c.Zone, "owner-id": s.cfg.AccountID, "state": c.state(now),
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
			Zone: c.Zone, Tenancy: "default", Total: c.Total, Available: s.reservations.available(c), State: c.state(now), EndType: "unlimited",
			Match: match(c), Kind: c.Type, Lent: c.Interruptible, Tags: tagSet(c.Tags),
		}
		if !c.Starts.IsZero() {
			x.StartDate = wire.Timestamp(c.Starts)
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

// The market types of reserved capacity, which are the lifecycles of its instances as well. Other reservations have none.
const (
	marketBlock         = "capacity-block"
	marketInterruptible = "interruptible-capacity-reservation"
)

// blockTerminates is how long before the end of a Capacity Block EC2 begins to terminate its instances (EC2 user guide, "Capacity Blocks for
// ML").
const blockTerminates = 30 * time.Minute

// market returns the market type that a launch into the reservation must request; empty for none.
func (c CapacityReservation) market() string {
	switch {
	case c.Interruptible:
		return marketInterruptible
	case c.Type == marketBlock:
		return marketBlock
	}
	return ""
}

// state returns EC2's name of the reservation's state.
func (c CapacityReservation) state(now time.Time) string {
	if now.Before(c.Starts) {
		return "scheduled"
	}
	return "active"
}

// reservedFor reads the capacity reservation that a launch targets, and its market.
func (r *reservations) read(data wire.Params, info instancetypes.Type, zone string) (id, market string, err *wire.Error) {
	id = data.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId")
	switch market = data.Get("InstanceMarketOptions.MarketType"); {
	case market == Spot:
		market = ""
	case !slices.Contains([]string{"", marketBlock, marketInterruptible}, market):
		return id, market, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter InstanceMarketOptions.MarketType is invalid.", market)
	}
	switch {
	case id != "":
		return id, market, r.admits(id, market, [2]string{info.Name, zone}, time.Now())
	case market != "":
		return id, market, wire.Errorf("InvalidParameterCombination", "The market type '%s' requires a target Capacity Reservation.", market)
	}
	return id, market, nil
}

// admits returns why an instance cannot be launched into a reservation: there is none of that ID, type, zone and market, it is full, or it is
// not active.
func (r *reservations) admits(id, market string, pool [2]string, now time.Time) *wire.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(c CapacityReservation) bool { return c.ID == id && !c.over(now) })
	if i < 0 {
		return wire.Errorf("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist", id)
	}
	c := r.all[i]
	terminates := c.market() == marketBlock && !c.Ends.IsZero() && !now.Before(c.Ends.Add(-blockTerminates))
	switch {
	case pool != [2]string{c.InstanceType, c.Zone}:
		return wire.Errorf("InvalidParameterCombination", "The capacity reservation '%s' is for %s in %s", id, c.InstanceType, c.Zone)
	case c.market() != market:
		return wire.Errorf("InvalidParameterCombination", "The capacity reservation '%s' cannot be used with the market type '%s'.", id, market)
	case c.state(now) != "active" || terminates:
		return wire.Errorf("InsufficientInstanceCapacity", "The capacity reservation '%s' is not active.", id)
	case len(r.used[id]) >= c.Total:
		return errReservationFull(id)
	}
	return nil
}

// over reports whether the reservation has ended.
func (c CapacityReservation) over(now time.Time) bool { return !c.Ends.IsZero() && c.Ends.Before(now) }

package aws

import (
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// capacityType is what EC2 has of its own for one capacity type: all of it is in this file. A new capacity type is a row here and one in
// launcher/catalog/capacitytype.go.
type capacityType struct {
	// name is the value of the label karpenter.sh/capacity-type.
	name string
	// offers returns the offerings of an instance type, with their prices.
	offers func(of offerInput) []catalog.Offering
	// target sets what the fleet buys and in which order EC2 tries its pools.
	target func(fleet *ec2.CreateFleetInput, of cloud.Reservation, prioritized bool) ec2types.DefaultTargetCapacityType
	// tags are the resources with tags of their own; nil for none.
	tags []ec2types.ResourceType
	// runs reports whether EC2 runs the instance as this type, and in which capacity reservation.
	runs func(i ec2types.Instance) (reservationID string, ok bool)
}

// capacityTypes returns the capacity types. An instance is of the first one that it runs as. The order in which they are bought is that of
// catalog.CapacityTypes.
func capacityTypes() [3]capacityType {
	return [...]capacityType{
		{
			name: karpv1.CapacityTypeReserved, offers: offerInput.offerReserved, target: reservedTarget, runs: runsReserved,
		},
		{
			name: karpv1.CapacityTypeSpot, offers: offerInput.offerSpot, target: spotTarget, runs: runsSpot,
			tags: []ec2types.ResourceType{ec2types.ResourceTypeSpotInstancesRequest},
		},
		{
			name: karpv1.CapacityTypeOnDemand, offers: offerInput.offerOnDemand, target: onDemandTarget,
			runs: func(ec2types.Instance) (string, bool) { return "", true },
		},
	}
}

// capacityTypeOf returns the capacity type with that name. A name that is not known is bought as on-demand.
func capacityTypeOf(name string) capacityType {
	all := capacityTypes()
	for _, t := range all {
		if t.name == name {
			return t
		}
	}
	return all[len(all)-1]
}

// offerInput is what the offerings of an instance type depend on.
type offerInput struct {
	facts catalog.Facts
	// onDemand is the price in USD per hour, 0 if it is not known. spot has the prices by zone.
	onDemand float64
	spot     map[string]float64
	// zones are those of the class.
	zones map[string]offerZone
	// reservations are the class's that instances are launched into.
	reservations []awsv1.CapacityReservation
	// refused returns the refusal that keeps an offering of the instance type from being tried, full that of a reservation; zero for none.
	refused func(capacityType, zone string) mark
	full    func(reservationID string) mark
	// left returns the number of free instances of a reservation.
	left func(reservationID string) int64
	now  time.Time
}

// offerZone is a zone in which a class has subnets.
type offerZone struct {
	id string
	// exhausted is the refusal of the subnet that may first have free addresses again; zero if one may have some now.
	exhausted mark
}

// zonal returns an offering for each zone of the class where EC2 offers the instance type as this capacity type. An offering whose price is not
// known has the price 0 and is not available.
func (of offerInput) zonal(capacityType string, price func(zone string) (float64, bool)) []catalog.Offering {
	if !slices.Contains(of.facts.CapacityTypes, capacityType) {
		return nil
	}
	out := make([]catalog.Offering, 0, min(len(of.facts.Zones), len(of.zones)))
	for _, zone := range of.facts.Zones {
		in, reachable := of.zones[zone]
		if !reachable {
			continue
		}
		usd, ok := price(zone)
		if !ok {
			out = append(out, catalog.Offering{Zone: zone, ZoneID: in.id, CapacityType: capacityType})
			continue
		}
		m := longest(of.refused(capacityType, zone), in.exhausted)
		out = append(out, catalog.Offering{
			Zone: zone, ZoneID: in.id, CapacityType: capacityType, Price: usd, Available: m.until.IsZero(),
			UnavailableUntil: m.until, Refusal: m.Refusal,
		})
	}
	return out
}

// unpriced reports whether the price of an offering is not known. A capacity reservation is paid for already: its price is known, even if it is 0.
func unpriced(o catalog.Offering) bool { return o.Price == 0 && o.ReservationID == "" }

// On-demand: offered in every zone of the instance type at the region's price. Every instance that is nothing else is on-demand.

func (of offerInput) offerOnDemand() []catalog.Offering {
	return of.zonal(karpv1.CapacityTypeOnDemand, func(string) (float64, bool) { return of.onDemand, of.onDemand > 0 })
}

func onDemandTarget(fleet *ec2.CreateFleetInput, _ cloud.Reservation, prioritized bool) ec2types.DefaultTargetCapacityType {
	fleet.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
	if prioritized {
		fleet.OnDemandOptions.AllocationStrategy = ec2types.FleetOnDemandAllocationStrategyPrioritized
	}
	return ec2types.DefaultTargetCapacityTypeOnDemand
}

// Spot: offered at the zone's price.

func (of offerInput) offerSpot() []catalog.Offering {
	return of.zonal(karpv1.CapacityTypeSpot, func(zone string) (float64, bool) {
		usd, ok := of.spot[zone]
		return believable(usd, of.onDemand), ok
	})
}

// believable returns the spot price, or a tenth of the on-demand price if the spot price is below a twentieth of it. EC2's discount is at
// most 90% (EC2 pricing page, "Amazon EC2 Spot"). A stand-in for EC2 that returns one tiny price for all types would otherwise make the
// launcher buy the largest ones.
func believable(spot, onDemand float64) float64 {
	if spot < onDemand/20 {
		return onDemand / 10
	}
	return spot
}

func spotTarget(fleet *ec2.CreateFleetInput, _ cloud.Reservation, prioritized bool) ec2types.DefaultTargetCapacityType {
	fleet.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
	if prioritized {
		fleet.SpotOptions.AllocationStrategy = ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized
	}
	return ec2types.DefaultTargetCapacityTypeSpot
}

func runsSpot(i ec2types.Instance) (string, bool) {
	return "", i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot
}

// Reserved: the class's capacity reservations, which launcher/aws/reservations.go finds. Each is an offering of its own.

// reservedShare is the ratio of a reserved price to the on-demand price. Reserved capacity is already paid for, but of two types the cheaper
// one remains the better choice.
const reservedShare = 1e-7

// closed reports whether nothing is launched into a reservation any more because its end is near.
func closed(r awsv1.CapacityReservation, now time.Time) bool {
	return r.State == awsv1.CapacityReservationStateExpiring ||
		r.ReservationType == awsv1.CapacityReservationTypeCapacityBlock && r.EndTime != nil && !now.Before(r.EndTime.Add(-catalog.BlockCloses))
}

// reservedPrice orders reservations by size and then by kind, so that the planner takes those first that a launch takes first.
func (of offerInput) reservedPrice(r awsv1.CapacityReservation) float64 {
	const kind = 1e-3
	return of.onDemand * reservedShare * (1 + kind*float64(catalog.ReservationRank(string(r.ReservationType), r.Interruptible)))
}

func (of offerInput) offerReserved() []catalog.Offering {
	var out []catalog.Offering
	for _, r := range of.reservations {
		in, reachable := of.zones[r.AvailabilityZone]
		if r.InstanceType != of.facts.Name || !reachable || r.EndTime != nil && !of.now.Before(r.EndTime.Time) {
			continue
		}
		m := longest(of.refused(karpv1.CapacityTypeReserved, r.AvailabilityZone), in.exhausted, of.full(r.ID))
		left := of.left(r.ID)
		out = append(out, catalog.Offering{
			Zone: r.AvailabilityZone, ZoneID: in.id, CapacityType: karpv1.CapacityTypeReserved,
			Price: of.reservedPrice(r), ReservationID: r.ID, ReservationType: string(r.ReservationType), Interruptible: r.Interruptible,
			Remaining: left, Available: m.until.IsZero() && left > 0 && !closed(r, of.now), UnavailableUntil: m.until, Refusal: m.Refusal,
		})
	}
	return out
}

func reservedTarget(fleet *ec2.CreateFleetInput, of cloud.Reservation, prioritized bool) ec2types.DefaultTargetCapacityType {
	switch {
	case of.Type == string(awsv1.CapacityReservationTypeCapacityBlock):
		return ec2types.DefaultTargetCapacityTypeCapacityBlock
	case of.Interruptible:
		fleet.ReservedCapacityOptions = &ec2types.ReservedCapacityOptionsRequest{
			ReservationTypes: []ec2types.FleetReservationType{ec2types.FleetReservationTypeInterruptibleCapacityReservation},
		}
		return ec2types.DefaultTargetCapacityTypeReservedCapacity
	}
	// The launch template names the reservation: to CreateFleet it is on-demand.
	return onDemandTarget(fleet, of, prioritized)
}

// runsReserved reports whether the launch targeted a reservation and the instance still runs in it. An instance that EC2 put into an open
// reservation was launched as on-demand, and one whose reservation has ended is on-demand too.
func runsReserved(i ec2types.Instance) (string, bool) {
	id, r := awssdk.ToString(i.CapacityReservationId), i.CapacityReservationSpecification
	targeted := r != nil && (r.CapacityReservationPreference == ec2types.CapacityReservationPreferenceCapacityReservationsOnly ||
		r.CapacityReservationTarget != nil && awssdk.ToString(r.CapacityReservationTarget.CapacityReservationId) != "")
	return id, id != "" && targeted
}

// reservationKind returns the kind of the capacity reservation that an instance runs in, which EC2 calls its lifecycle.
func reservationKind(i ec2types.Instance, reservationID string) (kind string, interruptible bool) {
	switch {
	case reservationID == "":
		return "", false
	case i.InstanceLifecycle == ec2types.InstanceLifecycleTypeCapacityBlock:
		return string(awsv1.CapacityReservationTypeCapacityBlock), false
	}
	return string(awsv1.CapacityReservationTypeDefault), i.InstanceLifecycle == ec2types.InstanceLifecycleTypeInterruptibleCapacityReservation
}

// setReservation makes a launch into a capacity reservation use that one only. It keeps all other launches out of reservations, which are someone's
// for another purpose or counted, unless open leaves it to EC2 whether they run in open ones.
func setReservation(data *ec2types.RequestLaunchTemplateData, r cloud.Reservation, open bool) {
	switch {
	case r.ID != "":
		data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
			CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: awssdk.String(r.ID)},
		}
		data.InstanceMarketOptions = marketOf(r)
	case !open:
		data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone,
		}
	}
}

func marketOf(r cloud.Reservation) *ec2types.LaunchTemplateInstanceMarketOptionsRequest {
	switch {
	case r.Type == string(awsv1.CapacityReservationTypeCapacityBlock):
		return &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeCapacityBlock}
	case r.Interruptible:
		return &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeInterruptibleCapacityReservation}
	}
	return nil
}

package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// remainingInstances keeps the number of free instances of each capacity reservation: EC2's last answer less the launches since.
type remainingInstances struct {
	mu sync.Mutex
	by map[string]int64
	// closes are when launches into Capacity Blocks end, by ID, of those that are open.
	closes map[string]time.Time
}

// closeAt stores when launches into a Capacity Block end.
func (r *remainingInstances) closeAt(id string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closes == nil {
		r.closes = map[string]time.Time{}
	}
	r.closes[id] = at
}

// closed drops the blocks that are closed by now, and reports whether there are any. next is when the first of the others closes; zero for none.
func (r *remainingInstances) closed(now time.Time) (next time.Time, any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.closes {
		switch {
		case !now.Before(at):
			delete(r.closes, id)
			any = true
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return next, any
}

func (r *remainingInstances) of(id string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[id]
}

// take subtracts n instances that were launched into a reservation.
func (r *remainingInstances) take(id string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.by[id]; ok {
		r.by[id] = max(have-n, 0)
	}
}

// reclaimed records that the owner takes an instance of the reservation back: it has none for others until EC2 counts again.
func (r *remainingInstances) reclaimed(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.by[id]; ok {
		r.by[id] = 0
	}
}

// set stores EC2's counts and reports whether any differs.
func (r *remainingInstances) set(counts map[string]int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int64{}
	}
	changed := false
	for id, n := range counts {
		if have, ok := r.by[id]; !ok || have != n {
			r.by[id], changed = n, true
		}
	}
	return changed
}

// onePerPool returns the options with one capacity reservation of each instance type and zone: the one with the most free instances, as far as they
// are known. EC2 refuses a fleet with two, also where they have launch templates of their own (InvalidFleetConfig, "The fleet configuration contains
// duplicate instance pools"). Once the reservation is full, the next call uses another one.
func (r *remainingInstances) onePerPool(options []cloud.Option) []cloud.Option {
	best := map[poolKey]string{}
	for _, o := range options {
		if id, seen := best[poolOf(o)]; !seen || r.of(o.Reservation.ID) > r.of(id) {
			best[poolOf(o)] = o.Reservation.ID
		}
	}
	return slices.DeleteFunc(slices.Clone(options), func(o cloud.Option) bool { return best[poolOf(o)] != o.Reservation.ID })
}

// most returns how many of n instances one call requests: the options' capacity reservations may have fewer free instances than there are NodeClaims,
// which the plan distributed over several reservations of one instance type and zone. The next call requests the rest. It returns n for options
// without reservations, and where no free instance is known.
func (r *remainingInstances) most(options []cloud.Option, n int) int {
	free := int64(0)
	for _, o := range options {
		if o.Reservation.ID == "" {
			return n
		}
		free += r.of(o.Reservation.ID)
	}
	if free == 0 {
		return n
	}
	return int(min(int64(n), free))
}

// reservationsFound is the result of a class's selector terms, sorted by ID.
type reservationsFound struct {
	list []awsv1.CapacityReservation
	// absent means that the endpoint does not implement capacity reservations.
	absent bool
}

// selectReservations returns the active capacity reservations that any of the terms selects.
func (c *Cloud) selectReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) (reservationsFound, error) {
	if len(terms) == 0 {
		return reservationsFound{}, nil
	}
	return c.reservations.get(ctx, cacheKey(terms), func(ctx context.Context) (reservationsFound, error) {
		found, counts := map[string]awsv1.CapacityReservation{}, map[string]int64{}
		for i, term := range terms {
			list, err := describeReservations(ctx, c.ec2, term)
			if isNotImplemented(err) {
				return reservationsFound{absent: true}, nil
			}
			if err != nil {
				return reservationsFound{}, fmt.Errorf("spec.capacityReservationSelectorTerms[%d]: %w", i, err)
			}
			for _, r := range list {
				if one, ok := reservationOf(r, time.Now()); ok {
					found[one.ID], counts[one.ID] = one, int64(awssdk.ToInt32(r.AvailableInstanceCount))
					if one.ReservationType == awsv1.CapacityReservationTypeCapacityBlock && one.EndTime != nil && one.State == awsv1.CapacityReservationStateActive {
						c.reserved.closeAt(one.ID, one.EndTime.Add(-catalog.BlockCloses))
					}
				}
			}
		}
		if c.reserved.set(counts) {
			c.changed.fire()
		}
		return reservationsFound{
			list: sorted(found, func(a, b awsv1.CapacityReservation) int { return strings.Compare(a.ID, b.ID) }),
		}, nil
	})
}

// describeReservations asks for the active reservations of one term. An ID that does not exist selects none.
func describeReservations(ctx context.Context, client *ec2.Client, term awsv1.CapacityReservationSelectorTerm) ([]ec2types.CapacityReservation, error) {
	in := &ec2.DescribeCapacityReservationsInput{
		Filters: append(tagFilters(term.Tags), filter("state", string(ec2types.CapacityReservationStateActive))),
	}
	if term.ID != "" {
		in.CapacityReservationIds = []string{term.ID}
	}
	if term.OwnerID != "" {
		in.Filters = append(in.Filters, filter("owner-id", term.OwnerID))
	}
	if term.InstanceMatchCriteria != "" {
		in.Filters = append(in.Filters, filter("instance-match-criteria", term.InstanceMatchCriteria))
	}
	var out []ec2types.CapacityReservation
	pages := ec2.NewDescribeCapacityReservationsPaginator(client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if isUnknownReservation(err) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("describing capacity reservations: %w", err)
		}
		out = append(out, page.CapacityReservations...)
	}
	return out, nil
}

// reservationOf converts EC2's description of a reservation. ok is false if the reservation is over or has no instance type, zone or type.
func reservationOf(r ec2types.CapacityReservation, now time.Time) (awsv1.CapacityReservation, bool) {
	out := awsv1.CapacityReservation{
		ID: awssdk.ToString(r.CapacityReservationId), InstanceType: awssdk.ToString(r.InstanceType),
		AvailabilityZone: awssdk.ToString(r.AvailabilityZone), OwnerID: awssdk.ToString(r.OwnerId),
		InstanceMatchCriteria: string(r.InstanceMatchCriteria), Interruptible: awssdk.ToBool(r.Interruptible),
		ReservationType: awsv1.CapacityReservationType(r.ReservationType), State: awsv1.CapacityReservationStateActive,
	}
	if out.ReservationType == "" {
		out.ReservationType = awsv1.CapacityReservationTypeDefault
	}
	if r.EndDate != nil {
		out.EndTime = &metav1.Time{Time: *r.EndDate}
		if !now.Before(*r.EndDate) {
			return out, false
		}
		if out.ReservationType == awsv1.CapacityReservationTypeCapacityBlock && !now.Before(r.EndDate.Add(-catalog.BlockDrains)) {
			out.State = awsv1.CapacityReservationStateExpiring
		}
	}
	known := slices.Contains(awsv1.CapacityReservationType("").Values(), out.ReservationType) &&
		slices.Contains(ec2types.InstanceMatchCriteria("").Values(), r.InstanceMatchCriteria)
	return out, known && out.ID != "" && out.InstanceType != "" && out.AvailabilityZone != ""
}

// BlockEnd implements cloud.Cloud. While EC2 does not answer, it is the end that EC2 stated last.
func (c *Cloud) BlockEnd(ctx context.Context, reservationID string) (time.Time, error) {
	end, err := c.blocks.get(ctx, reservationID, func(ctx context.Context) (time.Time, error) {
		list, err := describeReservations(ctx, c.ec2, awsv1.CapacityReservationSelectorTerm{ID: reservationID})
		if err != nil {
			return time.Time{}, fmt.Errorf("capacity reservation %s: %w", reservationID, err)
		}
		for _, r := range list {
			if r.ReservationType == ec2types.CapacityReservationTypeCapacityBlock {
				return awssdk.ToTime(r.EndDate), nil
			}
		}
		return time.Time{}, nil
	})
	if last := c.blocks.latest(reservationID); err != nil && !last.IsZero() {
		return last, nil
	}
	return end, err
}

// resolveReservations lists the class's reservations. The class can launch without them, so Ready does not depend on them.
func (c *Cloud) resolveReservations(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	const kind = awsv1.ConditionTypeCapacityReservationsReady
	found, err := c.selectReservations(ctx, class.Spec.CapacityReservationSelectorTerms)
	switch {
	case err != nil && isTransient(err):
		// The last known reservations stay, and the class can still launch.
		conditions.SetUnknownWithReason(kind, "NotAnswered", err.Error())
		return ctx.Err()
	case err != nil:
		return conditionOf(conditions, kind, err)
	case found.absent:
		class.Status.CapacityReservations = nil
		conditions.SetTrueWithReason(kind, "NotOffered", "this EC2 endpoint has no capacity reservations: none is used")
		return nil
	}
	class.Status.CapacityReservations = found.list
	switch {
	case len(found.list) == 0 && len(class.Spec.CapacityReservationSelectorTerms) > 0:
		conditions.SetTrueWithReason(kind, "CapacityReservationsNotFound",
			"spec.capacityReservationSelectorTerms selects no active capacity reservation: none is used")
	default:
		conditions.SetTrue(kind)
	}
	return nil
}

// placements looks up placement groups.
type placements struct {
	ec2   *ec2.Client
	known *cached[catalog.PlacementGroup]
}

// of returns the available placement group that the class's selector names. It is zero without a selector, and if EC2 has no such
// group.
func (p placements) of(ctx context.Context, class *awsv1.EC2NodeClass) (catalog.PlacementGroup, error) {
	selector := class.Spec.PlacementGroupSelector
	if selector == nil {
		return catalog.PlacementGroup{}, nil
	}
	return p.known.get(ctx, cacheKey(selector), func(ctx context.Context) (catalog.PlacementGroup, error) {
		in := &ec2.DescribePlacementGroupsInput{Filters: []ec2types.Filter{filter("state", string(ec2types.PlacementGroupStateAvailable))}}
		switch id, name := awssdk.ToString(selector.ID), awssdk.ToString(selector.Name); {
		case id != "":
			in.GroupIds = []string{id}
		case name != "":
			in.GroupNames = []string{name}
		default:
			return catalog.PlacementGroup{}, nil
		}
		out, err := p.ec2.DescribePlacementGroups(ctx, in)
		// "InvalidPlacementGroup.Unknown: The Placement Group 'x' is unknown."
		if strings.HasPrefix(string(code(err)), "InvalidPlacementGroup") {
			return catalog.PlacementGroup{}, nil
		}
		if err != nil {
			return catalog.PlacementGroup{}, fmt.Errorf("spec.placementGroupSelector: describing placement groups: %w", err)
		}
		for _, g := range out.PlacementGroups {
			return catalog.PlacementGroup{
				ID: awssdk.ToString(g.GroupId), Strategy: string(g.Strategy), Partitions: int64(awssdk.ToInt32(g.PartitionCount)),
			}, nil
		}
		return catalog.PlacementGroup{}, nil
	})
}

// noGroup says which placement group EC2 does not have.
func noGroup(selector *awsv1.PlacementGroupSelector) string {
	if id := awssdk.ToString(selector.ID); id != "" {
		return fmt.Sprintf("spec.placementGroupSelector.id: EC2 has no available placement group %s", id)
	}
	return fmt.Sprintf("spec.placementGroupSelector.name: EC2 has no available placement group %q", awssdk.ToString(selector.Name))
}

// resolve sets the condition. The class's status has no field for the group: it is looked up again for each launch.
func (p placements) resolve(ctx context.Context, class *awsv1.EC2NodeClass, conditions status.ConditionSet) error {
	const kind = awsv1.ConditionTypePlacementGroupReady
	group, err := p.of(ctx, class)
	switch {
	case err != nil:
		return conditionOf(conditions, kind, err)
	case class.Spec.PlacementGroupSelector != nil && group.ID == "":
		conditions.SetFalse(kind, "PlacementGroupNotFound", noGroup(class.Spec.PlacementGroupSelector))
	default:
		conditions.SetTrue(kind)
	}
	return nil
}

// spreadLimit is in EC2's error when a spread placement group has its seven instances in a zone: "InsufficientInstanceCapacity: You've reached
// the limit of instances in this spread placement group. A spread placement group can have up to seven instances per Availability Zone".
const spreadLimit = "limit of instances in this spread placement group"

// inGroup returns the name under which failures of a zone are remembered for launches into a placement group: they say nothing about launches
// outside of it.
func inGroup(zone, group string) string {
	if group == "" {
		return zone
	}
	return zone + "@" + group
}

// fullKey stands for all offerings of a zone in a spread placement group.
func fullKey(zone, group string) offeringKey {
	return offeringKey{instanceType: "spread/" + group, zone: zone}
}

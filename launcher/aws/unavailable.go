package aws

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// offeringKey names one offering or several: an empty field matches all. The instance type may be a kind of instances (see kindOf) or a
// quota (see quotaKey). Without a capacity type it is the ID of a capacity reservation.
type offeringKey struct{ capacityType, instanceType, zone string }

// subnetKey is what a subnet lacks: free addresses, which every class needs, or free blocks of them, which the classes with prefixes need beside.
type subnetKey struct {
	id     string
	blocks bool
}

// unavailable records for a period which offerings EC2 refused, to all classes or to one, and which subnets had no free address
// or no free block of them.
type unavailable struct {
	period   time.Duration
	changed  *signal
	refusals *refusals

	mu        sync.Mutex
	offerings map[offeringKey]mark
	subnets   map[subnetKey]mark
	stockOuts stockOuts
}

func newUnavailable(period time.Duration, changed *signal) *unavailable {
	return &unavailable{
		period: period, changed: changed, refusals: newRefusals(),
		offerings: map[offeringKey]mark{}, subnets: map[subnetKey]mark{}, stockOuts: stockOuts{},
	}
}

// keyFor returns the offerings that an error of one offering concerns: the spot role and the limit of requests the account's spot
// offerings, a spot limit those of its quota, a vCPU limit the type in every zone (a smaller one may still fit), a full reservation that
// reservation, and every other error the offering alone.
func keyFor(code ec2error.Code, o cloud.Option) offeringKey {
	if code == ec2error.MaxSpotFleetRequestCountExceeded || code == ec2error.SpotServiceLinkedRole {
		return offeringKey{capacityType: o.CapacityType}
	}
	if code == ec2error.MaxSpotInstanceCountExceeded || code == ec2error.SpotInstanceCountExceeded {
		return offeringKey{capacityType: o.CapacityType, instanceType: quotaKey(o.InstanceType)}
	}
	if code == ec2error.VcpuLimitExceeded || code == ec2error.InstanceLimitExceeded {
		return offeringKey{capacityType: o.CapacityType, instanceType: o.InstanceType}
	}
	if o.Reservation.ID != "" {
		return reservationKey(o.Reservation.ID)
	}
	return offeringKey{capacityType: o.CapacityType, instanceType: o.InstanceType, zone: inGroup(o.Zone, o.PlacementGroup)}
}

// quotaKey stands for all instance types of the spot quota that a type counts against.
func quotaKey(instanceType string) string {
	return "quota/" + ec2error.QuotaOf(instanceType, ec2error.MaxSpotInstanceCountExceeded).Code
}

// keysOf returns the keys of the marks that concern an offering.
func keysOf(o offeringKey) []offeringKey {
	return []offeringKey{
		o,
		{capacityType: o.capacityType, instanceType: o.instanceType},
		{capacityType: o.capacityType, instanceType: kindOf(o.instanceType), zone: o.zone},
		{capacityType: o.capacityType, instanceType: quotaKey(o.instanceType)},
		{capacityType: o.capacityType},
	}
}

// remember records the failures and returns them with their refusals so far. It fires the signal once if any concerns offerings.
func (u *unavailable) remember(failures []fleetFailure, now time.Time) []fleetFailure {
	out := slices.Clone(failures)
	u.mu.Lock()
	until, marked := now.Add(u.period), false
	for i, f := range failures {
		var m mark
		switch {
		case f.byName():
			m = u.refusals.note(f.class, f.concerns(), func(m mark) mark { return m.again(f.Reason, f.text, until, now) })
		case f.Reason.OfVolumes() && f.class != classID{}:
			o := f.Option
			m = u.refusals.lacks(f.class, typeKey{o.CapacityType, o.InstanceType, o.Zone}, func(m mark) mark { return m.again(f.Reason, f.text, until, now) })
		case !f.Reason.OfOffering(), f.Reason.OfVolumes(): // The class of the volumes is not known.
			continue
		case f.Reason.IsAddress() && f.subnet != "":
			key := subnetKey{f.subnet, f.Reason == ec2error.InsufficientCidrBlocks}
			m = u.subnets[key].again(f.Reason, f.text, until, now)
			u.subnets[key] = m
		default:
			key := keyFor(f.Reason, f.Option)
			if f.Option.PlacementGroup != "" && strings.Contains(f.text, spreadLimit) {
				key = fullKey(f.Option.Zone, f.Option.PlacementGroup)
			}
			m = u.offerings[key].again(f.Reason, f.text, until, now)
			u.offerings[key] = m
		}
		marked = true
		out[i].Since, out[i].Attempts = m.Since, m.Attempts
		if key, sold := u.stockOuts.note(f, until, now); sold {
			u.offerings[key] = u.offerings[key].again(f.Reason, f.text, until, now)
		}
	}
	u.mu.Unlock()
	if marked {
		u.changed.fire()
	}
	return out
}

// refused records that EC2 refused one offering.
func (u *unavailable) refused(o cloud.Option, code ec2error.Code, text string) {
	u.remember([]fleetFailure{{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: code}, text: text}}, time.Now())
}

// sold records that an offering was launched: its zone is not sold out, whatever else failed, and what EC2 refused earlier is history.
func (u *unavailable) sold(o cloud.Option) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stockOuts.sold(o)
	keys := append(keysOf(offeringKey{o.CapacityType, o.InstanceType, o.Zone}), fullKey(o.Zone, o.PlacementGroup),
		offeringKey{o.CapacityType, o.InstanceType, inGroup(o.Zone, o.PlacementGroup)})
	if o.Reservation.ID != "" {
		keys = append(keys, reservationKey(o.Reservation.ID))
	}
	for _, k := range keys {
		if u.offerings[k].over {
			delete(u.offerings, k)
		}
	}
}

func reservationKey(id string) offeringKey {
	return offeringKey{instanceType: id}
}

// reservation returns the mark of a full capacity reservation; zero if it is not known to be full.
func (u *unavailable) reservation(id string, now time.Time) mark {
	if id == "" {
		return mark{}
	}
	return u.of(reservationKey(id), now)
}

// pause has nothing of the class tried for a while if EC2 refuses one of its types after the other.
func (u *unavailable) pause(r *launchRequest, failures []fleetFailure, now time.Time) {
	at := slices.IndexFunc(failures, fleetFailure.byName)
	if at < 0 {
		return
	}
	again := func(m mark, until time.Time) mark { return m.again(failures[at].Reason, failures[at].text, until, now) }
	if u.refusals.pause(r.id, again, now) {
		u.changed.fire()
	}
}

// works records that a class has launched instances of the options.
func (u *unavailable) works(class classID, options []cloud.Option) {
	if u.refusals.works(class, options) {
		u.changed.fire()
	}
}

// toTry returns the options of the capacity type to buy that may have capacity for a class. If none has, it returns a failure for each.
func (u *unavailable) toTry(class classID, options []cloud.Option, now time.Time) ([]cloud.Option, []cloud.OfferingFailure) {
	var usable []cloud.Option
	var failures []cloud.OfferingFailure
	for _, o := range options {
		m := longest(u.inGroup(offeringKey{o.CapacityType, o.InstanceType, o.Zone}, o.PlacementGroup, now), u.reservation(o.Reservation.ID, now))
		refused := u.refusals.of(class, o.CapacityType, o.InstanceType, o.Zone, now)
		if !m.holds(now) && !refused.holds(now) {
			usable = append(usable, o)
			continue
		}
		f := failureOf(o, m)
		if refused.holds(now) {
			if f = failureOf(o, refused); f.refused() {
				f = f.named(class)
			}
		}
		failures = append(failures, f.OfferingFailure)
	}
	return cloud.OfFirstKind(usable), failures
}

// of returns the mark that keeps an offering longest from being tried; zero if it is not known to be unavailable.
func (u *unavailable) of(o offeringKey, now time.Time) mark {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out mark
	for _, k := range keysOf(o) {
		if m := u.offerings[k]; m.holds(now) {
			out = longest(out, m)
		}
	}
	return out
}

// inGroup is of for a launch into a placement group; an empty group is none.
func (u *unavailable) inGroup(o offeringKey, group string, now time.Time) mark {
	out := u.of(o, now)
	if group == "" {
		return out
	}
	zone := o.zone
	o.zone = inGroup(zone, group)
	return longest(out, u.of(o, now), u.of(fullKey(zone, group), now))
}

// exhausted returns the mark of a subnet for a class; zero if it may have the free addresses that the class needs.
func (u *unavailable) exhausted(class *awsv1.EC2NodeClass, subnet string, now time.Time) mark {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.subnets[subnetKey{id: subnet}]
	if awssdk.ToInt32(class.Spec.IPPrefixCount) > 0 {
		m = longest(m, u.subnets[subnetKey{id: subnet, blocks: true}])
	}
	if m.holds(now) {
		return m
	}
	return mark{}
}

// expire ends marks whose time has passed, fires the signal if there were any, and returns when the next one ends; zero if none is left.
// Marks that ended long ago are dropped.
func (u *unavailable) expire(now time.Time) time.Time {
	u.mu.Lock()
	offering, ended := expireMarks(u.offerings, u.period, now)
	subnet, more := expireMarks(u.subnets, u.period, now)
	u.mu.Unlock()
	refusal, some := u.refusals.expire(u.period, now)
	if ended || more || some {
		u.changed.fire()
	}
	return earlier(earlier(offering, subnet), refusal)
}

// seenInstances records the offering of each instance from DescribeInstances: an interruption message contains only the instance.
type seenInstances struct {
	mu sync.Mutex
	by map[string]cloud.Option
	// lacked holds the launch times of the instances that EC2 ended at launch for a lack of capacity: each counts once.
	lacked map[string]time.Time
}

// seenAtMost bounds the memory. Beyond it all entries are dropped; the next listing adds them again.
const seenAtMost = 50_000

// note returns the failures of instances that were launched since a time and that EC2 ended for a lack of capacity: CreateFleet had succeeded.
func (s *seenInstances) note(instances []cloud.Instance, since time.Time) []fleetFailure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) > seenAtMost {
		s.by = map[string]cloud.Option{}
	}
	maps.DeleteFunc(s.lacked, func(_ string, launched time.Time) bool { return launched.Before(since) })
	var out []fleetFailure
	for _, i := range instances {
		if _, counted := s.lacked[i.ID]; !counted && ec2error.EndReason(i.StateReason.Code) != "" && i.LaunchTime.After(since) {
			if s.lacked == nil {
				s.lacked = map[string]time.Time{}
			}
			s.lacked[i.ID] = i.LaunchTime
			out = append(out, lacked(i))
		}
		if i.State == cloud.StateTerminated {
			delete(s.by, i.ID)
			continue
		}
		s.by[i.ID] = offeringOf(i)
	}
	return out
}

func offeringOf(i cloud.Instance) cloud.Option {
	return cloud.Option{InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType, Reservation: cloud.Reservation{ID: i.ReservationID}}
}

// lacked returns the failure that the end of an instance at launch stands for. In a placement group it is one of the group.
func lacked(i cloud.Instance) fleetFailure {
	o := offeringOf(i)
	o.PlacementGroup = i.PlacementGroupID
	return fleetFailure{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: ec2error.Bare(i.StateReason.Code)}, text: i.StateReason.Message}
}

func (s *seenInstances) offering(id string) (cloud.Option, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.by[id]
	return o, ok
}

// interrupted returns the failure that a spot interruption stands for: EC2 reclaims this offering's capacity, so it has none to launch.
func interrupted(o cloud.Option) fleetFailure {
	return fleetFailure{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: ec2error.InsufficientInstanceCapacity}}
}

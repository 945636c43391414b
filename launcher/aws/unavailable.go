package aws

import (
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// offeringKey names one offering or several: an empty field matches all. The instance type may be a kind of instances (see kindOf). Without a
// capacity type it is the ID of a capacity reservation.
type offeringKey struct{ capacityType, instanceType, zone string }

// unavailable records for a period which offerings had no capacity, and which subnets had no free address.
type unavailable struct {
	period  time.Duration
	changed *signal

	mu        sync.Mutex
	offerings map[offeringKey]time.Time
	subnets   map[string]time.Time
	stockOuts stockOuts
}

func newUnavailable(period time.Duration, changed *signal) *unavailable {
	return &unavailable{
		period: period, changed: changed,
		offerings: map[offeringKey]time.Time{}, subnets: map[string]time.Time{}, stockOuts: stockOuts{},
	}
}

// keyFor returns the offerings that an error of one offering concerns. A spot limit concerns the account, a vCPU limit the type in every
// zone, a full reservation that reservation, and every other error the offering alone.
func keyFor(code string, o cloud.Option) offeringKey {
	switch code {
	case codeMaxSpotInstanceCountExceeded, "SpotInstanceCountExceeded", "MaxSpotFleetRequestCountExceeded", codeSpotServiceLinkedRole:
		return offeringKey{capacityType: o.CapacityType}
	case codeVcpuLimitExceeded, codeInstanceLimitExceeded:
		return offeringKey{capacityType: o.CapacityType, instanceType: o.InstanceType}
	}
	if o.Reservation.ID != "" {
		return reservationKey(o.Reservation.ID)
	}
	return offeringKey{capacityType: o.CapacityType, instanceType: o.InstanceType, zone: o.Zone}
}

// remember records the failures, and fires the signal once if any is a lack of capacity.
func (u *unavailable) remember(failures []fleetFailure, now time.Time) {
	u.mu.Lock()
	until, marked := now.Add(u.period), false
	for _, f := range failures {
		switch {
		case !isCapacityCode(f.Reason) && !isQuotaCode(f.Reason) && f.Reason != codeSpotServiceLinkedRole:
			continue
		case isAddressCode(f.Reason) && f.subnet != "":
			u.subnets[f.subnet] = until
		default:
			u.offerings[keyFor(f.Reason, f.Option)] = until
		}
		marked = true
		if key, out := u.stockOuts.note(f, until, now); out {
			u.offerings[key] = until
		}
	}
	u.mu.Unlock()
	if marked {
		u.changed.fire()
	}
}

// sold records that an offering was launched: its zone is not sold out, whatever else failed.
func (u *unavailable) sold(o cloud.Option) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stockOuts.sold(o)
}

func reservationKey(id string) offeringKey {
	return offeringKey{instanceType: id}
}

// reservation returns when a full capacity reservation is tried again; zero if it is not known to be full.
func (u *unavailable) reservation(id string, now time.Time) time.Time {
	if id == "" {
		return time.Time{}
	}
	return u.until(reservationKey(id), now)
}

// until returns when an offering is tried again; zero if it is not known to be unavailable.
func (u *unavailable) until(o offeringKey, now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	var latest time.Time
	for _, k := range []offeringKey{
		o,
		{capacityType: o.capacityType, instanceType: o.instanceType},
		{capacityType: o.capacityType, instanceType: kindOf(o.instanceType), zone: o.zone},
		{capacityType: o.capacityType},
	} {
		if t := u.offerings[k]; t.After(now) && t.After(latest) {
			latest = t
		}
	}
	return latest
}

// exhausted returns when a subnet is tried again; zero if it may have free addresses.
func (u *unavailable) exhausted(subnet string, now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.subnets[subnet]; t.After(now) {
		return t
	}
	return time.Time{}
}

// expire drops expired entries, fires the signal if there were any, and returns when the next one expires; zero if none is left.
func (u *unavailable) expire(now time.Time) time.Time {
	u.mu.Lock()
	var next time.Time
	over := 0
	sooner := func(t time.Time) bool {
		if !t.After(now) {
			over++
			return true
		}
		if next.IsZero() || t.Before(next) {
			next = t
		}
		return false
	}
	for k, t := range u.offerings {
		if sooner(t) {
			delete(u.offerings, k)
		}
	}
	for k, t := range u.subnets {
		if sooner(t) {
			delete(u.subnets, k)
		}
	}
	u.mu.Unlock()
	if over > 0 {
		u.changed.fire()
	}
	return next
}

// seenInstances records the offering of each instance from DescribeInstances: an interruption message contains only the instance.
type seenInstances struct {
	mu sync.Mutex
	by map[string]cloud.Option
}

// seenAtMost bounds the memory. Beyond it all entries are dropped; the next listing adds them again.
const seenAtMost = 50_000

func (s *seenInstances) note(instances []cloud.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) > seenAtMost {
		s.by = map[string]cloud.Option{}
	}
	for _, i := range instances {
		if i.State == cloud.StateTerminated {
			delete(s.by, i.ID)
			continue
		}
		s.by[i.ID] = cloud.Option{InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType}
	}
}

func (s *seenInstances) offering(id string) (cloud.Option, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.by[id]
	return o, ok
}

// interrupted returns the failure that a spot interruption stands for: EC2 reclaims this offering's capacity, so it has none to launch.
func interrupted(o cloud.Option) fleetFailure {
	return fleetFailure{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: codeInsufficientInstanceCapacity}}
}

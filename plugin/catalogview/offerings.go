package catalogview

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

const (
	// holdFirst is how long an offering is not tried again after a launch of it failed for lack of capacity. It doubles with each
	// failure in a row, up to holdMost. The launcher's own memory of three minutes counts if it is longer.
	holdFirst = 30 * time.Second
	holdMost  = 10 * time.Minute
	// holdStep is what the ends of holds are rounded up to: offerings that failed one after the other are tried again together.
	holdStep = 15 * time.Second
	// unavailableFor is how long the launcher does not try an offering again for which EC2 lacked capacity, as in Karpenter.
	unavailableFor = 3 * time.Minute
	// retriedWithin is how long an offering is on probation once it may be tried again: by then the pods that no other offering
	// can run have tried it. It is short since available spot capacity saves most of the bill.
	retriedWithin = 2 * time.Minute
	probationMost = holdMost + holdStep + retriedWithin
)

// offering is a way to buy an instance type. Capacity reservations are none: EC2 counts their instances.
type offering struct {
	instanceType, zone, capacityType string
	// list is the key of the one list of instance types (catalog.NodePool.TypesKey) that a failure says something about; empty for all.
	list string
}

// offeringFailures counts the failures of an offering since the last launch of it that worked.
type offeringFailures struct {
	inARow int
	last   time.Time
	// refusal is what EC2 answered, as the launcher last reported it: the launcher forgets it sooner.
	refusal ec2error.Refusal
}

// heldUntil returns when the offering is tried again.
func (f offeringFailures) heldUntil() time.Time {
	return f.last.Add(doubled(holdFirst, f.inARow, holdMost)).Truncate(holdStep).Add(holdStep)
}

// probationUntil returns the end of the offering's probation.
func (f offeringFailures) probationUntil() time.Time {
	tried := f.heldUntil()
	if t := f.last.Add(unavailableFor); t.After(tried) {
		tried = t
	}
	return tried.Add(retriedWithin)
}

// countsUntil returns from when on the next failure is the first again.
func (f offeringFailures) countsUntil() time.Time {
	return f.probationUntil().Add(f.probationUntil().Sub(f.last))
}

// settlesAt returns until when a spot offering has not settled: it is as long as after an interruption.
func (f offeringFailures) settlesAt() time.Time { return f.last.Add(interruption.SettleAfter) }

// forgottenAt returns when nothing depends on the failures any more.
func (f offeringFailures) forgottenAt() time.Time {
	if settles := f.settlesAt(); settles.After(f.countsUntil()) {
		return settles
	}
	return f.countsUntil()
}

// doubled returns first, doubled for each failure after the first, up to most.
func doubled(first time.Duration, failures int, most time.Duration) time.Duration {
	for range failures - 1 {
		if first *= 2; first >= most {
			return most
		}
	}
	return first
}

// failedOfferings remembers the offerings of launches that failed for lack of capacity. A failure counts against these alone, not
// against other offerings of the NodePool and the pods that can use them.
type failedOfferings struct {
	failures map[offering]offeringFailures
	// claims are the offerings of the claims in flight that this process has planned, by name.
	claims map[string]claimOfferings
	// marked is from with the failed offerings marked. It has to be made again at until, if not earlier.
	from, marked map[string][]catalog.InstanceType
	until        time.Time
}

// claimOfferings are the offerings that EC2 may choose from for a claim: each type in each zone of each capacity type.
type claimOfferings struct{ instanceTypes, zones, capacityTypes []string }

func newFailedOfferings() failedOfferings {
	return failedOfferings{failures: map[offering]offeringFailures{}, claims: map[string]claimOfferings{}}
}

// planned records the offerings of a claim that the launcher has recorded.
func (o *failedOfferings) planned(c plan.Claim) {
	of := claimOfferings{
		instanceTypes: c.Alternatives, zones: []string{c.Expected.Zone}, capacityTypes: []string{c.Expected.CapacityType},
	}
	for _, r := range c.Requirements {
		switch {
		case r.Operator != corev1.NodeSelectorOpIn || len(r.Values) == 0:
		case r.Key == corev1.LabelTopologyZone:
			of.zones = r.Values
		case r.Key == clusterview.LabelCapacityType:
			of.capacityTypes = r.Values
		}
	}
	o.claims[c.Name] = of
}

// keep drops the claims that are neither in flight nor about to be.
func (o *failedOfferings) keep(inFlight func(name string) bool) {
	maps.DeleteFunc(o.claims, func(name string, _ claimOfferings) bool { return !inFlight(name) })
}

// ended drops the claim of a node. If its launch failed for lack of capacity, that counts against each of its offerings: in the list alone where one is given.
func (o *failedOfferings) ended(n catalog.InFlightNode, failed bool, list string, now time.Time) {
	of, known := o.claims[n.NodeClaim]
	delete(o.claims, n.NodeClaim)
	if !failed {
		return
	}
	if !known { // Another process has planned it.
		of = claimOfferings{[]string{n.InstanceType}, []string{n.Zone}, []string{n.CapacityType}}
	}
	for _, instanceType := range of.instanceTypes {
		for _, zone := range of.zones {
			for _, capacityType := range of.capacityTypes {
				o.fail(offering{instanceType, zone, capacityType, list}, now)
			}
		}
	}
}

// fail counts a failure. A failure while the offering is held is from an earlier launch and does not count.
func (o *failedOfferings) fail(k offering, now time.Time) {
	f := o.failures[k]
	if k.instanceType == "" || catalog.CapacityTypeOf(k.capacityType).Counted || f.inARow > 0 && now.Before(f.heldUntil()) {
		return
	}
	if !now.Before(f.countsUntil()) {
		f.inARow = 0
	}
	o.failures[k] = offeringFailures{inARow: f.inARow + 1, last: now, refusal: f.refusal}
	o.until = time.Time{}
}

// launched records that EC2 has launched the node, from the list: its offering has capacity. If the instance is stopped and not started again for lack of
// capacity, that counts against this offering alone.
func (o *failedOfferings) launched(n catalog.InFlightNode, list string) {
	delete(o.claims, n.NodeClaim)
	for _, k := range keysOf(n.InstanceType, n.Zone, n.CapacityType, list) {
		if _, failed := o.failures[k]; failed {
			delete(o.failures, k)
			o.until = time.Time{}
		}
	}
}

// keysOf returns under which keys failures of an offering in a list are remembered.
func keysOf(instanceType, zone, capacityType, list string) []offering {
	return []offering{{instanceType, zone, capacityType, ""}, {instanceType, zone, capacityType, list}}
}

// forget drops failures that are too old to count.
func (o *failedOfferings) forget(now time.Time) {
	maps.DeleteFunc(o.failures, func(_ offering, f offeringFailures) bool { return !now.Before(f.forgottenAt()) })
}

// onProbation returns how many offerings are on probation.
func (o *failedOfferings) onProbation(now time.Time) int {
	n := 0
	for _, f := range o.failures {
		if now.Before(f.probationUntil()) {
			n++
		}
	}
	return n
}

// holdEnds returns the first moment when a held offering is tried again; zero for none.
func (o *failedOfferings) holdEnds(now time.Time) time.Time {
	var first time.Time
	for _, f := range o.failures {
		if t := f.heldUntil(); t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// mark returns the instance types with the failed offerings marked: unavailable while they are held, and on probation for longer.
// What did not change since the last call is the same slice, so that plans need not compile it again.
func (o *failedOfferings) mark(types map[string][]catalog.InstanceType, now time.Time) map[string][]catalog.InstanceType {
	if len(o.failures) == 0 {
		return types
	}
	if now.Before(o.until) && maps.EqualFunc(types, o.from, sameTypes) {
		return o.marked
	}
	failed := map[offering]bool{} // By instance type and list.
	o.until = now.Add(probationMost)
	for k, f := range o.failures {
		failed[offering{instanceType: k.instanceType, list: k.list}] = true
		for _, t := range []time.Time{f.heldUntil(), f.probationUntil()} {
			if t.After(now) && t.Before(o.until) {
				o.until = t
			}
		}
	}
	o.from, o.marked = types, maps.Clone(types)
	for key, list := range types {
		concerns := func(t catalog.InstanceType) bool {
			return failed[offering{instanceType: t.Name}] || failed[offering{instanceType: t.Name, list: key}]
		}
		if !slices.ContainsFunc(list, concerns) {
			continue
		}
		list = slices.Clone(list)
		for i := range list {
			if concerns(list[i]) {
				list[i].Offerings = o.markOfferings(&list[i], key, now)
			}
		}
		o.marked[key] = list
	}
	return o.marked
}

func (o *failedOfferings) markOfferings(t *catalog.InstanceType, list string, now time.Time) []catalog.Offering {
	out := slices.Clone(t.Offerings)
	for i := range out {
		reported := out[i].Refusal
		for _, k := range keysOf(t.Name, out[i].Zone, out[i].CapacityType, list) {
			f, failed := o.failures[k]
			if !failed {
				continue
			}
			if reported.Code != "" && reported != f.refusal {
				f.refusal = reported
				o.failures[k] = f
			}
			f.mark(&out[i], now)
		}
	}
	return out
}

// mark marks the offering, of which there may be other failures.
func (f offeringFailures) mark(of *catalog.Offering, now time.Time) {
	if of.Refusal.Code == "" {
		of.Refusal = f.refusal
	}
	of.Probation = of.Probation || now.Before(f.probationUntil())
	if settles := f.settlesAt(); catalog.CapacityTypeOf(of.CapacityType).Interruptible && settles.After(of.SettlesAt) {
		of.SettlesAt = settles
	}
	if until := f.heldUntil(); now.Before(until) {
		of.Available = false
		if of.UnavailableUntil.Before(until) {
			of.UnavailableUntil = until
		}
	}
}

// sameTypes reports whether a and b are the same slice.
func sameTypes(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

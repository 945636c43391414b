package market

import (
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// refusal is what EC2 refuses, as the launcher's /api/v1/prices has it beside the prices.
type refusal struct {
	Code          ec2error.Code `json:"code"`
	Zone          string        `json:"zone"`
	CapacityType  string        `json:"capacityType"`
	InstanceTypes []string      `json:"instanceTypes"`
	Since         time.Time     `json:"since"`
	Attempts      int           `json:"attempts"`
	Until         time.Time     `json:"until"`
}

// offer identifies an offering.
type offer struct{ instanceType, zone, capacityType string }

// refusals are the offerings that EC2 refuses.
type refusals map[offer]refusal

// readRefusals returns what EC2 refuses at a time. What it is tried for again by then is left out.
func readRefusals(list []refusal, now time.Time) refusals {
	out := refusals{}
	for _, r := range list {
		if !r.Until.After(now) {
			continue
		}
		for _, name := range r.InstanceTypes {
			out[offer{name, r.Zone, r.CapacityType}] = r
		}
	}
	return out
}

// note returns a sentence about them; none for none.
func (r refusals) note() []string {
	if len(r) == 0 {
		return nil
	}
	return []string{catalog.CountText(len(r), "offering") + " that EC2 refuses now: nothing is planned there"}
}

// mark makes those of a type's offerings unavailable that EC2 refuses.
func (r refusals) mark(instanceType string, offerings []catalog.Offering) {
	for i := range offerings {
		o := &offerings[i]
		if one, ok := r[offer{instanceType, o.Zone, o.CapacityType}]; ok {
			o.Available, o.UnavailableUntil = false, one.Until
			o.Refusal = ec2error.Refusal{Code: one.Code, Since: one.Since, Attempts: one.Attempts}
		}
	}
}

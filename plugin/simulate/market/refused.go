package market

import (
	"fmt"
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

// readRefusals takes what EC2 refuses at a time. What it is tried for again by then is left out.
func (m *Market) readRefusals(list []refusal, now time.Time) {
	m.refused = map[offer]refusal{}
	for _, r := range list {
		if !r.Until.After(now) {
			continue
		}
		for _, name := range r.InstanceTypes {
			m.refused[offer{name, r.Zone, r.CapacityType}] = r
		}
	}
	if n := len(m.refused); n > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%s that EC2 refuses now: nothing is planned there", catalog.CountText(n, "offering")))
	}
}

// withRefusals returns the offerings of a type with those not available that EC2 refuses.
func (m *Market) withRefusals(instanceType string, offerings []catalog.Offering) []catalog.Offering {
	for i := range offerings {
		o := &offerings[i]
		if r, ok := m.refused[offer{instanceType, o.Zone, o.CapacityType}]; ok {
			o.Available, o.UnavailableUntil = false, r.Until
			o.Refusal = ec2error.Refusal{Code: r.Code, Since: r.Since, Attempts: r.Attempts}
		}
	}
	return offerings
}

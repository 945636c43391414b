package aws

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// SetPrice multiplies the original on-demand and spot prices of an instance type, or of "all" instance types, from now on; 1 restores them.
// The price of a usage type, such as EBS:VolumeUsage.gp3, is multiplied as well.
func (s *Server) SetPrice(instanceType string, factor float64) error {
	_, isType := s.table.Get(instanceType)
	isUsage := slices.ContainsFunc(instancetypes.Usages(), func(u instancetypes.Usage) bool { return u.Type == instanceType })
	if !isType && !isUsage && instanceType != all {
		return fmt.Errorf("setting the price: there is no instance type or usage type %q", instanceType)
	}
	if factor <= 0 || math.IsInf(factor, 0) || math.IsNaN(factor) {
		return fmt.Errorf("setting the price of %s: factor %v is not positive", instanceType, factor)
	}
	s.drift.mu.Lock()
	defer s.drift.mu.Unlock()
	if s.drift.prices == nil {
		s.drift.prices = map[string]float64{}
	}
	s.drift.prices[instanceType] = factor
	s.drift.repriced = append(s.drift.repriced, repriced{time.Now(), instanceType, factor})
	return nil
}

// factor returns the factor on the prices of an instance type.
func (s *Server) factor(instanceType string) float64 { return s.drift.factor(instanceType, all) }

// SetTagsAfter sets how late EC2 lists tags from now on, in simulated time; see Config.TagsAfter.
func (s *Server) SetTagsAfter(d time.Duration) {
	s.drift.mu.Lock()
	defer s.drift.mu.Unlock()
	s.drift.tagsAfter = &d
}

// tagsAfter returns how late EC2 lists tags, in real time.
func (s *Server) tagsAfter() time.Duration {
	s.drift.mu.Lock()
	defer s.drift.mu.Unlock()
	if s.drift.tagsAfter != nil {
		return s.cfg.Clock.Scale(*s.drift.tagsAfter)
	}
	return s.cfg.Clock.Scale(s.cfg.TagsAfter)
}

// DeleteTemplates deletes all launch templates, as a user may, and returns their number.
func (s *Server) DeleteTemplates() int {
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	n := len(s.templates.byID)
	clear(s.templates.byID)
	return n
}

// accountVerbs returns the verbs of the control API that change the account and its market.
func (s *Server) accountVerbs() map[string]func(Command) (Reply, error) {
	simple := func(do func(Command) error) func(Command) (Reply, error) {
		return func(c Command) (Reply, error) { return Reply{}, do(c) }
	}
	return map[string]func(Command) (Reply, error){
		"quota": simple(func(c Command) error {
			if c.CapacityType != Spot && c.CapacityType != OnDemand {
				return fmt.Errorf("field capacityType: %q is neither %s nor %s", c.CapacityType, Spot, OnDemand)
			}
			s.SetQuota(c.CapacityType, c.Count)
			return nil
		}),
		"spot-role": simple(func(c Command) error { s.SetSpotRole(c.Count > 0); return nil }),
		"cpu": simple(func(c Command) error {
			return s.instances.setCPU(c.Instance, meter.Load{From: time.Now(), VCPUs: c.Factor})
		}),
		"bill":             func(Command) (Reply, error) { bill := s.Meter.Bill(time.Now()); return Reply{Bill: &bill}, nil },
		"price":            simple(func(c Command) error { return s.SetPrice(cmp.Or(c.InstanceType, all), c.Factor) }),
		"delete-templates": func(Command) (Reply, error) { return Reply{Count: s.DeleteTemplates()}, nil },
		"deprecate":        simple(func(c Command) error { return s.DeprecateImage(c.Image) }),
		"release": simple(func(c Command) error {
			now := time.Now().UTC()
			s.ReleaseImages(cmp.Or(c.AL2023, now.Format("v20060102")), cmp.Or(c.Bottlerocket, "1."+now.Format("20060102150405")+".0"))
			return nil
		}),
		"tags-after": simple(func(c Command) error {
			d, err := time.ParseDuration(c.For)
			if err != nil || d < 0 {
				return fmt.Errorf("field for: %q is not a duration such as 5s", c.For)
			}
			s.SetTagsAfter(d)
			return nil
		}),
		"reserve": func(c Command) (Reply, error) {
			if err := s.checkReservation(c); err != nil {
				return Reply{}, err
			}
			return Reply{Reservation: s.AddCapacityReservation(CapacityReservation{
				InstanceType: c.InstanceType, Zone: c.Zone, Total: c.Count, Tags: c.Tags, Type: c.ReservationType, Interruptible: c.Interruptible, Ends: c.Ends,
			})}, nil
		},
		"cancel-reservation": simple(func(c Command) error {
			if !slices.ContainsFunc(s.reservations.list(time.Now()), func(r CapacityReservation) bool { return r.ID == c.Reservation }) {
				return fmt.Errorf("field reservation: there is no capacity reservation %q", c.Reservation)
			}
			s.CancelCapacityReservation(c.Reservation)
			return nil
		}),
	}
}

func (s *Server) checkReservation(c Command) error {
	if _, ok := s.table.Get(c.InstanceType); !ok {
		return fmt.Errorf("field instanceType: there is no instance type %q", c.InstanceType)
	}
	if _, ok := s.resources.subnetIn(c.Zone); !ok || !s.table.Offered(c.InstanceType, c.Zone) {
		return fmt.Errorf("field zone: %q does not offer %s", c.Zone, c.InstanceType)
	}
	if c.Count < 1 {
		return fmt.Errorf("field count: %d is not positive", c.Count)
	}
	block := c.ReservationType == marketBlock
	switch {
	case !block && c.ReservationType != "" && c.ReservationType != "default":
		return fmt.Errorf("field reservationType: %q is neither default nor %s", c.ReservationType, marketBlock)
	case block && c.Interruptible:
		return errors.New("field interruptible: a Capacity Block is not interruptible")
	case block && c.Ends.IsZero():
		return errors.New("field ends: a Capacity Block has an end")
	case !c.Ends.IsZero() && !c.Ends.After(time.Now()):
		return fmt.Errorf("field ends: %s is over", c.Ends.Format(time.RFC3339))
	}
	return nil
}

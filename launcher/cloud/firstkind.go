package cloud

import (
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// OfFirstKind returns the options that one call can buy: those of the first capacity type present, in the order of catalog.CapacityTypes,
// and of one kind of reservation, in the order of catalog.ReservationRank. Of Capacity Blocks it is the first one alone.
func OfFirstKind(options []Option) []Option {
	for _, t := range catalog.CapacityTypes() {
		i := slices.IndexFunc(options, func(o Option) bool { return o.CapacityType == t.Name })
		if i < 0 {
			continue
		}
		first := options[i].Reservation
		for _, o := range options {
			if o.CapacityType == t.Name && o.Reservation.rank() < first.rank() {
				first = o.Reservation
			}
		}
		var out []Option
		for _, o := range options {
			same := o.Reservation.Type == first.Type && o.Reservation.Interruptible == first.Interruptible
			if first.Type == catalog.ReservationTypeBlock {
				same = o.Reservation == first // CreateFleet takes one Capacity Block (EC2 user guide, "Launch instances into Capacity Blocks").
			}
			if o.CapacityType == t.Name && same {
				out = append(out, o)
			}
		}
		return out
	}
	return options
}

func (r Reservation) rank() int { return catalog.ReservationRank(r.Type, r.Interruptible) }

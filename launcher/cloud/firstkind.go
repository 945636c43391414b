package cloud

import (
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// OfFirstKind returns the options that one call can buy: those of the first capacity type present, in the order of catalog.CapacityTypes,
// and of one type of reservation.
func OfFirstKind(options []Option) []Option {
	for _, t := range catalog.CapacityTypes() {
		i := slices.IndexFunc(options, func(o Option) bool { return o.CapacityType == t.Name })
		if i < 0 {
			continue
		}
		first := options[i].Reservation
		var out []Option
		for _, o := range options {
			if o.CapacityType == t.Name && o.Reservation.Type == first.Type && o.Reservation.Interruptible == first.Interruptible {
				out = append(out, o)
			}
		}
		return out
	}
	return options
}

package overlay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// least is the price, in USD per hour, of an offering that a NodeOverlay makes free: the planner needs a price above zero to compare.
	least = 1e-7
	// most is the price above which all prices count alike. No instance costs as much.
	most = 1e5
	// mostCapacity is the largest amount of a resource that a NodeOverlay may add.
	mostCapacity = 1 << 50
	// mostOverlays is how many NodeOverlays count, in the order of their weights: each is compared with each offering.
	mostOverlays = 1000
)

// ruled is a NodeOverlay that can be applied.
type ruled struct {
	name         string
	weight       int32
	requirements catalog.Requirements
	price        *price
	capacity     corev1.ResourceList
}

// byWeight orders as Karpenter does: by weight, and by name, both descending.
func byWeight(a, b *v1alpha1.NodeOverlay) int {
	return cmp.Or(cmp.Compare(weightOf(b), weightOf(a)), strings.Compare(b.Name, a.Name))
}

func weightOf(o *v1alpha1.NodeOverlay) int32 {
	if o.Spec.Weight == nil {
		return 0
	}
	return *o.Spec.Weight
}

// read returns the rule of a NodeOverlay. The error names the field that is wrong.
func read(ctx context.Context, o *v1alpha1.NodeOverlay) (ruled, error) {
	out := ruled{name: o.Name, weight: weightOf(o), capacity: o.Spec.Capacity}
	if note := o.Annotations[catalog.UnreadableAnnotation]; note != "" {
		return out, fmt.Errorf("reading spec: %s", note)
	}
	var list []catalog.Requirement
	for _, r := range o.Spec.Requirements {
		list = append(list, catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	var err error
	if out.requirements, err = catalog.NewRequirements(list); err != nil {
		return out, fmt.Errorf("reading spec.requirements: %w", err)
	}
	if err := checkCapacity(o.Spec.Capacity); err != nil {
		return out, err
	}
	// Karpenter's own check is the last one: it names operators and resources in an order that differs from time to time.
	if err := o.RuntimeValidate(ctx); err != nil {
		return out, err
	}
	out.price, err = readPrice(o.Spec)
	return out, err
}

// checkCapacity refuses amounts that no node reports.
func checkCapacity(list corev1.ResourceList) error {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		q := list[name]
		if q.Sign() < 0 || q.CmpInt64(mostCapacity) > 0 {
			return fmt.Errorf("reading spec.capacity: %s is %s, expected 0 to %d", name, q.String(), int64(mostCapacity))
		}
		if karpv1.WellKnownResources.Has(name) {
			return fmt.Errorf("reading spec.capacity: %s is restricted, expected a resource that a device plugin adds", name)
		}
		if name == "nodes" {
			return fmt.Errorf("reading spec.capacity: %s is the name of a limit, expected a resource that nodes report", name)
		}
	}
	return nil
}

// price is what a NodeOverlay makes of an instance's price.
type price struct {
	// value is USD per hour, or hundredths of the price if percent is set.
	value float64
	// change adds value to the price; without it the value is the price.
	change, percent bool
}

// readPrice returns nil if the NodeOverlay leaves prices alone.
func readPrice(spec v1alpha1.NodeOverlaySpec) (*price, error) {
	switch {
	case spec.Price != nil && spec.PriceAdjustment != nil:
		return nil, fmt.Errorf("reading spec.price: %q beside a priceAdjustment of %q, expected one of them", *spec.Price, *spec.PriceAdjustment)
	case spec.Price != nil:
		value, ok := number(*spec.Price)
		if !ok {
			return nil, fmt.Errorf("reading spec.price: %q, expected USD per hour such as 0.25", *spec.Price)
		}
		return &price{value: value}, nil
	case spec.PriceAdjustment != nil:
		text, percent := strings.CutSuffix(*spec.PriceAdjustment, "%")
		minus := strings.HasPrefix(text, "-")
		value, ok := number(strings.TrimLeft(text, "+-"))
		if signs := len(text) - len(strings.TrimLeft(text, "+-")); !ok || signs != 1 || minus && percent && value > 100 {
			return nil, fmt.Errorf("reading spec.priceAdjustment: %q, expected a change such as +0.05, -10%% or +25%%", *spec.PriceAdjustment)
		}
		if minus {
			value = -value
		}
		return &price{value: value, change: true, percent: percent}, nil
	}
	return nil, nil
}

// number reads digits with a decimal point. What is too large for a float is the largest one.
func number(text string) (float64, bool) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
		return 0, false
	}
	value, err := strconv.ParseFloat(text, 64)
	return min(value, math.MaxFloat64), err == nil || math.IsInf(value, 1)
}

// of returns the price of an instance with that price, between least and most.
func (p price) of(instance float64) float64 {
	out := p.value
	switch {
	case p.percent:
		out = instance + instance*p.value/100
	case p.change:
		out = instance + p.value
	}
	if math.IsNaN(out) {
		return most
	}
	return min(max(out, least), most)
}

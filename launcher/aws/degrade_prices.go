package aws

import (
	"context"
	"errors"

	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

// onDemandPrices asks the Price List API for prices, and reports whether it returned them. If it did not, the built-in prices are returned;
// a non-nil error then means that a retry soon may succeed. A missing permission or a missing API is not such an error.
func (c *Cloud) onDemandPrices(ctx context.Context) (prices onDemandPrices, answered bool, err error) {
	why := "the settings say that the VPC is isolated"
	if !c.cfg.IsolatedVPC {
		if prices, err = c.fetchOnDemandPrices(ctx); err == nil {
			c.metrics.builtin.Set(0)
			return prices, true, nil
		}
		why = err.Error()
		if isNotImplemented(err) || code(err).IsDenied() {
			err = nil
		}
	}
	prices, bad := builtinPrices()
	if bad != nil {
		return nil, false, bad
	}
	if known := c.known.get(); known == nil || known.onDemandAt.IsZero() {
		c.metrics.builtin.Set(1)
		c.cfg.Logger.Info("The built-in on-demand prices are used: types that they do not name are not bought on demand",
			"pricesOf", builtin.Region, "pricesFrom", builtin.Date, "region", c.cfg.AWS.Region, "types", len(prices), "why", why)
	}
	return prices, false, err
}

func builtinPrices() (onDemandPrices, error) {
	types, err := builtin.Types()
	if err != nil {
		return nil, err
	}
	out := onDemandPrices{}
	for _, t := range types {
		if t.Price > 0 {
			out[t.Name] = t.Price
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no built-in price")
	}
	return out, nil
}

// spotPrices asks EC2 for the spot prices. If the endpoint has none, or denies access, no spot capacity is offered.
func (c *Cloud) spotPrices(ctx context.Context) (spotPrices, error) {
	prices, err := c.fetchSpotPrices(ctx)
	if isNotImplemented(err) || code(err).IsDenied() {
		c.cfg.Logger.Info("Spot capacity is not used: EC2 returns no spot prices", "why", err.Error())
		return spotPrices{}, nil
	}
	return prices, err
}

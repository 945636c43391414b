package aws

import (
	"context"
	"errors"

	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

// onDemandPrices asks the Price List API, and says whether it told. Where it did not the built-in prices are the answer;
// the error, if any, is a reason to ask again soon: one that repeating does not mend (no permission, no such API) is none.
func (c *Cloud) onDemandPrices(ctx context.Context) (prices onDemandPrices, told bool, err error) {
	why := "the settings say that the VPC is isolated"
	if !c.cfg.IsolatedVPC {
		if prices, err = c.fetchOnDemandPrices(ctx); err == nil {
			c.metrics.builtin.Set(0)
			return prices, true, nil
		}
		why = err.Error()
		if isNotImplemented(err) || isDenied(code(err)) {
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

// spotPrices asks for the spot prices. An endpoint that does not know them, or does not let us ask, offers no spot.
func (c *Cloud) spotPrices(ctx context.Context) (spotPrices, error) {
	prices, err := c.fetchSpotPrices(ctx)
	if isNotImplemented(err) || isDenied(code(err)) {
		c.cfg.Logger.Info("Nothing is bought on spot: EC2 does not tell its prices", "why", err.Error())
		return spotPrices{}, nil
	}
	return prices, err
}

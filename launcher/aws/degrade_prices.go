package aws

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

// onDemandPrices asks the Price List API for prices, and reports whether it returned them. If it did not, the built-in prices are returned;
// a non-nil error then means that a retry soon may succeed. A missing permission or a missing API is not such an error.
func (c *Cloud) onDemandPrices(ctx context.Context) (prices onDemandPrices, answered bool, err error) {
	table, bad := builtinPrices(c.cfg.AWS.Region)
	if bad != nil {
		return nil, false, bad
	}
	why := "the settings say that the VPC is isolated"
	if !c.cfg.IsolatedVPC {
		var faults []string
		if prices, faults, err = c.prices.OnDemand(ctx, table); err == nil {
			c.metrics.builtin.Set(0)
			if len(faults) > 0 {
				c.cfg.Logger.Info("Some on-demand prices of the Price List API cannot be used: the built-in ones are", "count", len(faults), "faults", abridged(faults))
			}
			return prices, true, nil
		}
		why = err.Error()
		if _, absent := noPrices(err); absent {
			err = nil
		}
	}
	if known := c.known.get(); known == nil || known.onDemandAt.IsZero() {
		c.metrics.builtin.Set(1)
		c.cfg.Logger.Info("The built-in on-demand prices are used: types that they do not name are not bought on demand",
			"pricesOf", builtin.Region, "pricesFrom", builtin.Date, "region", c.cfg.AWS.Region, "types", len(table), "why", why)
	}
	return table, false, err
}

// withLastPrices returns AWS's prices, with the last ones of the types that they do not name; at first those are the built-in ones.
func withLastPrices(c *Cloud, prices onDemandPrices) onDemandPrices {
	last, _ := builtinPrices(c.cfg.AWS.Region) // onDemandPrices has returned the error.
	if known := c.known.get(); known != nil {
		last = known.onDemand
	}
	out := onDemandPrices{}
	maps.Copy(out, last)
	maps.Copy(out, prices)
	return out
}

// dedicatedPrices asks the Price List API for the prices of dedicated tenancy, and reports whether it returned them. If it did not, the last ones stay in
// use; without any, such instances count with the price of shared tenancy. A non-nil error means that a retry soon may succeed.
func dedicatedPrices(ctx context.Context, c *Cloud) (onDemandPrices, bool, error) {
	if c.cfg.IsolatedVPC {
		return nil, false, nil
	}
	prices, faults, err := c.prices.Dedicated(ctx)
	if err != nil {
		if _, absent := noPrices(err); !absent {
			return nil, false, err
		}
		c.cfg.Logger.Info("The Price List API returns no prices of dedicated tenancy: the last ones stay in use, or those of shared tenancy", "why", err.Error())
		return nil, false, nil
	}
	if len(faults) > 0 {
		c.cfg.Logger.Info("Some prices of dedicated tenancy cannot be used: those of shared tenancy are", "count", len(faults), "faults", abridged(faults))
	}
	return prices, true, nil
}

// abridged returns the first of a list, as many as one line of a log should have.
func abridged(list []string) []string { return list[:min(len(list), 10)] }

// noPrices returns the reason of an error of the Price List API that a retry does not change: a missing permission, API or service.
func noPrices(err error) (reason string, ok bool) {
	known := code(err)
	if isNotImplemented(err) {
		return cmp.Or(string(known), "not implemented"), true
	}
	return string(known), known.IsDenied() || known == "InvalidParameterException"
}

// chargeRates asks the Price List API for the prices of what nodes use beside their instances, and reports whether it returned any. A non-nil
// error means that a retry soon may succeed; the previous prices stay in use.
func (c *Cloud) chargeRates(ctx context.Context) (*catalog.Rates, bool, error) {
	if c.cfg.IsolatedVPC {
		return nil, false, nil
	}
	answer, err := c.prices.Rates(ctx)
	if err != nil {
		return nil, false, err
	}
	if known := c.known.get(); !answer.Answered && known != nil && !known.ratesAt.IsZero() {
		c.cfg.Logger.Info("The Price List API returns no more prices of volumes, addresses and CPU credits: its last ones stay in use", "faults", answer.Faults)
		return nil, false, nil
	}
	c.metrics.charges(answer.Builtin)
	if len(answer.Builtin) > 0 {
		c.cfg.Logger.Info("Built-in prices are used for what the Price List API has no usable price of",
			"pricesOf", builtin.Region, "region", c.cfg.AWS.Region, "usageTypes", answer.Builtin, "faults", abridged(answer.Faults))
	}
	return answer.Rates, answer.Answered, nil
}

// chinaFactor is what AWS charges on demand in China, in CNY, for each USD that it charges in us-east-1: the median over the 316 instance types of cn-north-1 in
// Karpenter 1.14.1's table of November 2024 (pkg/providers/pricing, zz_generated.pricing_aws_cn.go), eight in ten of which are between 8.6 and 11.8.
const chinaFactor = 10

// builtinPrices returns the built-in prices for a region, in the currency of its spot prices: CNY in China, USD elsewhere.
func builtinPrices(region string) (onDemandPrices, error) {
	factor := 1.0
	if strings.HasPrefix(region, "cn-") {
		factor = chinaFactor
	}
	types, err := builtin.Types()
	if err != nil {
		return nil, err
	}
	out := onDemandPrices{}
	for _, t := range types {
		if t.Price > 0 {
			out[t.Name] = t.Price * factor
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no built-in price")
	}
	return out, nil
}

// noSpotError means that EC2 has no spot prices for the launcher: it denies access, does not implement the call, or returns an empty list.
type noSpotError struct{ why error }

// Error implements error.
func (e *noSpotError) Error() string { return "EC2 returns no spot prices: " + e.why.Error() }

// isNoSpot reports whether EC2 has no spot prices for the launcher. A setup may be without them for ever, so that this is no failure.
func isNoSpot(err error) bool {
	_, ok := errors.AsType[*noSpotError](err)
	return ok
}

// spotPrices asks EC2 for the spot prices. It returns a noSpotError if there are none.
func (c *Cloud) spotPrices(ctx context.Context) (spotPrices, error) {
	prices, err := c.fetchSpotPrices(ctx)
	switch {
	case isNotImplemented(err) || code(err).IsDenied():
		return nil, &noSpotError{err}
	case err == nil && len(prices) == 0:
		return nil, &noSpotError{errors.New("the list is empty")}
	}
	return prices, err
}

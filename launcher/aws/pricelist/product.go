package pricelist

import (
	"fmt"
	"math"
	"strconv"
)

// product is one product of the price list (AWS Billing user guide, "Reading the service price list files").
type product struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
			UsageType    string `json:"usagetype"`
			LocationType string `json:"locationType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				Unit         string            `json:"unit"`
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// price returns the product's price on demand and its unit; 0 if it costs nothing, as one that a reservation covers. Of several prices it is
// the highest: some products have a first part that is free. The error has the first price that cannot be used.
func (p product) price(currency string) (usd float64, unit string, err error) {
	for _, term := range p.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			text := dimension.PricePerUnit[currency]
			n, bad := strconv.ParseFloat(text, 64)
			if bad != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
				return 0, "", fmt.Errorf("price %q: a number of %s of at least 0 is expected", text, currency)
			}
			if n > usd {
				usd, unit = n, dimension.Unit
			}
		}
	}
	return usd, unit, nil
}

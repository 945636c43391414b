package aws

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// onDemandPrices maps instance type to USD per hour.
type onDemandPrices = map[string]float64

// spotPrices maps instance type and zone to USD per hour.
type spotPrices map[string]map[string]float64

// fetchSpotPrices asks EC2 for the current spot prices.
func (c *Cloud) fetchSpotPrices(ctx context.Context) (spotPrices, error) {
	out := spotPrices{}
	latest := map[[2]string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(c.offer, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
		// With the current time as start, EC2 returns the current price, once per type and zone.
		StartTime: awssdk.Time(time.Now()), MaxResults: awssdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx, fewAttempts)
		if err != nil {
			return nil, fmt.Errorf("describing spot price history: %w", err)
		}
		for _, p := range page.SpotPriceHistory {
			price, usable := spotPrice(awssdk.ToString(p.SpotPrice))
			name, zone, at := string(p.InstanceType), awssdk.ToString(p.AvailabilityZone), awssdk.ToTime(p.Timestamp)
			key := [2]string{name, zone}
			if before, seen := latest[key]; !usable || seen && before.After(at) {
				continue
			}
			latest[key] = at
			if out[name] == nil {
				out[name] = map[string]float64{}
			}
			out[name][zone] = price
		}
	}
	return out, nil
}

// spotPrice reads a price; false for one that is no number above 0: its offering is left out.
func spotPrice(text string) (usd float64, usable bool) {
	usd, err := strconv.ParseFloat(text, 64)
	return usd, err == nil && usd > 0 && !math.IsInf(usd, 1)
}

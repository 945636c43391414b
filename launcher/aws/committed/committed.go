// Package committed reads what the account has committed to pay for: its Savings Plans and Reserved Instances. It makes the calls and reads the
// answers; what pays for which node is launcher/catalog/commitment's.
package committed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans"
	plantypes "github.com/aws/aws-sdk-go-v2/service/savingsplans/types"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

const (
	// attempts of one call: it is made again an hour later.
	attempts = 3
	// pageSize is the largest that AWS returns.
	pageSize = 1000
	// maxPages bounds the pages of one list. The rates of a Compute Savings Plan in one region, of Linux on shared tenancy, fill two.
	maxPages = 20
	// maxPlans bounds the plans whose rates are read, a list of pages each.
	maxPlans = 100
)

// Account is the commitments of one account in one region. Its methods may be called concurrently.
type Account struct {
	plans  *savingsplans.Client
	ec2    *ec2.Client
	region string
}

// New returns the commitments of the account whose credentials cfg has. It calls no API.
func New(cfg awssdk.Config) *Account {
	few := func(r awssdk.Retryer) awssdk.Retryer { return retry.AddWithMaxAttempts(r, attempts) }
	return &Account{
		plans:  savingsplans.NewFromConfig(cfg, func(o *savingsplans.Options) { o.Retryer = few(o.Retryer) }),
		ec2:    ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.Retryer = few(o.Retryer) }),
		region: cfg.Region,
	}
}

// Commitments returns the active Compute and EC2 Instance Savings Plans, and the active Reserved Instances of Linux on shared tenancy, that may pay
// for nodes of the region, and those that are left out because of what AWS returned about them. Commitments for anything else are not returned.
func (a *Account) Commitments(ctx context.Context) ([]commitment.Commitment, []commitment.Fault, error) {
	plans, faults, err := a.savingsPlans(ctx)
	if err != nil {
		return nil, nil, err
	}
	reserved, wrong, err := a.reserved(ctx)
	if err != nil {
		return nil, nil, err
	}
	return slices.Concat(plans, reserved), slices.Concat(faults, wrong), nil
}

// savingsPlans returns the plans with their rates.
func (a *Account) savingsPlans(ctx context.Context) (list []commitment.Commitment, faults []commitment.Fault, err error) {
	in := &savingsplans.DescribeSavingsPlansInput{States: []plantypes.SavingsPlanState{plantypes.SavingsPlanStateActive}, MaxResults: awssdk.Int32(pageSize)}
	for range maxPages {
		page, err := a.plans.DescribeSavingsPlans(ctx, in)
		if err != nil {
			return nil, nil, fmt.Errorf("describing Savings Plans: %w", err)
		}
		for i := range page.SavingsPlans {
			p := &page.SavingsPlans[i]
			if !a.pays(p) {
				continue
			}
			c, err := plan(p)
			if err == nil && len(list) == maxPlans {
				err = fmt.Errorf("at most %d Savings Plans are read", maxPlans)
			}
			if err == nil {
				if c.Rates, err = a.rates(ctx, c.ID); err != nil {
					return nil, nil, err
				}
				err = c.Validate()
			}
			if err != nil {
				faults = append(faults, commitment.Fault{Entry: awssdk.ToString(p.SavingsPlanId), Message: err.Error()})
				continue
			}
			list = append(list, c)
		}
		if awssdk.ToString(page.NextToken) == "" {
			return list, faults, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, nil, fmt.Errorf("describing Savings Plans: more than %d pages", maxPages)
}

// pays reports whether a plan may pay for nodes of the region.
func (a *Account) pays(p *plantypes.SavingsPlan) bool {
	switch p.SavingsPlanType {
	case plantypes.SavingsPlanTypeCompute:
		return true
	case plantypes.SavingsPlanTypeEc2Instance:
		return awssdk.ToString(p.Region) == a.region
	default:
		return false
	}
}

// plan returns a plan without its rates.
func plan(p *plantypes.SavingsPlan) (c commitment.Commitment, err error) {
	c = commitment.Commitment{ID: awssdk.ToString(p.SavingsPlanId), Kind: commitment.ComputeSavingsPlan, Share: 1}
	if p.SavingsPlanType == plantypes.SavingsPlanTypeEc2Instance {
		c.Kind, c.Family = commitment.EC2InstanceSavingsPlan, awssdk.ToString(p.Ec2InstanceFamily)
	}
	if p.Currency != plantypes.CurrencyCodeUsd {
		return c, fmt.Errorf("currency: USD is expected, got %q", p.Currency)
	}
	if c.USDPerHour, err = strconv.ParseFloat(awssdk.ToString(p.Commitment), 64); err != nil {
		return c, fmt.Errorf("commitment: a number of USD per hour is expected, got %q", awssdk.ToString(p.Commitment))
	}
	if c.End, err = time.Parse(time.RFC3339, awssdk.ToString(p.End)); err != nil {
		return c, fmt.Errorf("end: a time such as 2027-03-01T00:00:00Z is expected, got %q", awssdk.ToString(p.End))
	}
	return c, nil
}

// rates returns what an hour of each instance type costs under a plan: Linux on shared tenancy in the region.
func (a *Account) rates(ctx context.Context, id string) (map[string]float64, error) {
	filter := func(name plantypes.SavingsPlanRateFilterName, value string) plantypes.SavingsPlanRateFilter {
		return plantypes.SavingsPlanRateFilter{Name: name, Values: []string{value}}
	}
	in := &savingsplans.DescribeSavingsPlanRatesInput{
		SavingsPlanId: &id, MaxResults: awssdk.Int32(pageSize),
		Filters: []plantypes.SavingsPlanRateFilter{
			filter(plantypes.SavingsPlanRateFilterNameRegion, a.region),
			filter(plantypes.SavingsPlanRateFilterNameProductType, string(plantypes.SavingsPlanProductTypeEc2)),
			filter(plantypes.SavingsPlanRateFilterNameProductDescription, "Linux/UNIX"),
			filter(plantypes.SavingsPlanRateFilterNameTenancy, "shared"),
		},
	}
	out := map[string]float64{}
	for range maxPages {
		page, err := a.plans.DescribeSavingsPlanRates(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("describing the rates of Savings Plan %s: %w", id, err)
		}
		for i := range page.SearchResults {
			if name, usd := rate(&page.SearchResults[i]); usd > 0 {
				out[name] = usd
			}
		}
		if awssdk.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, fmt.Errorf("describing the rates of Savings Plan %s: more than %d pages", id, maxPages)
}

// rate returns the instance type and the USD per hour of a rate for instances that run; nothing for other rates, such as those for capacity
// that is reserved and not used (UnusedBox).
func rate(r *plantypes.SavingsPlanRate) (instanceType string, usd float64) {
	usage := awssdk.ToString(r.UsageType) // USW2-BoxUsage:m5.large; us-east-1 has no prefix.
	runs := strings.HasPrefix(usage, "BoxUsage:") || strings.Contains(usage, "-BoxUsage:")
	if !runs || r.Unit != plantypes.SavingsPlanRateUnitHours || r.Currency != plantypes.CurrencyCodeUsd {
		return "", 0
	}
	for _, p := range r.Properties {
		if p.Name == plantypes.SavingsPlanRatePropertyKeyInstanceType {
			instanceType = awssdk.ToString(p.Value)
		}
	}
	usd, err := strconv.ParseFloat(awssdk.ToString(r.Rate), 64)
	if err != nil || instanceType == "" {
		return "", 0
	}
	return instanceType, usd
}

// reserved returns the Reserved Instances. The call has no pages.
func (a *Account) reserved(ctx context.Context) (list []commitment.Commitment, faults []commitment.Fault, err error) {
	filter := func(name string, values ...string) ec2types.Filter {
		return ec2types.Filter{Name: &name, Values: values}
	}
	out, err := a.ec2.DescribeReservedInstances(ctx, &ec2.DescribeReservedInstancesInput{Filters: []ec2types.Filter{
		filter("state", string(ec2types.ReservedInstanceStateActive)),
		filter("instance-tenancy", string(ec2types.TenancyDefault)),
		filter("product-description", string(ec2types.RIProductDescriptionLinuxUnix), string(ec2types.RIProductDescriptionLinuxUnixAmazonVpc)),
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("describing Reserved Instances: %w", err)
	}
	for i := range out.ReservedInstances {
		r := &out.ReservedInstances[i]
		c := commitment.Commitment{
			ID: awssdk.ToString(r.ReservedInstancesId), Kind: commitment.ReservedInstances, InstanceType: string(r.InstanceType),
			Count: int(awssdk.ToInt32(r.InstanceCount)), End: awssdk.ToTime(r.End), Share: 1, USDPerHour: perHour(r),
		}
		if r.Scope == ec2types.ScopeAvailabilityZone {
			c.Zone = awssdk.ToString(r.AvailabilityZone)
		}
		if err := c.Validate(); err != nil {
			faults = append(faults, commitment.Fault{Entry: c.ID, Message: err.Error()})
			continue
		}
		list = append(list, c)
	}
	return list, faults, nil
}

// perHour returns what one of Reserved Instances costs per hour: its recurring charges, and what was paid upfront divided by the hours of the term. It
// is 0, not known, for prices in another currency than USD.
func perHour(r *ec2types.ReservedInstances) float64 {
	if r.CurrencyCode != ec2types.CurrencyCodeValuesUsd {
		return 0
	}
	usd := decimal(r.UsagePrice)
	for _, c := range r.RecurringCharges {
		if c.Frequency == ec2types.RecurringChargeFrequencyHourly {
			usd += awssdk.ToFloat64(c.Amount)
		}
	}
	if term := time.Duration(awssdk.ToInt64(r.Duration)) * time.Second; term > 0 {
		usd += decimal(r.FixedPrice) / term.Hours()
	}
	return usd
}

// decimal returns the number that the API wrote, which the SDK has in 32 bits.
func decimal(f *float32) float64 {
	usd, err := strconv.ParseFloat(strconv.FormatFloat(float64(awssdk.ToFloat32(f)), 'g', -1, 32), 64)
	if err != nil {
		return 0
	}
	return usd
}

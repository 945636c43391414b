package aws

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// SavingsPlan is a Savings Plan of the account.
type SavingsPlan struct {
	// Family is that of an EC2 Instance Savings Plan; empty for a Compute Savings Plan.
	Family string
	// USDPerHour is its amount, Discount the share by which usage under it is cheaper than on demand.
	USDPerHour, Discount float64
	// Ends is when it ends. It is retired from then on.
	Ends time.Time

	id string
}

// ReservedInstances are Reserved Instances of the account.
type ReservedInstances struct {
	// InstanceType and Count of what is reserved.
	InstanceType string
	Count        int
	// Zone of zonal ones; empty for the region.
	Zone string
	// Product is the platform; empty is Linux/UNIX.
	Product string
	// Upfront is USD for one instance and the term, Hourly the recurring charge of one in USD per hour.
	Upfront, Hourly float64
	// Ends is when they end. They are retired from then on.
	Ends time.Time

	id string
}

// Commitments are what the account has committed to pay for. Its methods may be called concurrently.
type Commitments struct {
	region string
	// types returns the instance types with their prices on demand.
	types func() []instancetypes.Type

	mu       sync.Mutex
	count    int
	plans    []SavingsPlan
	reserved []ReservedInstances
}

// AddSavingsPlan adds a plan and returns its ID.
func (c *Commitments) AddSavingsPlan(p SavingsPlan) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	p.id = fmt.Sprintf("00000000-0000-4000-8000-%012d", c.count)
	c.plans = append(c.plans, p)
	return p.id
}

// AddReservedInstances adds Reserved Instances and returns their ID.
func (c *Commitments) AddReservedInstances(r ReservedInstances) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	r.id = fmt.Sprintf("10000000-0000-4000-8000-%012d", c.count)
	c.reserved = append(c.reserved, r)
	return r.id
}

// Clear takes all commitments from the account.
func (c *Commitments) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans, c.reserved = nil, nil
}

// serve serves the Savings Plans API.
func (c *Commitments) serve(r wire.Request) (any, error) {
	switch r.Action {
	case "DescribeSavingsPlans":
		return c.describePlans(r)
	case "DescribeSavingsPlanRates":
		return c.describeRates(r)
	}
	return nil, wire.UnknownAction(r)
}

// term is the length of a commitment.
const term = 365 * 24 * time.Hour

// state returns AWS's name of the state of what ends then.
func stateAt(ends, now time.Time) string {
	if now.Before(ends) {
		return "active"
	}
	return "retired"
}

// jsonPage returns a page of the Savings Plans API.
func jsonPage[T any](items []T, size int, token string, key func(T) string) ([]T, string, error) {
	const most = 1000
	if size < 0 || size > most {
		return nil, "", wire.Errorf("ValidationException", "maxResults %d is not from 1 to %d", size, most)
	}
	if size == 0 {
		size = most
	}
	page, next, err := wire.PageFrom(items, size, token, key)
	if err != nil {
		return nil, "", wire.Errorf("ValidationException", "The token is invalid")
	}
	return page, next, nil
}

func (c *Commitments) describePlans(r wire.Request) (any, error) {
	var in struct {
		States         []string
		SavingsPlanIDs []string `json:"savingsPlanIds"`
		MaxResults     int
		NextToken      string
	}
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []SavingsPlan
	for _, p := range c.plans {
		if (len(in.States) == 0 || slices.Contains(in.States, stateAt(p.Ends, time.Now()))) && (len(in.SavingsPlanIDs) == 0 || slices.Contains(in.SavingsPlanIDs, p.id)) {
			found = append(found, p)
		}
	}
	page, next, err := jsonPage(found, in.MaxResults, in.NextToken, func(p SavingsPlan) string { return p.id })
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, p := range page {
		plan := map[string]any{
			"savingsPlanId": p.id, "commitment": strconv.FormatFloat(p.USDPerHour, 'f', 8, 64), "currency": "USD", "state": stateAt(p.Ends, time.Now()),
			"start": p.Ends.Add(-term).UTC().Format("2006-01-02T15:04:05.000Z"), "end": p.Ends.UTC().Format("2006-01-02T15:04:05.000Z"),
			"savingsPlanType": "Compute", "productTypes": []string{"EC2", "Fargate", "Lambda"}, "paymentOption": "No Upfront",
			"termDurationInSeconds": int64(term.Seconds()), "tags": map[string]string{},
		}
		if p.Family != "" {
			plan["savingsPlanType"], plan["ec2InstanceFamily"], plan["region"], plan["productTypes"] = "EC2Instance", p.Family, c.region, []string{"EC2"}
		}
		list = append(list, plan)
	}
	return paged("savingsPlans", list, next), nil
}

// paged returns an answer with the token of the next page, if there is one.
func paged(name string, list any, next string) map[string]any {
	out := map[string]any{name: list}
	if next != "" {
		out["nextToken"] = next
	}
	return out
}

// planRate is the rate of one usage type under a plan.
type planRate struct {
	usageType, instanceType, product, tenancy string
	usd                                       float64
}

// rates returns the rates of a plan: of instances that run, and of capacity that is reserved and not used.
func (c *Commitments) rates(p SavingsPlan) []planRate {
	var out []planRate
	for _, t := range c.types() {
		if family, _, _ := strings.Cut(t.Name, "."); p.Family != "" && p.Family != family {
			continue
		}
		usd := t.Price * (1 - p.Discount)
		out = append(out,
			planRate{"BoxUsage:" + t.Name, t.Name, "Linux/UNIX", "shared", usd},
			planRate{"UnusedBox:" + t.Name, t.Name, "Linux/UNIX", "shared", usd / 2},
			planRate{"DedicatedUsage:" + t.Name, t.Name, "Linux/UNIX", "dedicated", 1.1 * usd},
			planRate{"BoxUsage:" + t.Name + "/windows", t.Name, "Windows", "shared", 2 * usd})
	}
	return out
}

func (c *Commitments) describeRates(r wire.Request) (any, error) {
	var in struct {
		SavingsPlanID string `json:"savingsPlanId"`
		Filters       []struct {
			Name   string
			Values []string
		}
		MaxResults int
		NextToken  string
	}
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.plans, func(p SavingsPlan) bool { return p.id == in.SavingsPlanID })
	if at < 0 {
		return nil, wire.Errorf("ResourceNotFoundException", "Savings Plan %s does not exist", in.SavingsPlanID).WithStatus(http.StatusNotFound)
	}
	var found []planRate
	for _, rate := range c.rates(c.plans[at]) {
		have := map[string]string{
			"region": c.region, "instanceType": rate.instanceType, "productDescription": rate.product, "tenancy": rate.tenancy, "productType": "EC2",
			"serviceCode": "AmazonEC2", "usageType": rate.usageType, "operation": "RunInstances",
		}
		matches := true
		for _, f := range in.Filters {
			matches = matches && slices.Contains(f.Values, have[f.Name])
		}
		if matches {
			found = append(found, rate)
		}
	}
	page, next, err := jsonPage(found, in.MaxResults, in.NextToken, func(r planRate) string { return r.usageType })
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, rate := range page {
		family, _, _ := strings.Cut(rate.instanceType, ".")
		list = append(list, map[string]any{
			"rate": strconv.FormatFloat(rate.usd, 'f', 8, 64), "currency": "USD", "unit": "Hrs", "productType": "EC2", "serviceCode": "AmazonEC2",
			"usageType": rate.usageType, "operation": "RunInstances",
			"properties": []map[string]string{
				{"name": "region", "value": c.region},
				{"name": "instanceType", "value": rate.instanceType},
				{"name": "instanceFamily", "value": family},
				{"name": "productDescription", "value": rate.product},
				{"name": "tenancy", "value": rate.tenancy},
			},
		})
	}
	out := paged("searchResults", list, next)
	out["savingsPlanId"] = in.SavingsPlanID
	return out, nil
}

type reservedInstancesXML struct {
	ID       string  `xml:"reservedInstancesId"`
	Type     string  `xml:"instanceType"`
	Zone     string  `xml:"availabilityZone,omitempty"`
	Start    string  `xml:"start"`
	Duration int64   `xml:"duration"`
	End      string  `xml:"end"`
	Fixed    float64 `xml:"fixedPrice"`
	Usage    float64 `xml:"usagePrice"`
	Count    int     `xml:"instanceCount"`
	Product  string  `xml:"productDescription"`
	State    string  `xml:"state"`
	Tenancy  string  `xml:"instanceTenancy"`
	Currency string  `xml:"currencyCode"`
	Offering string  `xml:"offeringType"`
	Class    string  `xml:"offeringClass"`
	Scope    string  `xml:"scope"`
	// Recurring are the charges of one instance.
	Recurring wire.Set[recurringXML] `xml:"recurringCharges"`
}

type recurringXML struct {
	Frequency string  `xml:"frequency"`
	Amount    float64 `xml:"amount"`
}

// describeReserved serves DescribeReservedInstances, which has no pages.
func (c *Commitments) describeReserved(r wire.Request) (any, error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	filters, err := r.Params.Filters()
	if err != nil {
		return nil, err
	}
	list, err := wire.Select(filters, c.reserved, func(r ReservedInstances) wire.Attribute {
		have := map[string]string{
			"availability-zone": r.Zone, "instance-type": r.InstanceType, "scope": r.scope(), "product-description": r.product(),
			"state": stateAt(r.Ends, now), "instance-tenancy": "default", "reserved-instances-id": r.id,
		}
		return func(name string) ([]string, bool) {
			v, ok := have[name]
			return []string{v}, ok
		}
	})
	if err != nil {
		return nil, err
	}
	out := struct {
		Set wire.Set[reservedInstancesXML] `xml:"reservedInstancesSet"`
	}{}
	ids := r.Params.Strings("ReservedInstancesId")
	for _, r := range list {
		if len(ids) > 0 && !slices.Contains(ids, r.id) {
			continue
		}
		out.Set.Items = append(out.Set.Items, reservedInstancesXML{
			ID: r.id, Type: r.InstanceType, Zone: r.Zone, Start: wire.Timestamp(r.Ends.Add(-term)), Duration: int64(term.Seconds()), End: wire.Timestamp(r.Ends),
			Count: r.Count, Product: r.product(), State: stateAt(r.Ends, now), Tenancy: "default", Currency: "USD", Offering: r.offering(),
			Class: "standard", Scope: r.scope(), Fixed: r.Upfront, Recurring: wire.NewSet(recurringXML{"Hourly", r.Hourly}),
		})
	}
	return out, nil
}

// offering returns how they are paid.
func (r ReservedInstances) offering() string {
	switch {
	case r.Upfront == 0:
		return "No Upfront"
	case r.Hourly == 0:
		return "All Upfront"
	}
	return "Partial Upfront"
}

func (r ReservedInstances) scope() string {
	if r.Zone != "" {
		return "Availability Zone"
	}
	return "Region"
}

func (r ReservedInstances) product() string {
	if r.Product != "" {
		return r.Product
	}
	return "Linux/UNIX"
}

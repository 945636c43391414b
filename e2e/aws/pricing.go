package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

func (s *Server) pricingActions() map[string]action {
	return map[string]action{"GetProducts": s.getProducts}
}

// listing is one product of the price list.
type listing struct {
	// key orders the products.
	key     string
	service string
	// attributes include productFamily, if the product has one.
	attributes map[string]string
	unit       string
	usd        float64
	about      string
}

// listings returns the products of a service: for EC2 those of each instance type, Linux on demand with shared and with dedicated tenancy, which bare
// metal has alone; and what instances use beside.
func (s *Server) listings(service string) []listing {
	var out []listing
	if service == "AmazonEC2" {
		for _, t := range s.offeredTypes() {
			price := s.factor(t.Name) * t.Price
			out = append(out, listing{
				key: t.Name, service: service, attributes: s.productAttributes(t), unit: "Hrs", usd: price,
				about: fmt.Sprintf("$%.10g per On Demand Linux %s Instance Hour", price, t.Name),
			})
			if t.Metal {
				continue
			}
			attributes := s.productAttributes(t)
			attributes["tenancy"], attributes["usagetype"] = "Dedicated", "DedicatedUsage:"+t.Name
			out = append(out, listing{
				key: t.Name + "/dedicated", service: service, attributes: attributes, unit: "Hrs", usd: price * instancetypes.DedicatedFactor,
				about: fmt.Sprintf("$%.10g per Dedicated Usage Linux %s Instance Hour", price*instancetypes.DedicatedFactor, t.Name),
			})
		}
	}
	for _, u := range instancetypes.Usages() {
		if u.Service != service {
			continue
		}
		price := s.drift.factor(u.Type) * u.USD
		maps.Copy(u.Attributes, map[string]string{
			"location": "US East (N. Virginia)", "locationType": "AWS Region", "regionCode": s.cfg.Region, "servicecode": service,
		})
		out = append(out, listing{
			key: u.Type, service: service, attributes: u.Attributes, unit: u.Unit, usd: price, about: fmt.Sprintf("$%.10g per %s of %s", price, u.Unit, u.Type),
		})
	}
	return out
}

// getProducts lists the products of EC2 and VPC.
func (s *Server) getProducts(_ context.Context, r request) (any, error) {
	var in struct {
		ServiceCode, FormatVersion, NextToken string

		MaxResults int
		Filters    []struct{ Type, Field, Value string }
	}
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	const most = 100
	switch {
	case in.ServiceCode != "AmazonEC2" && in.ServiceCode != "AmazonVPC":
		return nil, wire.Errorf("InvalidParameterException", "Input Parameters are invalid. Invalid ServiceCode [%s].", in.ServiceCode)
	case in.MaxResults < 0 || in.MaxResults > most:
		return nil, wire.Errorf("InvalidParameterException", "Input Parameters are invalid. Invalid MaxResults [%d].", in.MaxResults)
	}
	var found []listing
	for _, l := range s.listings(in.ServiceCode) {
		if !slices.ContainsFunc(in.Filters, func(f struct{ Type, Field, Value string }) bool {
			return !productMatches(l.attributes, f.Type, f.Field, f.Value)
		}) {
			found = append(found, l)
		}
	}
	page, next, err := wire.PageFrom(found, cmp.Or(in.MaxResults, most), in.NextToken, func(l listing) string { return l.key })
	if err != nil {
		return nil, wire.Errorf("InvalidNextTokenException", "The pagination token is invalid. Try again without a pagination token.")
	}
	out := struct {
		FormatVersion string   `json:"FormatVersion"`
		PriceList     []string `json:"PriceList"`
		NextToken     string   `json:"NextToken,omitempty"`
	}{"aws_v1", []string{}, next}
	for _, l := range page {
		document, err := json.Marshal(l.document())
		if err != nil {
			return nil, fmt.Errorf("encoding the price list of %s: %w", l.key, err)
		}
		out.PriceList = append(out.PriceList, string(document))
	}
	return out, nil
}

// productMatches compares as the Price List API does: names of attributes are compared without regard to case.
func productMatches(have map[string]string, kind, field, value string) bool {
	got, ok := "", false
	for name, v := range have {
		if strings.EqualFold(name, field) {
			got, ok = v, true
		}
	}
	switch kind {
	case "CONTAINS":
		return ok && strings.Contains(got, value)
	case "EQUALS", "TERM_MATCH", "":
		return ok && got == value
	case "ANY_OF":
		return ok && slices.Contains(strings.Split(value, ","), got)
	case "NONE_OF":
		return !ok || !slices.Contains(strings.Split(value, ","), got)
	}
	return false
}

func (s *Server) productAttributes(t instancetypes.Type) map[string]string {
	tenancy, family := "Shared", "Compute Instance"
	if t.Metal {
		tenancy, family = "Dedicated", "Compute Instance (bare metal)"
	}
	current := "Yes"
	if t.Previous {
		current = "No"
	}
	return map[string]string{
		"capacitystatus": "Used", "currentGeneration": current, "instanceFamily": purpose(t), "instanceType": t.Name,
		"licenseModel": "No License required", "location": "US East (N. Virginia)", "locationType": "AWS Region", "marketoption": "OnDemand",
		"memory": fmt.Sprintf("%g GiB", float64(t.MemoryMiB)/1024), "operatingSystem": "Linux", "operation": "RunInstances",
		"preInstalledSw": "NA", "productFamily": family, "regionCode": s.cfg.Region, "servicecode": "AmazonEC2",
		"servicename": "Amazon Elastic Compute Cloud", "tenancy": tenancy, "usagetype": "BoxUsage:" + t.Name, "vcpu": fmt.Sprint(t.VCPUs),
		"processorArchitecture": "64-bit", "clockSpeed": fmt.Sprintf("%g GHz", t.GHz),
	}
}

func purpose(t instancetypes.Type) string {
	switch {
	case t.Accelerators.Kind == instancetypes.GPU:
		return "GPU instance"
	case t.Accelerators.Kind == instancetypes.Neuron:
		return "Machine Learning ASIC Instances"
	case t.Family[0] == 'c':
		return "Compute optimized"
	case t.Family[0] == 'r', t.Family[0] == 'x':
		return "Memory optimized"
	case t.Family[0] == 'i', t.Family[0] == 'd':
		return "Storage optimized"
	}
	return "General purpose"
}

// document returns an entry of the price list (AWS Billing user guide, "Reading the service price list files").
func (l listing) document() any {
	sku := strings.ToUpper(fixedID("x", l.key)[3:19])
	// The code of an offer term "on demand" and that of its rate are the same for all products.
	const term, rate = "JRTCKXETXF", "6YS6EN2CT7"
	product := map[string]any{"sku": sku, "attributes": l.attributes}
	if family, ok := l.attributes["productFamily"]; ok {
		product["productFamily"] = family
		delete(l.attributes, "productFamily")
	}
	return map[string]any{
		"product":     product,
		"serviceCode": l.service,
		"terms": map[string]any{"OnDemand": map[string]any{sku + "." + term: map[string]any{
			"sku": sku, "offerTermCode": term, "effectiveDate": "2026-07-01T00:00:00Z", "termAttributes": map[string]any{},
			"priceDimensions": map[string]any{sku + "." + term + "." + rate: map[string]any{
				"unit": l.unit, "beginRange": "0", "endRange": "Inf", "rateCode": sku + "." + term + "." + rate, "appliesTo": []string{},
				"description":  l.about,
				"pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", l.usd)},
			}},
		}}},
		"version": "20260701000000", "publicationDate": "2026-07-01T00:00:00Z",
	}
}

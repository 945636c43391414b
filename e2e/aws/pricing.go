package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

func (s *Server) pricingActions() map[string]action {
	return map[string]action{"GetProducts": s.getProducts}
}

// getProducts lists the products of EC2: for each instance type, Linux on demand with shared tenancy, or dedicated for bare
// metal.
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
	case in.ServiceCode != "AmazonEC2":
		return nil, wire.Errorf("InvalidParameterException", "Input Parameters are invalid. Invalid ServiceCode [%s].", in.ServiceCode)
	case in.MaxResults < 0 || in.MaxResults > most:
		return nil, wire.Errorf("InvalidParameterException", "Input Parameters are invalid. Invalid MaxResults [%d].", in.MaxResults)
	}
	var found []instancetypes.Type
	for _, t := range s.offeredTypes() {
		have := s.productAttributes(t)
		if !slices.ContainsFunc(in.Filters, func(f struct{ Type, Field, Value string }) bool {
			return !productMatches(have, f.Type, f.Field, f.Value)
		}) {
			found = append(found, t)
		}
	}
	page, next, err := wire.PageFrom(found, cmp.Or(in.MaxResults, most), in.NextToken, func(t instancetypes.Type) string { return t.Name })
	if err != nil {
		return nil, wire.Errorf("InvalidNextTokenException", "The pagination token is invalid. Try again without a pagination token.")
	}
	out := struct {
		FormatVersion string   `json:"FormatVersion"`
		PriceList     []string `json:"PriceList"`
		NextToken     string   `json:"NextToken,omitempty"`
	}{"aws_v1", []string{}, next}
	for _, t := range page {
		document, err := json.Marshal(s.product(t))
		if err != nil {
			return nil, fmt.Errorf("encoding the price list of %s: %w", t.Name, err)
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

// product returns an entry of the price list (AWS Billing user guide, "Reading the service price list files").
func (s *Server) product(t instancetypes.Type) any {
	sku := strings.ToUpper(fixedID("x", t.Name)[3:19])
	// The code of an offer term "on demand" and that of its rate are the same for all products.
	const term, rate = "JRTCKXETXF", "6YS6EN2CT7"
	attributes := s.productAttributes(t)
	price := s.factor(t.Name) * t.Price
	family := attributes["productFamily"]
	delete(attributes, "productFamily")
	return map[string]any{
		"product":     map[string]any{"sku": sku, "productFamily": family, "attributes": attributes},
		"serviceCode": "AmazonEC2",
		"terms": map[string]any{"OnDemand": map[string]any{sku + "." + term: map[string]any{
			"sku": sku, "offerTermCode": term, "effectiveDate": "2026-07-01T00:00:00Z", "termAttributes": map[string]any{},
			"priceDimensions": map[string]any{sku + "." + term + "." + rate: map[string]any{
				"unit": "Hrs", "beginRange": "0", "endRange": "Inf", "rateCode": sku + "." + term + "." + rate, "appliesTo": []string{},
				"description":  fmt.Sprintf("$%g per On Demand Linux %s Instance Hour", price, t.Name),
				"pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", price)},
			}},
		}}},
		"version": "20260701000000", "publicationDate": "2026-07-01T00:00:00Z",
	}
}

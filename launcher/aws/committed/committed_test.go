package committed_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/slipway-k8s/slipway/launcher/aws/committed"
)

// account returns an account whose AWS answers each call, by the path or the EC2 action, with the text.
func account(t *testing.T, answer func(call string) string) *committed.Account {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := strings.TrimPrefix(r.URL.Path, "/")
		if call == "" {
			call = r.FormValue("Action")
		}
		text := answer(call)
		if text == "" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return committed.New(awssdk.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: func() awssdk.Retryer { return awssdk.NopRetryer{} },
	})
}

const none = `<DescribeReservedInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservedInstancesSet/></DescribeReservedInstancesResponse>`

func aPlan(change string) string {
	return `{"savingsPlans":[{"savingsPlanId":"sp","savingsPlanType":"EC2Instance","ec2InstanceFamily":"m5","region":"eu-west-1","currency":"USD","commitment":"1.5",` +
		`"end":"2027-01-01T00:00:00.000Z","state":"active"` + change + `}]}`
}

func rate(usage, instanceType, usd string) string {
	return fmt.Sprintf(`{"rate":%q,"currency":"USD","unit":"Hrs","usageType":%q,"properties":[{"name":"instanceType","value":%q}]}`, usd, usage, instanceType)
}

// What AWS returns is used, or left out with its reason. Rates of other usage are not those of instances, in whichever region.
func TestAnswers(t *testing.T) {
	rates := `{"searchResults":[` + strings.Join([]string{
		rate("EU-BoxUsage:m5.large", "m5.large", "0.07"), rate("EU-UnusedBox:m5.large", "m5.large", "0.01"), rate("BoxUsage:m5.metal-24xl", "m5.metal-24xl", "3"),
		rate("EU-BoxUsage:m5.xlarge", "m5.xlarge", "free"),
	}, ",") + `]}`
	for _, tc := range []struct{ what, plans, rates, fault string }{
		{"a plan", aPlan(""), rates, ""},
		{"no rate", aPlan(""), `{"searchResults":[]}`, "discountPercent: "},
		{"another currency", aPlan(`,"currency":"CNY"`), rates, "currency: USD is expected"},
		{"no amount", aPlan(`,"commitment":"much"`), rates, "commitment: "},
		{"no end", aPlan(`,"end":""`), rates, "end: "},
		{"a negative amount", aPlan(`,"commitment":"-1"`), rates, "usdPerHour: "},
	} {
		list, faults, err := account(t, func(call string) string {
			return map[string]string{"DescribeSavingsPlans": tc.plans, "DescribeSavingsPlanRates": tc.rates, "DescribeReservedInstances": none}[call]
		}).Commitments(t.Context())
		switch {
		case err != nil:
			t.Errorf("%s: %v", tc.what, err)
		case tc.fault == "" && (len(list) != 1 || len(list[0].Rates) != 2 || list[0].Rates["m5.large"] != 0.07 || list[0].Rates["m5.metal-24xl"] != 3):
			t.Errorf("%s: %+v, %v", tc.what, list, faults)
		case tc.fault != "" && (len(list) != 0 || len(faults) != 1 || faults[0].Entry != "sp" || !strings.HasPrefix(faults[0].Message, tc.fault)):
			t.Errorf("%s: %+v, %v; want a fault %q", tc.what, list, faults, tc.fault)
		}
	}
}

// What Reserved Instances cost per hour is their recurring charge, with what was paid upfront divided by the hours of the term. A price that cannot be is a
// fault, one in another currency is not known.
func TestPricesOfReservedInstances(t *testing.T) {
	const answer = `<DescribeReservedInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservedInstancesSet><item>
<reservedInstancesId>ri</reservedInstancesId><instanceType>m5.large</instanceType><instanceCount>2</instanceCount><duration>31536000</duration>
<fixedPrice>%s</fixedPrice><usagePrice>%s</usagePrice><currencyCode>%s</currencyCode><scope>Region</scope>
<recurringCharges><item><frequency>Hourly</frequency><amount>%s</amount></item></recurringCharges></item></reservedInstancesSet></DescribeReservedInstancesResponse>`
	for _, tc := range []struct {
		what, fixed, usage, currency, hourly string
		want                                 float64
	}{
		{"no upfront", "0.0", "0.0", "USD", "0.06", 0.06},
		{"all upfront", "438.0", "0.0", "USD", "0.0", 0.05},
		{"partial upfront", "219", "0.0", "USD", "0.025", 0.05},
		{"an old usage price", "87.6", "0.034", "USD", "0", 0.044},
		{"another currency", "438.0", "0.0", "CNY", "0.0", 0},
		{"a negative price", "0.0", "0.0", "USD", "-0.06", -1},
	} {
		list, faults, err := account(t, func(call string) string {
			return map[string]string{
				"DescribeSavingsPlans": `{"savingsPlans":[]}`, "DescribeReservedInstances": fmt.Sprintf(answer, tc.fixed, tc.usage, tc.currency, tc.hourly),
			}[call]
		}).Commitments(t.Context())
		switch {
		case err != nil:
			t.Errorf("%s: %v", tc.what, err)
		case tc.want < 0 && (len(list) != 0 || len(faults) != 1 || faults[0].Entry != "ri" || !strings.HasPrefix(faults[0].Message, "usdPerHour: ")):
			t.Errorf("%s: %+v, %+v", tc.what, list, faults)
		case tc.want >= 0 && (len(list) != 1 || math.Abs(list[0].USDPerHour-tc.want) > 1e-12):
			t.Errorf("%s: %+v, %+v, want %v", tc.what, list, faults, tc.want)
		}
	}
}

// Plans of other regions and for other services are not read further.
func TestOtherPlans(t *testing.T) {
	for _, change := range []string{`,"region":"us-east-1"`, `,"savingsPlanType":"SageMaker"`} {
		list, faults, err := account(t, func(call string) string {
			return map[string]string{"DescribeSavingsPlans": aPlan(change), "DescribeReservedInstances": none}[call]
		}).Commitments(t.Context())
		if err != nil || len(list)+len(faults) > 0 {
			t.Errorf("%s: %+v, %v, %v", change, list, faults, err)
		}
	}
}

// Reading ends, whatever AWS returns, and its errors name the call.
func TestReadingIsBounded(t *testing.T) {
	calls := 0
	_, _, err := account(t, func(string) string { calls++; return `{"savingsPlans":[],"nextToken":"more"}` }).Commitments(t.Context())
	if err == nil || calls > 30 || !strings.Contains(err.Error(), "describing Savings Plans: more than 20 pages") {
		t.Errorf("error %v after %d calls", err, calls)
	}
	for denied, want := range map[string]string{
		"DescribeSavingsPlans": "describing Savings Plans: ", "DescribeSavingsPlanRates": "describing the rates of Savings Plan sp: ", "DescribeReservedInstances": "describing Reserved Instances: ",
	} {
		_, _, err := account(t, func(call string) string {
			if call == denied {
				return ""
			}
			return map[string]string{"DescribeSavingsPlans": aPlan(""), "DescribeSavingsPlanRates": `{}`, "DescribeReservedInstances": none}[call]
		}).Commitments(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s denied: error %v", denied, err)
		}
	}
}

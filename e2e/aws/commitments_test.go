package aws_test

import (
	"context"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans"
	plantypes "github.com/aws/aws-sdk-go-v2/service/savingsplans/types"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/aws/committed"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// The commitments of the account are read over the wire: active ones for Linux alone, with the rates of instances that run. 438 USD upfront are
// 0.05 per hour of a year.
func TestCommitmentsAreRead(t *testing.T) {
	server := start(t, nil)
	ends, ended := time.Now().Add(time.Hour).UTC().Truncate(time.Second), time.Now().Add(-time.Hour)
	family := server.Commitments.AddSavingsPlan(aws.SavingsPlan{Family: "m6i", USDPerHour: 0.32, Discount: 0.25, Ends: ends})
	compute := server.Commitments.AddSavingsPlan(aws.SavingsPlan{USDPerHour: 2, Discount: 0.2, Ends: ends})
	server.Commitments.AddSavingsPlan(aws.SavingsPlan{USDPerHour: 2, Discount: 0.2, Ends: ended})
	region := server.Commitments.AddReservedInstances(aws.ReservedInstances{InstanceType: "m5.xlarge", Count: 3, Upfront: 438, Hourly: 0.05, Ends: ends})
	zonal := server.Commitments.AddReservedInstances(aws.ReservedInstances{InstanceType: "c5.large", Count: 1, Zone: "us-east-1a", Ends: ends})
	server.Commitments.AddReservedInstances(aws.ReservedInstances{InstanceType: "m5.xlarge", Count: 3, Product: "Windows", Ends: ends})
	server.Commitments.AddReservedInstances(aws.ReservedInstances{InstanceType: "m5.xlarge", Count: 3, Ends: ended})

	list, faults, err := committed.New(config(server)).Commitments(t.Context())
	if err != nil || len(faults) > 0 {
		t.Fatalf("faults %v, error %v", faults, err)
	}
	if len(list) != 4 || len(list[1].Rates) < 300 || list[1].Rates["m5.large"] != 0.0768 || list[0].Rates["m6i.large"] != 0.072 || list[0].Rates["m5.large"] != 0 {
		t.Fatalf("commitments %+v", list)
	}
	list[0].Rates, list[1].Rates = nil, nil
	want := []commitment.Commitment{
		{ID: family, Kind: commitment.EC2InstanceSavingsPlan, Family: "m6i", USDPerHour: 0.32, End: ends, Share: 1},
		{ID: compute, Kind: commitment.ComputeSavingsPlan, USDPerHour: 2, End: ends, Share: 1},
		{ID: region, Kind: commitment.ReservedInstances, InstanceType: "m5.xlarge", Count: 3, USDPerHour: 0.1, End: ends, Share: 1},
		{ID: zonal, Kind: commitment.ReservedInstances, InstanceType: "c5.large", Count: 1, Zone: "us-east-1a", End: ends, Share: 1},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("commitments (-want +got):\n%s", diff)
	}
	if broken := server.Violations(); len(broken) > 0 {
		t.Errorf("requests that differ from AWS's models: %q", broken)
	}
}

// The sandbox pages as AWS does, and refuses what AWS refuses.
func TestSavingsPlansArePaged(t *testing.T) {
	server := start(t, nil)
	for range 3 {
		server.Commitments.AddSavingsPlan(aws.SavingsPlan{USDPerHour: 1, Discount: 0.2, Ends: time.Now().Add(time.Hour)})
	}
	client := savingsplans.NewFromConfig(config(server))
	in, seen := &savingsplans.DescribeSavingsPlansInput{MaxResults: awssdk.Int32(2)}, 0
	for range 2 {
		out, err := client.DescribeSavingsPlans(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(out.SavingsPlans)
		in.NextToken = out.NextToken
	}
	if seen != 3 || in.NextToken != nil {
		t.Errorf("%d plans, then token %v", seen, in.NextToken)
	}
	id := "none"
	_, err := client.DescribeSavingsPlanRates(t.Context(), &savingsplans.DescribeSavingsPlanRatesInput{SavingsPlanId: &id})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = client.DescribeSavingsPlans(t.Context(), &savingsplans.DescribeSavingsPlansInput{MaxResults: awssdk.Int32(1001)})
	wantCode(t, err, "ValidationException")
	_, err = client.DescribeSavingsPlans(t.Context(), &savingsplans.DescribeSavingsPlansInput{States: []plantypes.SavingsPlanState{"alive"}})
	wantCode(t, err, "ValidationException")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := committed.New(config(server)).Commitments(ctx); err == nil {
		t.Error("no error of a canceled call")
	}
}

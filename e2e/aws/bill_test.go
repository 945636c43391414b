package aws_test

import (
	"math"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// lineOf returns what an instance costs until a time.
func lineOf(t *testing.T, server *aws.Server, id string, to time.Time) meter.Line {
	t.Helper()
	bill := server.Meter.Bill(to)
	i := slices.IndexFunc(bill.Lines, func(l meter.Line) bool { return l.ID == id })
	if i < 0 {
		t.Fatalf("no line of instance %s in %+v", id, bill)
	}
	return bill.Lines[i]
}

func costs(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*want {
		t.Errorf("%s: %.9f USD, want %.9f", what, got, want)
	}
}

// An instance of a second is billed for a minute, with its volume, its address and the credits that it used. t3.micro is 0.0104 USD per hour, gp3 0.08 per
// GB-month, 0.005 per IOPS-month beyond 3,000 and 0.04 per MiB/s-month beyond 125 (AWS's pages of November 2026).
func TestBillOfAnInstance(t *testing.T) {
	server := start(t, nil)
	client := aws.NewClient(server.URL())
	begin := time.Now()
	out, refused := launchTemplateWith(t, server, fleetInput(t, server, 1, "t3.micro"), func(data *ec2types.RequestLaunchTemplateData) {
		data.NetworkInterfaces = []nicSpec{{DeviceIndex: awssdk.Int32(0), AssociatePublicIpAddress: awssdk.Bool(true)}}
		data.SecurityGroupIds = nil
		data.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: awssdk.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{
			VolumeType: "gp3", VolumeSize: awssdk.Int32(50), Iops: awssdk.Int32(4000), Throughput: awssdk.Int32(225),
		}}}
	})
	if refused != "" {
		t.Fatalf("refused with %s: %+v", refused, out.Errors)
	}
	id := launched(out)[0]
	eventually(t, "the instance to run", func() bool { return instance(t, server, id).State == aws.StateRunning })
	if err := client.SetCPU(t.Context(), id, 2); err != nil {
		t.Fatal(err)
	}
	if err := client.SetCPU(t.Context(), id, 3); err == nil {
		t.Error("a t3.micro uses three vCPUs")
	}
	// What it earned while it was idle is less than what it spends in as long.
	time.Sleep(time.Since(begin))
	if _, err := ec2Client(server).TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instance to end", func() bool { return instance(t, server, id).State == aws.StateTerminated })

	to := time.Now().Add(2 * time.Minute)
	line, hours := lineOf(t, server, id, to), 1.0/60
	costs(t, "instance", line.Instance, 0.0104*hours)
	costs(t, "address", line.PublicIPv4, 0.005*hours)
	month := time.Date(to.Year(), to.UTC().Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() * 24
	if math.Abs(line.Volumes/((50*0.08+1000*0.005+100*0.04)*hours/float64(month))-1) > 0.04 { // A month may begin meanwhile.
		t.Errorf("volumes: %+v", line)
	}
	if most := 2 * 0.05 * 30.0 / 3600; line.Credits <= 0 || line.Credits > most {
		t.Errorf("credits: %.9f USD, want some, at most %.9f", line.Credits, most)
	}
	bill, err := client.Bill(t.Context())
	if err != nil || len(bill.Lines) != 1 || bill.Lines[0].ID != id || bill.Total() <= 0 {
		t.Errorf("the control API's bill %+v, error %v", bill, err)
	}
}

// A spot instance costs the price of the market, and nothing if EC2 takes it back within its first hour; one that its user terminates is paid.
func TestBillOfSpot(t *testing.T) {
	server := start(t, nil)
	in := asSpot(fleetInput(t, server, 2, "m5.large"), "lowest-price")
	ids := launched(createFleet(t, server, in))
	for _, id := range ids {
		eventually(t, "the instance to run", func() bool { return instance(t, server, id).State == aws.StateRunning })
	}
	if err := server.Interrupt(ids[0]); err != nil {
		t.Fatal(err)
	}
	if err := server.Terminate(ids[1]); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		eventually(t, "the instance to end", func() bool { return instance(t, server, id).State == aws.StateTerminated })
	}
	to := time.Now().Add(2 * time.Minute)
	if line := lineOf(t, server, ids[0], to); line.Instance != 0 || line.Volumes == 0 {
		t.Errorf("interrupted in its first hour: %+v", line)
	}
	line := lineOf(t, server, ids[1], to)
	if price := instance(t, server, ids[1]).Price; math.Abs(line.Instance*60/price-1) > 0.1 {
		t.Errorf("%.9f USD for a minute at %v USD per hour", line.Instance, price)
	}
}

// What commitments pay for is not paid again, and prices that change are those of their time. m5.large is 0.096 USD per hour.
func TestBillWithCommitments(t *testing.T) {
	server := start(t, nil)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	eventually(t, "the instance to run", func() bool { return instance(t, server, id).State == aws.StateRunning })
	to := time.Now().Add(time.Hour)
	within := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s: %.6f USD, want %.6f", what, got, want)
		}
	}
	within("on demand", lineOf(t, server, id, to).Instance, 0.096)
	if err := server.SetPrice("m5.large", 2); err != nil {
		t.Fatal(err)
	}
	within("at the new price", lineOf(t, server, id, to).Instance, 0.192)
	if err := server.SetPrice("m5.large", 1); err != nil {
		t.Fatal(err)
	}
	server.Commitments.AddReservedInstances(aws.ReservedInstances{InstanceType: "m5.large", Count: 1, Product: "Windows", Ends: time.Now().Add(2 * time.Hour)})
	server.Commitments.AddSavingsPlan(aws.SavingsPlan{Family: "m5", USDPerHour: 0.036, Discount: 0.25, Ends: time.Now().Add(2 * time.Hour)})
	within("half is covered", lineOf(t, server, id, to).Instance, 0.048)
	within("what the plan costs", server.Meter.Bill(to).Committed(), 0.036)
	server.Commitments.AddReservedInstances(aws.ReservedInstances{InstanceType: "m5.large", Count: 1, Upfront: 438, Hourly: 0.01, Ends: time.Now().Add(2 * time.Hour)})
	if line := lineOf(t, server, id, to); line.Instance > 0.002 {
		t.Errorf("reserved: %+v", line)
	}
	within("with the Reserved Instance", server.Meter.Bill(to).Committed(), 0.036+0.01+0.05)
}

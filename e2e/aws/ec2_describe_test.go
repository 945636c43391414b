package aws_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

// allTypes reads all pages.
func allTypes(t *testing.T, client *ec2.Client) map[ec2types.InstanceType]ec2types.InstanceTypeInfo {
	t.Helper()
	seen := map[ec2types.InstanceType]ec2types.InstanceTypeInfo{}
	pages := ec2.NewDescribeInstanceTypesPaginator(client, &ec2.DescribeInstanceTypesInput{MaxResults: awssdk.Int32(100)})
	n := 0
	for ; pages.HasMorePages(); n++ {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.InstanceTypes {
			if _, twice := seen[i.InstanceType]; twice {
				t.Errorf("%s comes on two pages", i.InstanceType)
			}
			seen[i.InstanceType] = i
		}
	}
	if n < 4 || len(seen) < 400 {
		t.Fatalf("%d types came on %d pages", len(seen), n)
	}
	return seen
}

func TestInstanceTypes(t *testing.T) {
	seen := allTypes(t, ec2Client(start(t, nil)))
	g5, inf2, metal := seen["g5.12xlarge"], seen["inf2.24xlarge"], seen["m7g.metal"]
	if g := g5.GpuInfo.Gpus[0]; awssdk.ToInt32(g.Count) != 4 || awssdk.ToString(g.Manufacturer) != "NVIDIA" || awssdk.ToInt32(g.MemoryInfo.SizeInMiB) != 22888 {
		t.Errorf("the GPUs of g5.12xlarge are %+v", g)
	}
	if awssdk.ToInt64(g5.InstanceStorageInfo.TotalSizeInGB) != 3800 || awssdk.ToInt32(g5.NetworkInfo.EfaInfo.MaximumEfaInterfaces) != 1 {
		t.Errorf("g5.12xlarge has the storage %+v and the network %+v", g5.InstanceStorageInfo, g5.NetworkInfo)
	}
	if d := inf2.NeuronInfo.NeuronDevices[0]; awssdk.ToInt32(d.Count) != 6 || awssdk.ToInt32(d.CoreInfo.Count) != 2 ||
		awssdk.ToInt32(inf2.InferenceAcceleratorInfo.Accelerators[0].Count) != 6 {
		t.Errorf("the Neuron devices of inf2.24xlarge are %+v", d)
	}
	if !awssdk.ToBool(metal.BareMetal) || metal.Hypervisor != "" || metal.ProcessorInfo.SupportedArchitectures[0] != "arm64" {
		t.Errorf("m7g.metal is %+v", metal)
	}
}

func TestInstanceTypesAsked(t *testing.T) {
	client := ec2Client(start(t, nil))
	found, err := client.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{
		filter("processor-info.supported-architecture", "arm64"), filter("vcpu-info.default-vcpus", "2"), filter("instance-type", "m*"),
		filter("current-generation", "true"), filter("supported-usage-class", "spot"), filter("hypervisor", "nitro"),
	}})
	if err != nil || len(found.InstanceTypes) != 5 {
		t.Errorf("got %d Graviton types with 2 vCPUs (%v), want m6g, m6gd, m7g, m7gd, m8g", len(found.InstanceTypes), err)
	}
	_, err = client.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"m5.tiny"}})
	wantCode(t, err, "InvalidInstanceType")
	_, err = client.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{filter("colour", "red")}})
	wantCode(t, err, "InvalidParameterValue")
	_, err = client.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{MaxResults: awssdk.Int32(101)})
	wantCode(t, err, "InvalidParameterValue")
	_, err = client.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{NextToken: awssdk.String("nonsense")})
	wantCode(t, err, "InvalidNextToken")
	_, err = client.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{DryRun: awssdk.Bool(true)})
	wantCode(t, err, "DryRunOperation")
}

func TestInstanceTypeOfferings(t *testing.T) {
	client := ec2Client(start(t, nil))
	count := map[ec2types.LocationType]map[string]int{}
	for _, kind := range []ec2types.LocationType{"region", "availability-zone", "availability-zone-id"} {
		count[kind] = map[string]int{}
		pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(client, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: kind})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page.InstanceTypeOfferings {
				count[kind][awssdk.ToString(o.Location)]++
			}
		}
	}
	all := count["region"]["us-east-1"]
	for zone, id := range map[string]string{"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1c": "use1-az3"} {
		n := count["availability-zone"][zone]
		if n != count["availability-zone-id"][id] || n < all/2 {
			t.Errorf("%s offers %d types, by its id %d, the region %d", zone, n, count["availability-zone-id"][id], all)
		}
	}
	if total := count["availability-zone"]; len(slices.Collect(maps.Keys(total))) != 3 || total["us-east-1a"]+total["us-east-1b"]+total["us-east-1c"] >= 3*all {
		t.Errorf("of %d types no zone lacks one: %v", all, total)
	}
	one, err := client.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: "availability-zone", Filters: []ec2types.Filter{filter("instance-type", "m5.large"), filter("location", "us-east-1?")},
	})
	if err != nil || len(one.InstanceTypeOfferings) != 3 {
		t.Errorf("m5.large is offered %d times (%v), want 3", len(one.InstanceTypeOfferings), err)
	}
	_, err = client.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "outpost-moon"})
	wantCode(t, err, "InvalidParameterValue")
}

func TestSpotPriceHistory(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.Clock = clock.New(1) })
	client := ec2Client(server)
	prices := func(in *ec2.DescribeSpotPriceHistoryInput) []ec2types.SpotPrice {
		var out []ec2types.SpotPrice
		pages := ec2.NewDescribeSpotPriceHistoryPaginator(client, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, page.SpotPriceHistory...)
		}
		return out
	}
	// With the start at this moment, or after it, each type and zone has the one price that holds.
	for _, at := range []time.Time{time.Now(), time.Now().Add(time.Hour)} {
		now := prices(&ec2.DescribeSpotPriceHistoryInput{StartTime: &at, ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}})
		seen := map[string]bool{}
		for _, p := range now {
			key := string(p.InstanceType) + awssdk.ToString(p.AvailabilityZone)
			price, err := strconv.ParseFloat(awssdk.ToString(p.SpotPrice), 64)
			if seen[key] || err != nil || price <= 0 || awssdk.ToTime(p.Timestamp).After(time.Now()) {
				t.Fatalf("%s: %s at %v (seen before: %v), %v", key, awssdk.ToString(p.SpotPrice), p.Timestamp, seen[key], err)
			}
			seen[key] = true
		}
		if len(now) < 1000 {
			t.Errorf("got %d prices", len(now))
		}
	}
	day := prices(&ec2.DescribeSpotPriceHistoryInput{
		StartTime: awssdk.Time(time.Now().Add(-24 * time.Hour)), InstanceTypes: []ec2types.InstanceType{"m5.large"},
		AvailabilityZone: awssdk.String("us-east-1b"),
	})
	values := map[string]bool{}
	for _, p := range day {
		values[awssdk.ToString(p.SpotPrice)] = true
	}
	if len(day) < 70 || len(values) < 10 {
		t.Errorf("a day has %d prices, %d of them different", len(day), len(values))
	}
	if windows := prices(&ec2.DescribeSpotPriceHistoryInput{ProductDescriptions: []string{"Windows"}, StartTime: awssdk.Time(time.Now())}); len(windows) != 0 {
		t.Errorf("got %d prices of Windows", len(windows))
	}
}

func TestSubnets(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	discovery := []ec2types.Filter{filter("tag:karpenter.sh/discovery", "test")}
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: discovery})
	if err != nil || len(subnets.Subnets) != 3 {
		t.Fatalf("got %d subnets (%v), want 3", len(subnets.Subnets), err)
	}
	zones := map[string]string{}
	for _, s := range subnets.Subnets {
		zones[awssdk.ToString(s.AvailabilityZone)] = awssdk.ToString(s.AvailabilityZoneId)
		if awssdk.ToInt32(s.AvailableIpAddressCount) != 8187 {
			t.Errorf("a /19 has %d free addresses, want 8187", awssdk.ToInt32(s.AvailableIpAddressCount))
		}
	}
	if want := map[string]string{"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1c": "use1-az3"}; !maps.Equal(zones, want) {
		t.Errorf("got zones %v, want %v", zones, want)
	}
	createFleet(t, server, fleetInput(t, server, 7, "m5.large"))
	free := int32(0)
	subnets, err = client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	for _, s := range subnets.Subnets {
		free += awssdk.ToInt32(s.AvailableIpAddressCount)
	}
	if err != nil || free != 3*8187-7 {
		t.Errorf("%d addresses are free (%v), want %d", free, err, 3*8187-7)
	}
	_, err = client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-1"}})
	wantCode(t, err, "InvalidSubnetID.NotFound")
}

func TestSecurityGroupsAndZones(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	groups, err := client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{})
	if err != nil || len(groups.SecurityGroups) != 2 {
		t.Errorf("got %d security groups (%v), want 2", len(groups.SecurityGroups), err)
	}
	groups, err = client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{filter("group-name", "eks-*")}})
	if err != nil || len(groups.SecurityGroups) != 1 {
		t.Errorf("got %d security groups by name (%v), want 1", len(groups.SecurityGroups), err)
	}
	_, err = client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-1"}})
	wantCode(t, err, "InvalidGroup.NotFound")
	vpcs, err := client.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{server.Resources().VPC.ID}})
	if err != nil || len(vpcs.Vpcs) != 1 {
		t.Errorf("got %d VPCs (%v), want 1", len(vpcs.Vpcs), err)
	}
	azs, err := client.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{Filters: []ec2types.Filter{filter("zone-id", "use1-az2")}})
	if err != nil || len(azs.AvailabilityZones) != 1 || awssdk.ToString(azs.AvailabilityZones[0].ZoneName) != "us-east-1b" {
		t.Errorf("got zones %+v (%v), want us-east-1b", azs, err)
	}
	regions, err := client.DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{})
	if err != nil || len(regions.Regions) != 1 {
		t.Errorf("got %d regions (%v), want 1", len(regions.Regions), err)
	}
}

// What is not simulated is told as empty, not as an error.
func TestEmptyLists(t *testing.T) {
	client := ec2Client(start(t, nil))
	reservations, err := client.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{
		Filters: []ec2types.Filter{filter("state", "active")},
	})
	if err != nil || len(reservations.CapacityReservations) != 0 {
		t.Errorf("got %+v, %v", reservations, err)
	}
	groups, err := client.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{})
	if err != nil || len(groups.PlacementGroups) != 0 {
		t.Errorf("got %+v, %v", groups, err)
	}
	_, err = client.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{GroupNames: []string{"mine"}})
	wantCode(t, err, "InvalidPlacementGroup.Unknown")
}

func TestImages(t *testing.T) {
	client := ec2Client(start(t, nil))
	id := recommended(t, client)
	byID, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{filter("image-id", id), filter("state", "available")}})
	if err != nil || len(byID.Images) != 1 || byID.Images[0].Architecture != "x86_64" {
		t.Fatalf("the recommended AMI %s is %+v (%v)", id, byID, err)
	}
	byName, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{
		Owners: []string{"amazon"}, Filters: []ec2types.Filter{filter("name", "amazon-eks-node-al2023-arm64-standard-1.36-*")},
	})
	if err != nil || len(byName.Images) != 2 {
		t.Errorf("got %d AMIs by name (%v), want 2 releases", len(byName.Images), err)
	}
	mine, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
	if err != nil || len(mine.Images) != 0 {
		t.Errorf("got %d AMIs of our own (%v)", len(mine.Images), err)
	}
	_, err = client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{"ami-1"}})
	wantCode(t, err, "InvalidAMIID.NotFound")
}

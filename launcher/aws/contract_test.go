package aws_test

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	awsfake "github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/cloudtest"
	"github.com/slipway-k8s/slipway/manifests"
)

// TestContract holds launcher/aws, with the real SDK, to the contract on an AWS on the wire: the sandbox's, or the one that
// AWS_ENDPOINT_URL names.
func TestContract(t *testing.T) {
	endpoint := os.Getenv("AWS_ENDPOINT_URL")
	cloudtest.Run(t, func(t *testing.T) cloudtest.Fixture {
		t.Helper()
		if endpoint != "" {
			return elsewhere(t)
		}
		server := startAWS(t)
		return cloudtest.Fixture{
			Cloud: newCloud(t, server), Class: class(),
			NoCapacity: func(o cloud.Option) {
				server.ICE(cmp.Or(o.InstanceType, "all"), cmp.Or(o.Zone, "all"), cmp.Or(o.CapacityType, "all"), time.Hour)
			},
			Interrupt: func(id string) { send(t, server, spotWarning(id)) },
			Impair:    func(status cloud.InstanceStatus) { ail(t, server, status) },
			Garble:    func() { send(t, server, "this is not JSON {") },
		}
	})
}

func ail(t *testing.T, server *awsfake.Server, status cloud.InstanceStatus) {
	t.Helper()
	for check, since := range map[string]time.Time{"system": status.SystemImpaired, "instance": status.InstanceImpaired} {
		if err := server.FailCheck(status.ID, check, since); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range status.Events {
		if err := server.ScheduleEvent(status.ID, e.Code, e.Description); err != nil {
			t.Fatal(err)
		}
	}
}

func send(t *testing.T, server *awsfake.Server, body string) {
	t.Helper()
	if err := server.SendRaw(body); err != nil {
		t.Fatal(err)
	}
}

func spotWarning(id string) string {
	return `{"version":"0","id":"1e5527d7-bb36-4607-3370-4164db56a40e","detail-type":"EC2 Spot Instance Interruption Warning",
"source":"aws.ec2","account":"123456789012","time":"2026-01-02T03:04:05Z","region":"us-east-1",
"resources":["arn:aws:ec2:us-east-1:123456789012:instance/` + id + `"],"detail":{"instance-id":"` + id + `","instance-action":"terminate"}}`
}

// launcherKey is the access key that the launcher has in these tests.
const launcherKey = "AKIALAUNCHER"

// startAWS serves until the test ends. The launcher may do there what manifests/iam gives it, within the request limits that every
// account has; a request that is not as the service's model wants it fails the test.
func startAWS(tb testing.TB, change ...func(*awsfake.Config)) *awsfake.Server {
	tb.Helper()
	values := manifests.PolicyValues{
		Region: "us-east-1", AccountID: "123456789012", ClusterName: "prod", NodeRole: "KarpenterNodeRole-prod", InterruptionQueue: "prod",
	}
	var allowed policy.Policy
	for _, shipped := range []func(manifests.PolicyValues) ([]byte, error){manifests.LauncherPolicy, manifests.StandbyPolicy} {
		document, err := shipped(values)
		if err != nil {
			tb.Fatal(err)
		}
		part, err := policy.Parse(document)
		if err != nil {
			tb.Fatal(err)
		}
		allowed = allowed.With(part)
	}
	cfg := awsfake.Config{
		ClusterName: "prod", VisibleAfter: 200 * time.Millisecond, RunningAfter: 300 * time.Millisecond,
		StoppedAfter: 300 * time.Millisecond, TerminatedAfter: 300 * time.Millisecond, Policies: map[string]policy.Policy{launcherKey: allowed}, LimitedKeys: []string{launcherKey},
	}
	for _, f := range change {
		f(&cfg)
	}
	server, err := awsfake.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	server.SetCluster("https://prod.example.com", []byte("certificate"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("the AWS server ended with %v", err)
		}
		for _, v := range server.Violations() {
			tb.Errorf("a request is not as the service's model wants it: %s", v)
		}
	})
	return server
}

// awsConfig returns the launcher's configuration of the SDK for the server.
func awsConfig(tb testing.TB, server *awsfake.Server) awssdk.Config {
	tb.Helper()
	tb.Setenv("AWS_ENDPOINT_URL", server.URL())
	tb.Setenv("AWS_REGION", "us-east-1")
	tb.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	cfg, err := aws.LoadConfig(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Credentials = credentials.NewStaticCredentialsProvider(launcherKey, "secret", "")
	client := &http.Client{Transport: &http.Transport{}}
	cfg.HTTPClient = client
	tb.Cleanup(client.CloseIdleConnections)
	return cfg
}

func newCloud(tb testing.TB, server *awsfake.Server, change ...func(*aws.Config)) *aws.Cloud {
	tb.Helper()
	settings := aws.Config{AWS: awsConfig(tb, server), ClusterName: "prod", InterruptionQueue: "prod", Metrics: prometheus.NewPedanticRegistry()}
	settings.Periods.FirstPrices = time.Hour // These tests are about answers, whatever time they take.
	for _, f := range change {
		f(&settings)
	}
	c, err := aws.New(settings)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func class() *awsv1.EC2NodeClass {
	discovery := map[string]string{"karpenter.sh/discovery": "prod"}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "8f3c0f3a"},
		Spec: awsv1.EC2NodeClassSpec{
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
			Role:                       "KarpenterNodeRole-prod",
		},
	}
}

// Every family's alias leads to AMIs that its user data is written for, on both architectures.
func TestAliasesOnTheWire(t *testing.T) {
	server := startAWS(t)
	c := newCloud(t, server)
	for alias, want := range map[string]struct {
		architectures []string
		os, build     string
	}{
		"al2023@latest":       {[]string{"amd64", "arm64"}, "linux", ""},
		"bottlerocket@latest": {[]string{"amd64", "arm64"}, "linux", ""},
		"windows2019@latest":  {[]string{"amd64"}, "windows", "10.0.17763"},
		"windows2022@latest":  {[]string{"amd64"}, "windows", "10.0.20348"},
		"windows2025@latest":  {[]string{"amd64"}, "windows", "10.0.26100"},
	} {
		of := class()
		of.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias}}
		status, err := c.Resolve(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		of.Status = status
		types, err := c.InstanceTypes(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		architectures := map[string]bool{}
		for _, it := range types {
			architectures[it.Labels["kubernetes.io/arch"]] = true
			if it.Labels["kubernetes.io/os"] != want.os || it.Labels["node.kubernetes.io/windows-build"] != want.build {
				t.Errorf("%s: %s has the labels %v", alias, it.Name, it.Labels)
			}
		}
		if got := slices.Sorted(maps.Keys(architectures)); !slices.Equal(got, want.architectures) {
			t.Errorf("%s: instance types of the architectures %v, AMIs %+v", alias, got, status.AMIs)
		}
	}
}

// A region's offer has types with their zones, and prices of both kinds.
func TestReadOffer(t *testing.T) {
	server := startAWS(t)
	offer, err := aws.ReadOffer(t.Context(), awsConfig(t, server))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(offer.Types, func(f catalog.Facts) bool { return f.Name == "m5.large" })
	if i < 0 || len(offer.Types[i].Zones) == 0 || offer.OnDemand["m5.large"] <= 0 {
		t.Fatalf("%d types, m5.large at %d for %v", len(offer.Types), i, offer.OnDemand["m5.large"])
	}
	zone := offer.Types[i].Zones[0]
	if spot := offer.Spot[zone]["m5.large"]; spot <= 0 || spot >= offer.OnDemand["m5.large"] {
		t.Errorf("spot in %s for %v, on demand %v", zone, spot, offer.OnDemand["m5.large"])
	}
	server.Down(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := aws.ReadOffer(ctx, awsConfig(t, server)); err == nil {
		t.Error("an offer without AWS")
	}
}

// The launcher's calls succeed while AWS throttles: they are slower, and nothing is launched twice.
func TestThrottledOnTheWire(t *testing.T) {
	server := startAWS(t)
	c, of := newCloud(t, server), class()
	server.Throttle(2 * time.Second)
	status, err := c.Resolve(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	of.Status = status
	types, err := c.InstanceTypes(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	server.Throttle(time.Second)
	o := types[0].Offerings[0]
	out, err := c.Launch(t.Context(), cloud.LaunchInput{
		LaunchID: "launch-1", Class: of, Claims: []*karpv1.NodeClaim{{}},
		Options: []cloud.Option{{InstanceType: types[0].Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}},
	})
	if err != nil || len(out.InstanceIDs) != 1 || len(server.Instances()) != 1 {
		t.Errorf("%+v, %v, %d instances", out, err, len(server.Instances()))
	}
}

// EC2 launches and reports the tenancy that a claim requests.
func TestTenancyOnTheWire(t *testing.T) {
	server := startAWS(t)
	c, of := newCloud(t, server), class()
	status, err := c.Resolve(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	of.Status = status
	types, err := c.InstanceTypes(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	o := types[0].Offerings[0]
	for launch, tenancy := range map[string]string{"launch-1": "", "launch-2": catalog.TenancyDedicated} {
		_, err := c.Launch(t.Context(), cloud.LaunchInput{
			LaunchID: launch, Class: of, Claims: []*karpv1.NodeClaim{{}}, Tenancy: tenancy,
			Options: []cloud.Option{{InstanceType: types[0].Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			got, err := c.Instances(t.Context(), cloud.Selector{LaunchIDs: []string{launch}})
			if err == nil && len(got) == 1 && got[0].Tenancy == cmp.Or(tenancy, catalog.TenancyDefault) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, %v", launch, got, err)
			}
		}
	}
}

// An SSM parameter's value is the AMI; one that does not exist selects none.
func TestSSMParameterOnTheWire(t *testing.T) {
	server := startAWS(t)
	c := newCloud(t, server)
	const name = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/recommended/image_id"
	of := class()
	of.Spec.AMIFamily = new("AL2023")
	resolve := func(term awsv1.AMISelectorTerm) []awsv1.AMI {
		of.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{term}
		status, err := c.Resolve(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return status.AMIs
	}
	want := resolve(awsv1.AMISelectorTerm{SSMParameter: name})
	if len(want) != 1 || want[0].ID == "" {
		t.Fatalf("AMIs %+v", want)
	}
	for _, parameter := range []string{name, "/aws/service/none"} {
		got := resolve(awsv1.AMISelectorTerm{SSMParameter: parameter})
		if found := len(got) == 1 && got[0].ID == want[0].ID; found != (parameter == name) {
			t.Errorf("%s: AMIs %+v, want %s", parameter, got, want[0].ID)
		}
	}
	if byID := resolve(awsv1.AMISelectorTerm{ID: want[0].ID}); len(byID) != 1 || byID[0].Name != want[0].Name {
		t.Errorf("the AMI of that id: %+v, want %+v", byID, want)
	}
}

// What nodes use beside their instances costs what the region's price list says, which the launcher's role may read.
func TestRatesOnTheWire(t *testing.T) {
	server := startAWS(t)
	prices := map[string]float64{
		"EBS:VolumeUsage.gp3": 1.5, "EBS:VolumeP-Throughput.gp3": 2, "EBS:VolumeP-IOPS.io2.tier2": 3, "USE1-PublicIPv4:InUseAddress": 4, "CPUCredits:t3": 5,
	}
	for usage, factor := range prices {
		if err := server.SetPrice(usage, factor); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	c := newCloud(t, server, func(cfg *aws.Config) { cfg.Metrics = registry })
	nodeClass := class()
	status, err := c.Resolve(t.Context(), nodeClass)
	if err != nil {
		t.Fatal(err)
	}
	nodeClass.Status = status
	nodeClass.Spec.AssociatePublicIPAddress = new(true)
	nodeClass.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{
		{DeviceName: new("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{
			VolumeType: new("gp3"), VolumeSize: new(resource.MustParse("100Gi")), Throughput: new(int64(225)),
		}},
		{DeviceName: new("/dev/xvdb"), EBS: &awsv1.BlockDevice{VolumeType: new("io2"), VolumeSize: new(resource.MustParse("100Gi")), IOPS: new(int64(33000))}},
	}
	types, err := c.InstanceTypes(t.Context(), nodeClass)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(types, func(it catalog.InstanceType) bool { return it.Name == "t3.medium" })
	if at < 0 {
		t.Fatalf("no t3.medium among %d types", len(types))
	}
	month := 100*0.12 + 100*0.08 + 12.5 + 32000*0.065 + 1000*0.0455*3
	want := catalog.Charges{Volumes: catalog.Micro(month / catalog.HoursPerMonth), PublicIPv4: 0.02, BaselineCPU: 400, SurplusCPU: 0.25}
	if got := types[at].Charges; got != want {
		t.Errorf("t3.medium: %+v, want %+v", got, want)
	}
	if n, err := testutil.GatherAndCount(registry, "slipway_aws_builtin_charges"); err != nil || n != 17 {
		t.Errorf("%d series, %v", n, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "slipway_aws_builtin_charges" && m.GetGauge().GetValue() != 0 {
				t.Errorf("the built-in price of %v is used", m.GetLabel())
			}
		}
	}
}

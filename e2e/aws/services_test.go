package aws_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

func TestInstanceProfiles(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.Roles = []string{"nodes", "others"} })
	client := iam.NewFromConfig(config(server))
	name := awssdk.String("test_1")
	_, err := client.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity")
	create := &iam.CreateInstanceProfileInput{
		InstanceProfileName: name, Path: awssdk.String("/slipway/us-east-1/test/default/"),
		Tags: []iamtypes.Tag{{Key: awssdk.String("a"), Value: awssdk.String("b")}},
	}
	if _, err := client.CreateInstanceProfile(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateInstanceProfile(t.Context(), create)
	wantCode(t, err, "EntityAlreadyExists")
	add := func(role string) error {
		_, err := client.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: &role})
		return err
	}
	wantCode(t, add("nobody"), "NoSuchEntity")
	wantCode(t, add("path/nodes"), "ValidationError")
	if err := add("nodes"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, add("others"), "LimitExceeded")
	if _, err := client.TagInstanceProfile(t.Context(), &iam.TagInstanceProfileInput{
		InstanceProfileName: name, Tags: []iamtypes.Tag{{Key: awssdk.String("c"), Value: awssdk.String("d")}},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := client.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	if err != nil || len(got.InstanceProfile.Roles) != 1 || awssdk.ToString(got.InstanceProfile.Roles[0].RoleName) != "nodes" || len(got.InstanceProfile.Tags) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	_, err = client.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict")
	remove := &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: awssdk.String("nodes")}
	if _, err := client.RemoveRoleFromInstanceProfile(t.Context(), remove); err != nil {
		t.Fatal(err)
	}
	_, err = client.RemoveRoleFromInstanceProfile(t.Context(), remove)
	wantCode(t, err, "NoSuchEntity")
	if _, err := client.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetRole(t.Context(), &iam.GetRoleInput{RoleName: awssdk.String("others")}); err != nil {
		t.Error(err)
	}
	_, err = client.GetRole(t.Context(), &iam.GetRoleInput{RoleName: awssdk.String("nobody")})
	wantCode(t, err, "NoSuchEntity")
}

func TestListInstanceProfiles(t *testing.T) {
	client := iam.NewFromConfig(config(start(t, nil)))
	for i := range 7 {
		path := fmt.Sprintf("/slipway/%d/", i%2)
		if _, err := client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{
			InstanceProfileName: awssdk.String("p" + strconv.Itoa(i)), Path: &path,
		}); err != nil {
			t.Fatal(err)
		}
	}
	n, rounds := 0, 0
	pages := iam.NewListInstanceProfilesPaginator(client, &iam.ListInstanceProfilesInput{PathPrefix: awssdk.String("/slipway/0/"), MaxItems: awssdk.Int32(3)})
	for ; pages.HasMorePages(); rounds++ {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.InstanceProfiles)
	}
	if n != 4 || rounds != 2 {
		t.Errorf("%d profiles came on %d pages, want 4 on 2", n, rounds)
	}
}

func TestCallerIdentity(t *testing.T) {
	out, err := sts.NewFromConfig(config(start(t, nil))).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || awssdk.ToString(out.Account) != "123456789012" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestParameters(t *testing.T) {
	client := ssm.NewFromConfig(config(start(t, nil)))
	const al2023, bottlerocket = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023", "/aws/service/bottlerocket/aws-k8s-1.36"
	seen := map[string]bool{}
	for _, name := range []string{
		al2023 + "/x86_64/standard/recommended/image_id", al2023 + "/arm64/standard/recommended/image_id",
		al2023 + "/x86_64/nvidia/recommended/image_id", al2023 + "/arm64/nvidia/recommended/image_id", al2023 + "/x86_64/neuron/recommended/image_id",
		al2023 + "/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v20260605/image_id",
		bottlerocket + "/x86_64/latest/image_id", bottlerocket + "/arm64/latest/image_id", bottlerocket + "-nvidia/x86_64/latest/image_id",
		bottlerocket + "/x86_64/1.44.0/image_id",
		"/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id", "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id",
	} {
		out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: &name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		id := awssdk.ToString(out.Parameter.Value)
		if seen[id] || len(id) != len("ami-0123456789abcdef0") {
			t.Errorf("%s names %q, which another names too or is no AMI", name, id)
		}
		seen[id] = true
	}
	_, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: awssdk.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2/recommended/image_id")})
	wantCode(t, err, "ParameterNotFound")
	some, err := client.GetParameters(t.Context(), &ssm.GetParametersInput{Names: []string{bottlerocket + "/x86_64/latest/image_version", "/nothing"}})
	if err != nil || len(some.Parameters) != 1 || len(some.InvalidParameters) != 1 || awssdk.ToString(some.Parameters[0].Value) != "1.45.0" {
		t.Errorf("got %+v, %v", some, err)
	}
	n := 0
	pages := ssm.NewGetParametersByPathPaginator(client, &ssm.GetParametersByPathInput{Path: awssdk.String(al2023), Recursive: awssdk.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Parameters)
	}
	// 5 kinds, 2 releases and the recommended one, each a document and 4 values.
	if n != 5*3*5 {
		t.Errorf("%d parameters are below the path, want %d", n, 5*3*5)
	}
	out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: awssdk.String(al2023 + "/x86_64/standard/recommended")})
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]string
	if err := json.Unmarshal([]byte(awssdk.ToString(out.Parameter.Value)), &document); err != nil || document["image_id"] == "" {
		t.Errorf("the recommended AMI is %q, %v", awssdk.ToString(out.Parameter.Value), err)
	}
}

func TestPrices(t *testing.T) {
	client := pricing.NewFromConfig(config(start(t, nil)))
	match := func(terms ...string) (out []pricingtypes.Filter) {
		for i := 0; i < len(terms); i += 2 {
			out = append(out, pricingtypes.Filter{Field: &terms[i], Value: &terms[i+1], Type: pricingtypes.FilterTypeTermMatch})
		}
		return out
	}
	count := map[string]int{}
	for kind, filters := range map[string][]pricingtypes.Filter{
		"shared": match("regionCode", "us-east-1", "tenancy", "Shared", "operatingSystem", "Linux", "productFamily", "Compute Instance", "serviceCode", "AmazonEC2"),
		"metal":  match("tenancy", "Dedicated", "productFamily", "Compute Instance (bare metal)", "preInstalledSw", "NA", "capacitystatus", "Used", "marketoption", "OnDemand"),
		"no":     match("operatingSystem", "Windows"),
	} {
		pages := pricing.NewGetProductsPaginator(client, &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2"), Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			count[kind] += len(page.PriceList)
		}
	}
	if count["shared"] < 350 || count["metal"] < 40 || count["no"] != 0 {
		t.Errorf("got products %v", count)
	}
	out, err := client.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2"), Filters: match("instanceType", "m5.large", "tenancy", "Shared")})
	if err != nil || len(out.PriceList) != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	var product struct {
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct{ PricePerUnit map[string]string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out.PriceList[0]), &product); err != nil {
		t.Fatal(err)
	}
	for _, term := range product.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			if got := dimension.PricePerUnit["USD"]; got != "0.0960000000" {
				t.Errorf("m5.large costs %s", got)
			}
		}
	}
	_, err = client.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonMoon")})
	wantCode(t, err, "InvalidParameterException")
}

// What instances use beside their compute is listed by usage type.
func TestUsagePrices(t *testing.T) {
	server := start(t, nil)
	if err := server.SetPrice("EBS:VolumeUsage.gp3", 2); err != nil {
		t.Fatal(err)
	}
	client := pricing.NewFromConfig(config(server))
	for _, tc := range []struct {
		service, field, value string
		kind                  pricingtypes.FilterType
		n                     int
		has                   string
	}{
		{"AmazonEC2", "volumeApiName", "gp3", pricingtypes.FilterTypeTermMatch, 3, `"USD":"0.1600000000"`},
		{"AmazonEC2", "volumeApiName", "io2", pricingtypes.FilterTypeTermMatch, 4, `"USD":"0.0318500000"`},
		{"AmazonEC2", "productFamily", "CPU Credits", pricingtypes.FilterTypeTermMatch, 4, `"usagetype":"CPUCredits:t4g"`},
		{"AmazonVPC", "usagetype", "InUseAddress", pricingtypes.FilterTypeContains, 1, `"USD":"0.0050000000"`},
		{"AmazonVPC", "volumeApiName", "gp3", pricingtypes.FilterTypeTermMatch, 0, ""},
	} {
		out, err := client.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: &tc.service, Filters: []pricingtypes.Filter{
			{Field: &tc.field, Value: &tc.value, Type: tc.kind}, {Field: awssdk.String("regionCode"), Value: awssdk.String("us-east-1"), Type: pricingtypes.FilterTypeTermMatch},
		}})
		if err != nil || len(out.PriceList) != tc.n || !strings.Contains(strings.Join(out.PriceList, ""), tc.has) {
			t.Errorf("%s %s %s: %q, %v", tc.service, tc.field, tc.value, out.PriceList, err)
		}
	}
}

func TestCluster(t *testing.T) {
	server := start(t, nil)
	client := eks.NewFromConfig(config(server))
	out, err := client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: awssdk.String("test")})
	if err != nil {
		t.Fatal(err)
	}
	c := out.Cluster
	ca, err := base64.StdEncoding.DecodeString(awssdk.ToString(c.CertificateAuthority.Data))
	if err != nil || string(ca) != "certificate" {
		t.Errorf("the certificate authority is %q, %v", ca, err)
	}
	if awssdk.ToString(c.Endpoint) != "https://127.0.0.1:6443" || awssdk.ToString(c.Version) != "1.36" || c.Status != "ACTIVE" ||
		awssdk.ToString(c.KubernetesNetworkConfig.ServiceIpv4Cidr) != "10.100.0.0/16" || awssdk.ToTime(c.CreatedAt).IsZero() {
		t.Errorf("got %+v", c)
	}
	_, err = client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: awssdk.String("other")})
	wantCode(t, err, "ResourceNotFoundException")
	list, err := client.ListClusters(t.Context(), &eks.ListClustersInput{})
	if err != nil || len(list.Clusters) != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

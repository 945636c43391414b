package aws

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is the wire's answer to one call.
type answer struct {
	status int
	body   string
}

func ok(body string) answer { return answer{http.StatusOK, body} }

// refuse is an error of EC2 (API reference, "Error codes": the common form of EC2's error response).
func refuse(status int, code, message string) answer {
	return answer{status, "<Response><Errors><Error><Code>" + code + "</Code><Message>" + message +
		"</Message></Error></Errors><RequestID>r</RequestID></Response>"}
}

// wire is an EC2 endpoint whose answers a test writes. Calls without an answer fail the test.
type wire struct {
	t *testing.T

	mu      sync.Mutex
	answers map[string]func(url.Values) answer
	calls   []url.Values
}

// on sets the answers to the calls of an action, in turn; the last stays.
func (w *wire) on(action string, list ...answer) {
	w.handle(action, func(url.Values) answer {
		next := list[0]
		if len(list) > 1 {
			list = list[1:]
		}
		return next
	})
}

func (w *wire) handle(action string, f func(url.Values) answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[action] = f
}

// made lists the calls of an action.
func (w *wire) made(action string) []url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(v url.Values) bool { return v.Get("Action") != action })
}

// ServeHTTP answers in the EC2 Query protocol.
func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, maps.Clone(r.PostForm))
	f, ok := w.answers[r.PostForm.Get("Action")]
	if !ok {
		w.t.Errorf("an unexpected call: %s", r.PostForm.Get("Action"))
		http.Error(rw, "unexpected", http.StatusBadRequest)
		return
	}
	a := f(r.PostForm)
	rw.Header().Set("Content-Type", "text/xml")
	rw.WriteHeader(a.status)
	fmt.Fprint(rw, a.body)
}

// newWire starts an endpoint with three subnets, at which launch templates can be created, and a Cloud that has m7g.large and m7g.xlarge.
func newWire(t *testing.T, change ...func(*Config)) (*wire, *Cloud) {
	t.Helper()
	w := &wire{t: t, answers: map[string]func(url.Values) answer{}}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	cfg := Config{
		AWS: awssdk.Config{
			Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: client,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
			Retryer: func() awssdk.Retryer {
				return retry.NewStandard(func(o *retry.StandardOptions) {
					o.MaxAttempts, o.RateLimiter = 4, ratelimit.None
					o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
				})
			},
		},
		ClusterName: "prod", ClusterEndpoint: "https://prod", ClusterCA: "Y2E=", ServiceCIDR: "10.0.0.0/16", KubernetesVersion: "1.36",
	}
	for _, c := range change {
		c(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	zones := []string{"us-east-1a", "us-east-1b"}
	both := []string{"on-demand", "spot"}
	c.known.set(market{
		onDemandAt: time.Now(), spotAt: time.Now(), ratesAt: time.Now(), dedicatedAt: time.Now(),
		facts: map[string]catalog.Facts{
			"m7g.large":  {Name: "m7g.large", Arch: "arm64", VCPUs: 2, MemoryMiB: 8192, Zones: zones, CapacityTypes: both},
			"m7g.xlarge": {Name: "m7g.xlarge", Arch: "arm64", VCPUs: 4, MemoryMiB: 16384, Zones: zones, CapacityTypes: both},
		},
		onDemand: onDemandPrices{"m7g.large": 0.08, "m7g.xlarge": 0.16},
		spot: spotPrices{
			"m7g.large":  {"us-east-1a": 0.03, "us-east-1b": 0.031},
			"m7g.xlarge": {"us-east-1a": 0.06, "us-east-1b": 0.061},
		},
	})
	w.on("DescribeSubnets", ok(`<DescribeSubnetsResponse><subnetSet>`+
		subnetXML("subnet-1", "us-east-1a", 10)+subnetXML("subnet-2", "us-east-1a", 20)+subnetXML("subnet-3", "us-east-1b", 5)+
		`</subnetSet></DescribeSubnetsResponse>`))
	w.handle("CreateLaunchTemplate", func(v url.Values) answer {
		return ok("<CreateLaunchTemplateResponse><launchTemplate><launchTemplateId>lt-1</launchTemplateId><launchTemplateName>" +
			v.Get("LaunchTemplateName") + "</launchTemplateName></launchTemplate></CreateLaunchTemplateResponse>")
	})
	return w, c
}

func subnetXML(id, zone string, free int) string {
	return fmt.Sprintf("<item><subnetId>%s</subnetId><availabilityZone>%s</availabilityZone><availabilityZoneId>use1-%s</availabilityZoneId>"+
		"<availableIpAddressCount>%d</availableIpAddressCount></item>", id, zone, zone[len(zone)-1:], free)
}

// fleet is CreateFleet's answer.
func fleet(ids []string, errors ...string) answer {
	var out strings.Builder
	out.WriteString("<CreateFleetResponse><fleetId>fleet-1</fleetId><fleetInstanceSet>")
	for _, id := range ids {
		fmt.Fprintf(&out, "<item><instanceIds><item>%s</item></instanceIds><instanceType>m7g.large</instanceType></item>", id)
	}
	out.WriteString("</fleetInstanceSet><errorSet>" + strings.Join(errors, "") + "</errorSet></CreateFleetResponse>")
	return ok(out.String())
}

func fleetError(code, message, subnet string) string {
	return fleetErrorOf("m7g.large", code, message, subnet)
}

func fleetErrorOf(instanceType, code, message, subnet string) string {
	var text strings.Builder
	_ = xml.EscapeText(&text, []byte(message))
	return "<item><errorCode>" + code + "</errorCode><errorMessage>" + text.String() +
		"</errorMessage><launchTemplateAndOverrides><overrides><instanceType>" + instanceType + "</instanceType><subnetId>" + subnet + "</subnetId></overrides></launchTemplateAndOverrides></item>"
}

// nodeClass is resolved.
func nodeClass() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u"},
		Spec: awsv1.EC2NodeClassSpec{
			AMISelectorTerms:    []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"discovery": "prod"}}},
			Role:                "node", Tags: map[string]string{"team": "a"},
		},
		Status: awsv1.EC2NodeClassStatus{
			Subnets: []awsv1.Subnet{
				{ID: "subnet-1", Zone: "us-east-1a", ZoneID: "use1-a"},
				{ID: "subnet-2", Zone: "us-east-1a", ZoneID: "use1-a"},
				{ID: "subnet-3", Zone: "us-east-1b", ZoneID: "use1-b"},
			},
			SecurityGroups: []awsv1.SecurityGroup{{ID: "sg-1"}},
			AMIs: []awsv1.AMI{{ID: "ami-arm", Requirements: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}},
			}}},
			InstanceProfile: "profile",
		},
	}
}

func option(instanceType, zone, capacityType string) cloud.Option {
	return cloud.Option{InstanceType: instanceType, Zone: zone, CapacityType: capacityType, Price: 1, MaxPods: 29}
}

func launchInput(id string, n int, options ...cloud.Option) cloud.LaunchInput {
	in := cloud.LaunchInput{
		LaunchID: id, Class: nodeClass(), Options: options, Labels: map[string]string{"a": "b"},
		Taints: []cloud.Taint{{Key: catalog.StartingTaintKey, Effect: "NoSchedule"}},
	}
	for range n {
		in.Claims = append(in.Claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{karpv1.NodePoolLabelKey: "pool"},
		}})
	}
	return in
}

// refreshing runs Refresh until the test ends.
func refreshing(t *testing.T, c *Cloud) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Refresh(ctx); err != nil {
			t.Errorf("Refresh: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

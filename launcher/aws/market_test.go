package aws

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/drift"
)

// shop implements the actions of EC2 and the operations of the Price List API that return types and prices.
type shop struct {
	mu      sync.Mutex
	answers map[string]answer
}

func (s *shop) set(name string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = a
}

// RoundTrip answers without a network, so that time in a test can be synthetic.
func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	_, name, json := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !json {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		name = r.PostForm.Get("Action")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.answers[name]
	if !known {
		a = refuse(http.StatusNotImplemented, "NotImplemented", name)
	}
	w := httptest.NewRecorder()
	w.WriteHeader(a.status)
	_, err := w.WriteString(a.body)
	return w.Result(), err
}

func instanceTypeXML(name string) answer {
	return ok("<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>" + name + "</instanceType><hypervisor>nitro</hypervisor>" +
		"<supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>" +
		"<processorInfo><supportedArchitectures><item>arm64</item></supportedArchitectures></processorInfo>" +
		"<vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>" +
		"</item></instanceTypeSet></DescribeInstanceTypesResponse>")
}

// spotXML has a spot price of m7g.large; none for an empty text.
func spotXML(price string) answer {
	if price != "" {
		price = "<item><instanceType>m7g.large</instanceType><availabilityZone>us-east-1a</availabilityZone><spotPrice>" + price +
			"</spotPrice><timestamp>2026-01-01T00:00:00Z</timestamp></item>"
	}
	return ok("<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>" + price + "</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>")
}

func priceJSON(name, price string) answer {
	return ok(`{"FormatVersion":"aws_v1","PriceList":["{\"product\":{\"attributes\":{\"instanceType\":\"` + name +
		`\"}},\"terms\":{\"OnDemand\":{\"a\":{\"priceDimensions\":{\"b\":{\"pricePerUnit\":{\"USD\":\"` + price + `\"}}}}}}}"]}`)
}

func newShop(t *testing.T, change ...func(*Config)) (*shop, *Cloud) {
	t.Helper()
	s := &shop{answers: map[string]answer{
		"DescribeInstanceTypes": instanceTypeXML("m7g.large"),
		"DescribeInstanceTypeOfferings": ok("<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item><instanceType>m7g.large</instanceType>" +
			"<location>us-east-1a</location></item></instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>"),
		"GetProducts":              priceJSON("m7g.large", "0.0816"),
		"DescribeSpotPriceHistory": spotXML("0.03"),
		"DescribeLaunchTemplates":  ok("<DescribeLaunchTemplatesResponse/>"),
	}}
	cfg := Config{ClusterName: "prod", AWS: awssdk.Config{
		Region: "us-east-1", HTTPClient: &http.Client{Transport: s}, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: func() awssdk.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), 1) },
	}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// offered are the capacity types and prices that m7g.large is offered for.
func offered(t *testing.T, c *Cloud) map[string]float64 {
	t.Helper()
	list, err := c.InstanceTypes(t.Context(), nodeClass())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, it := range list {
		for _, o := range it.Offerings {
			out[o.CapacityType] = catalog.Micro(o.Price - it.Charges.Fixed()) // without the volumes
		}
	}
	return out
}

// Without the Price List API the built-in prices are used. Without spot prices no spot capacity is bought.
func TestMarketDegrades(t *testing.T) {
	table, err := builtinPrices("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	listed := table["m7g.large"]
	denied := refuse(http.StatusForbidden, "UnauthorizedOperation", "not authorized")
	for name, tc := range map[string]struct {
		set     func(*shop, *Config)
		want    map[string]float64
		builtin float64
	}{
		"all there": {func(*shop, *Config) {}, map[string]float64{"on-demand": 0.0816, "spot": 0.03}, 0},
		"no permission": {func(s *shop, _ *Config) {
			s.set("GetProducts", answer{http.StatusBadRequest, `{"__type":"AccessDeniedException","message":"no"}`})
		}, map[string]float64{"on-demand": listed, "spot": 0.03}, 1},
		"no such API": {func(s *shop, _ *Config) {
			s.set("GetProducts", answer{http.StatusNotImplemented, "<html>no</html>"})
		}, map[string]float64{"on-demand": listed, "spot": 0.03}, 1},
		"out of order": {func(s *shop, _ *Config) {
			s.set("GetProducts", answer{http.StatusInternalServerError, "{}"})
		}, map[string]float64{"on-demand": listed, "spot": 0.03}, 1},
		"nothing listed": {func(s *shop, _ *Config) {
			s.set("GetProducts", ok(`{"PriceList":[]}`))
		}, map[string]float64{"on-demand": listed, "spot": 0.03}, 1},
		"isolated":       {func(_ *shop, c *Config) { c.IsolatedVPC = true }, map[string]float64{"on-demand": listed, "spot": 0.03}, 1},
		"no spot prices": {func(s *shop, _ *Config) { s.set("DescribeSpotPriceHistory", denied) }, map[string]float64{"on-demand": 0.0816}, 0},
		"no usable spot prices": {func(s *shop, _ *Config) {
			items := ""
			for i, price := range []string{"-0.03", "NaN", "+Inf", "0", "three cents", ""} {
				items += fmt.Sprintf("<item><instanceType>m7g.large</instanceType><availabilityZone>us-east-1a</availabilityZone><spotPrice>%s</spotPrice>"+
					"<timestamp>2026-01-0%dT00:00:00Z</timestamp></item>", price, i+1)
			}
			s.set("DescribeSpotPriceHistory", ok("<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>"+items+"</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>"))
		}, map[string]float64{"on-demand": 0.0816}, 0},
		"a negative price on demand": {func(s *shop, _ *Config) {
			s.set("GetProducts", priceJSON("m7g.large", "-0.0816"))
		}, map[string]float64{"on-demand": listed, "spot": 0.03}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newShop(t)
			tc.set(s, &c.cfg)
			if got := offered(t, c); !maps.Equal(got, tc.want) {
				t.Errorf("offered %v, want %v", got, tc.want)
			}
			if got := testutil.ToFloat64(c.metrics.builtin); got != tc.builtin {
				t.Errorf("built-in prices: metric %v, want %v", got, tc.builtin)
			}
		})
	}
	s, c := newShop(t)
	s.set("DescribeInstanceTypes", denied)
	if _, err := c.InstanceTypes(t.Context(), nodeClass()); err == nil {
		t.Error("no error without instance types")
	}
}

// A node does not drift because the price of its offering is not known, though nothing is bought there.
func TestUnknownPricesAreNoDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		set                        func(*shop, *Config)
		instanceType, capacityType string
	}{
		"denied spot prices": {func(s *shop, _ *Config) {
			s.set("DescribeSpotPriceHistory", refuse(http.StatusForbidden, "UnauthorizedOperation", "not authorized"))
		}, "m7g.large", "spot"},
		"a type without a built-in price": {func(s *shop, c *Config) {
			c.IsolatedVPC = true
			for _, action := range []string{"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"} {
				s.set(action, ok(strings.ReplaceAll(s.answers[action].body, "m7g.large", "r5d.large")))
			}
		}, "r5d.large", "on-demand"},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newShop(t)
			tc.set(s, &c.cfg)
			if got := offered(t, c); got[tc.capacityType] != 0 {
				t.Errorf("offered %v", got)
			}
			all, err := c.AllInstanceTypes(t.Context(), nodeClass())
			if err != nil {
				t.Fatal(err)
			}
			look := func(zone string) string {
				claim := &karpv1.NodeClaim{}
				claim.Labels = map[string]string{
					corev1.LabelInstanceTypeStable: tc.instanceType, corev1.LabelTopologyZone: zone, karpv1.CapacityTypeLabelKey: tc.capacityType,
				}
				class := nodeClass()
				class.Status.AMIs = nil
				return drift.Decide(drift.Facts{Now: time.Now(), Claim: claim, Pool: &karpv1.NodePool{}, Class: class, Types: all}).Reason
			}
			if got := look("us-east-1a"); got != "" {
				t.Errorf("a node whose price is unknown drifts: %s", got)
			}
			if got := look("us-east-1b"); got != drift.InstanceTypeNotFound {
				t.Errorf("where EC2 does not have the type: %q, want %s", got, drift.InstanceTypeNotFound)
			}
			for _, it := range all {
				for _, o := range it.Offerings {
					if o.Available != (o.Price > 0) {
						t.Errorf("%s: offering %+v", it.Name, o)
					}
				}
			}
		})
	}
}

// A refresh that fails keeps the last answer and is counted; it is tried again soon, and its answer then counts.
func TestRefreshKeepsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newShop(t)
		s.set("DescribeSpotPriceHistory", refuse(http.StatusInternalServerError, "InternalError", "soon"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Refresh(ctx) }()
		synctest.Wait()
		check := func(what string, onDemand, spot, failures float64) {
			t.Helper()
			if got := offered(t, c); got["on-demand"] != onDemand || got["spot"] != spot {
				t.Errorf("%s: offered %v, want %v and %v", what, got, onDemand, spot)
			}
			if got := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partSpot)); (got > 0) != (failures > 0) {
				t.Errorf("%s: %v failures", what, got)
			}
		}
		check("before EC2 tells spot prices", 0.0816, 0, 1)
		s.set("DescribeSpotPriceHistory", spotXML("0.04"))
		time.Sleep(time.Minute)
		check("a minute later", 0.0816, 0.04, 1)
		for _, name := range []string{"DescribeSpotPriceHistory", "DescribeInstanceTypes", "DescribeInstanceTypeOfferings"} {
			s.set(name, refuse(http.StatusInternalServerError, "InternalError", "later"))
		}
		s.set("GetProducts", answer{http.StatusInternalServerError, `{"__type":"InternalErrorException","message":"later"}`})
		time.Sleep(13 * time.Hour)
		check("while AWS is down", 0.0816, 0.04, 1)
		if got := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partTypes)); got == 0 {
			t.Error("no failure of the instance types counted")
		}
		s.set("GetProducts", priceJSON("m7g.large", "0.09"))
		time.Sleep(10 * time.Minute)
		check("once it is back", 0.09, 0.04, 1)
		counted := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partSpot))
		for what, a := range map[string]answer{
			"denied": refuse(http.StatusForbidden, "UnauthorizedOperation", "not authorized"), "not AWS's": {http.StatusNotFound, "<html>no</html>"},
			"empty": spotXML(""),
		} {
			s.set("DescribeSpotPriceHistory", spotXML("0.04"))
			time.Sleep(10 * time.Minute)
			s.set("DescribeSpotPriceHistory", a)
			time.Sleep(13 * time.Hour)
			check(what, 0.09, 0.04, 1)
			now := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partSpot))
			if now == counted {
				t.Errorf("%s: no failure counted", what)
			}
			counted = now
		}
		s.set("DescribeSpotPriceHistory", spotXML("0.05"))
		time.Sleep(6 * time.Minute)
		check("allowed again", 0.09, 0.05, 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// slow lets requests wait before they are answered, and counts them by action.
type slow struct {
	next http.RoundTripper
	wait time.Duration

	mu    sync.Mutex
	asked map[string]int
}

// RoundTrip implements http.RoundTripper.
func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.asked[r.PostForm.Get("Action")]++
	s.mu.Unlock()
	time.Sleep(s.wait)
	return s.next.RoundTrip(r)
}

func (s *slow) count(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[action]
}

// While EC2 returns no instance types, all EC2NodeClasses of a round wait for one answer together, whether they ask one after the other or at the same
// time. The next round asks again.
func TestClassesWaitForOneFailureTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls *slow
		s, c := newShop(t, func(cfg *Config) {
			calls = &slow{next: cfg.AWS.HTTPClient.(*http.Client).Transport, wait: time.Minute, asked: map[string]int{}}
			cfg.AWS.HTTPClient = &http.Client{Transport: calls}
		})
		const action = "DescribeInstanceTypeOfferings"
		works := s.answers[action]
		s.set(action, refuse(http.StatusInternalServerError, "InternalError", "later"))
		round := func() {
			t.Helper()
			before, began := calls.count(action), time.Now()
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					for range 3 {
						if _, err := c.InstanceTypes(t.Context(), nodeClass()); err == nil {
							t.Error("no error without instance types")
						}
					}
				})
			}
			group.Wait()
			if asked, took := calls.count(action)-before, time.Since(began); asked != 1 || took > 2*time.Minute {
				t.Errorf("a round asked EC2 %d times within %v", asked, took)
			}
		}
		round()
		time.Sleep(2 * time.Second)
		round()
		s.set(action, works)
		time.Sleep(2 * time.Second)
		if got := offered(t, c); got["on-demand"] != 0.0816 {
			t.Errorf("offered %v once EC2 answers", got)
		}
	})
}

// A launcher that EC2 has no spot prices for asks again without a failure: the permission may come a minute later, or never.
func TestSpotPricesComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		failures, lines := 0, 0
		s, c := newShop(t, func(cfg *Config) {
			cfg.Logger = funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				if lines++; strings.Contains(args, `"error"=`) {
					failures++
				}
			}, funcr.Options{})
		})
		s.set("DescribeSpotPriceHistory", refuse(http.StatusForbidden, "UnauthorizedOperation", "not authorized"))
		refreshing(t, c)
		time.Sleep(13 * time.Hour)
		mu.Lock()
		if failures > 0 || lines > 5 {
			t.Errorf("%d lines logged, %d of failures", lines, failures)
		}
		mu.Unlock()
		if got := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partSpot)); got > 0 {
			t.Errorf("%v failures counted", got)
		}
		if got := offered(t, c); got["spot"] != 0 {
			t.Errorf("without permission: offered %v", got)
		}
		s.set("DescribeSpotPriceHistory", spotXML("0.04"))
		time.Sleep(6 * time.Minute)
		if got := offered(t, c); got["spot"] != 0.04 {
			t.Errorf("with permission: offered %v", got)
		}
	})
}

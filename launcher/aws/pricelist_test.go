package aws

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// half is a price list that has no product whose filters contain a text.
type half struct {
	next http.RoundTripper
	text atomic.Pointer[string]
}

func (l *half) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if text := l.text.Load(); text != nil && strings.Contains(string(body), *text) {
		return (&shop{answers: map[string]answer{"GetProducts": ok(`{"PriceList":[]}`)}}).RoundTrip(r)
	}
	return l.next.RoundTrip(r)
}

// A price list without shared instances or without bare metal is no answer: the last prices stay, and it is asked for again soon.
func TestHalfAPriceList(t *testing.T) {
	for _, missing := range []string{`"Shared"`, "Compute Instance (bare metal)"} {
		synctest.Test(t, func(t *testing.T) {
			list := &half{}
			s, c := newShop(t, func(cfg *Config) {
				list.next = cfg.AWS.HTTPClient.(*http.Client).Transport
				cfg.AWS.HTTPClient = &http.Client{Transport: list}
			})
			refreshing(t, c)
			synctest.Wait()
			check := func(what string, want float64) {
				t.Helper()
				if got := offered(t, c)["on-demand"]; got != want {
					t.Errorf("%s: m7g.large costs %v, want %v", what, got, want)
				}
			}
			check("at first", 0.0816)
			list.text.Store(&missing)
			s.set("GetProducts", priceJSON("m7g.large", "0.07"))
			time.Sleep(13 * time.Hour)
			check("without "+missing, 0.0816)
			if got := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partOnDemand)); got == 0 {
				t.Errorf("without %s: no failure is counted", missing)
			}
			list.text.Store(nil)
			time.Sleep(10 * time.Minute)
			check("once it is whole", 0.07)
		})
	}
}

// A type that the price list does not name keeps its last price, the built-in one at first.
func TestTypesThatThePriceListDoesNotName(t *testing.T) {
	table, err := builtinPrices("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, c := newShop(t)
		for i, step := range []struct {
			named string
			want  float64
		}{{"m7g.metal", table["m7g.large"]}, {"m7g.large", 0.07}, {"m7g.metal", 0.07}} {
			s.set("GetProducts", priceJSON(step.named, "0.07"))
			if i == 0 {
				refreshing(t, c)
			}
			time.Sleep(13 * time.Hour)
			if got := offered(t, c)["on-demand"]; got != step.want {
				t.Errorf("once it names %s: m7g.large costs %v, want %v", step.named, got, step.want)
			}
		}
	})
}

// dedicatedList is a price list that gives no answer about dedicated tenancy, or fails.
type dedicatedList struct {
	next          http.RoundTripper
	silent, fails atomic.Bool
}

func (l *dedicatedList) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	asked := strings.Contains(string(body), `"Dedicated"`) && !strings.Contains(string(body), "bare metal")
	switch {
	case asked && l.silent.Load():
		<-r.Context().Done()
		return nil, r.Context().Err()
	case asked && l.fails.Load():
		return (&shop{answers: map[string]answer{"GetProducts": {http.StatusInternalServerError, `{"__type":"InternalErrorException","message":"later"}`}}}).RoundTrip(r)
	}
	return l.next.RoundTrip(r)
}

// Prices of dedicated tenancy that are not answered are asked for again soon, and hold up no others.
func TestDedicatedPricesComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &dedicatedList{}
		s, c := newShop(t, func(cfg *Config) {
			list.next = cfg.AWS.HTTPClient.(*http.Client).Transport
			cfg.AWS.HTTPClient = &http.Client{Transport: list}
		})
		check := func(what string, onDemand, dedicated float64) {
			t.Helper()
			if got := offered(t, c)["on-demand"]; got != onDemand {
				t.Errorf("%s: m7g.large costs %v, want %v", what, got, onDemand)
			}
			if got := c.known.get().dedicated["m7g.large"]; got != dedicated {
				t.Errorf("%s: with dedicated tenancy it costs %v, want %v", what, got, dedicated)
			}
			if got := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partDedicated)); got == 0 {
				t.Errorf("%s: no failure is counted", what)
			}
		}
		list.silent.Store(true)
		check("at first", 0.0816, 0)
		list.silent.Store(false)
		refreshing(t, c)
		time.Sleep(time.Minute)
		check("a minute later", 0.0816, 0.0816)
		list.fails.Store(true)
		s.set("GetProducts", priceJSON("m7g.large", "0.09"))
		time.Sleep(13 * time.Hour)
		check("while it fails", 0.09, 0.0816)
		list.fails.Store(false)
		time.Sleep(10 * time.Minute)
		check("once it works", 0.09, 0.09)
	})
}

// In China, AWS's spot prices are in CNY: the built-in prices of us-east-1, in USD, are too low beside them as they are. Spot capacity stays the cheaper one.
func TestBuiltinPricesInChina(t *testing.T) {
	s, c := newShop(t)
	c.cfg.AWS.Region, c.cfg.IsolatedVPC = "cn-north-1", true
	s.set("DescribeSpotPriceHistory", ok(`<DescribeSpotPriceHistoryResponse><spotPriceHistorySet><item><instanceType>m7g.large</instanceType>
<availabilityZone>us-east-1a</availabilityZone><spotPrice>0.25</spotPrice><timestamp>2026-01-01T00:00:00Z</timestamp></item></spotPriceHistorySet></DescribeSpotPriceHistoryResponse>`))
	if got, want := offered(t, c), map[string]float64{"on-demand": 0.816, "spot": 0.25}; !maps.Equal(got, want) {
		t.Errorf("offered %v, want %v", got, want)
	}
}

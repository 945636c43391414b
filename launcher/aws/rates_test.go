package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// listed is a product of the price list.
func listed(attribute, value, unit, price string) string {
	return fmt.Sprintf(`{"product":{"attributes":{%q:%q}},"terms":{"OnDemand":{"A.B":{"priceDimensions":{"A.B.C":{"unit":%q,"pricePerUnit":{"USD":%q}}}}}}}`,
		attribute, value, unit, price)
}

// gp3 is the product of a GiB of gp3.
func gp3(price string) string {
	return listed("usagetype", "EBS:VolumeUsage.gp3", "GB-Mo", price)
}

func priceList(t *testing.T, products ...string) answer {
	t.Helper()
	text, err := json.Marshal(map[string]any{"FormatVersion": "aws_v1", "PriceList": products})
	if err != nil {
		t.Fatal(err)
	}
	return ok(string(text))
}

// volumeCost is what the volumes of m7g.large cost per month.
func volumeCost(t *testing.T, c *Cloud) float64 {
	t.Helper()
	list, err := c.InstanceTypes(t.Context(), nodeClass())
	if err != nil || len(list) != 1 {
		t.Fatalf("types %v, %v", list, err)
	}
	return math.Round(list[0].Charges.Volumes*catalog.HoursPerMonth*100) / 100
}

// Volumes cost what the Price List API lists. What it denies, or lists unusably, costs the built-in price; what it listed before stays.
func TestVolumesCostWhatTheRegionAsks(t *testing.T) {
	denied := answer{http.StatusBadRequest, `{"__type":"AccessDeniedException","message":"no"}`}
	for name, tc := range map[string]struct {
		answer  answer
		want    float64
		builtin float64
	}{
		"listed":     {priceList(t, listed("instanceType", "m7g.large", "Hrs", "0.1"), gp3("0.1")), 2, 0},
		"negative":   {priceList(t, gp3("-0.1")), 1.6, 1},
		"denied":     {denied, 1.6, 1},
		"no service": {answer{http.StatusBadRequest, `{"__type":"InvalidParameterException","message":"no"}`}, 1.6, 1},
		"down":       {answer{http.StatusInternalServerError, "{}"}, 1.6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newShop(t)
			s.set("GetProducts", tc.answer)
			if got := volumeCost(t, c); got != tc.want {
				t.Errorf("20 GiB of gp3 cost %v USD per month, want %v", got, tc.want)
			}
			if got := 20 * c.Rates().ByUsageType()["EBS:VolumeUsage.gp3"]; math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("by the rates they cost %v", got)
			}
			if got := testutil.ToFloat64(c.metrics.builtinRates.WithLabelValues("EBS:VolumeUsage.gp3")); got != tc.builtin {
				t.Errorf("built-in: metric %v, want %v", got, tc.builtin)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, c := newShop(t)
		s.set("GetProducts", priceList(t, gp3("0.1")))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Refresh(ctx) }()
		for _, step := range []struct {
			what string
			next answer
			want float64
		}{
			{"at first", denied, 2},
			{"once it is denied", priceList(t, gp3("0.12")), 2},
			{"with a new price", answer{http.StatusInternalServerError, "{}"}, 2.4},
			{"while AWS is down", denied, 2.4},
		} {
			synctest.Wait()
			if got := volumeCost(t, c); got != step.want {
				t.Errorf("%s: 20 GiB of gp3 cost %v, want %v", step.what, got, step.want)
			}
			s.set("GetProducts", step.next)
			time.Sleep(13 * time.Hour)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An on-demand price that cannot be used is replaced by the built-in one.
func TestUnusableOnDemandPrice(t *testing.T) {
	table, err := builtinPrices("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	instance := func(name, price string) string { return listed("instanceType", name, "Hrs", price) }
	s, c := newShop(t)
	s.set("GetProducts", priceList(t, instance("m7g.large", "-1"), instance("m5.large", "0.1"), instance("x9.large", "soon"), instance("m5.xlarge", "0")))
	prices, answered, err := c.onDemandPrices(t.Context())
	want := onDemandPrices{"m7g.large": table["m7g.large"], "m5.large": 0.1}
	if err != nil || !answered || !maps.Equal(prices, want) {
		t.Errorf("prices %v, %v, %v; want %v", prices, answered, err, want)
	}
}

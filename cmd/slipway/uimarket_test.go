package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
	"github.com/slipway-k8s/slipway/ui/local"
)

// The page's plans are made at the launcher's prices. A launcher that does not answer with prices leaves those of the flags, and a note.
func TestPlansOfThePageHaveTheLaunchersPrices(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		spot   float64
		note   string
		lacks  string
	}{
		"prices": {http.StatusOK, `{"on-demand":{"m7g.large":0.08},"spot":{"us-east-1a":{"m7g.large":0.03}},"refused":[]}`, 0.03, "prices, and what EC2 refuses: as the launcher plans", "not known"},
		"refusals": {
			http.StatusOK, `{"on-demand":{"m7g.large":0.08},"spot":{"us-east-1a":{"m7g.large":0.03}},"refused":[{"code":"VcpuLimitExceeded","zone":"us-east-1a",` +
				`"capacityType":"spot","instanceTypes":["m7g.large"],"until":"2999-01-01T00:00:00Z"}]}`, 0.03, "1 offering that EC2 refuses now", "not known",
		},
		"a standby": {
			http.StatusOK, `{"on-demand":{"m7g.large":0.08},"spot":{"us-east-1a":{"m7g.large":0.03}},"standby":true}`, 0.03,
			"what EC2 refuses is not known: the prices are those of a replica of the launcher that does not lead", "what EC2 refuses: as the launcher plans",
		},
		"an old one":     {http.StatusNotFound, `{"kind":"Status","message":"there is no such path"}`, 0, "not known: asking for /api/v1/prices: there is no such path", "as the launcher plans"},
		"no viewer":      {http.StatusForbidden, `forbidden`, 0, "not known: asking for /api/v1/prices: the answer is 403 Forbidden", "as the launcher plans"},
		"none yet":       {http.StatusOK, `{"on-demand":{},"spot":{}}`, 0, "not known: prices: neither", "as the launcher plans"},
		"something else": {http.StatusOK, `<html>`, 0, "not known: prices: invalid character", "as the launcher plans"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/prices" || r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("asked for %s with %q", r.URL, r.Header.Get("Authorization"))
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			launcher, err := local.At(&rest.Config{BearerToken: "secret"}, server.URL)
			if err != nil {
				t.Fatal(err)
			}
			s := &simulation{}
			fixed, err := s.market(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			notes := len(fixed.Notes)
			m, err := s.launcherMarket(launcher, fixed)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Spot["us-east-1a"]["m7g.large"]; got != c.spot || len(m.OnDemand) == 0 || len(m.Types) == 0 {
				t.Errorf("spot costs %g, want %g; %d on-demand prices of %d types", got, c.spot, len(m.OnDemand), len(m.Types))
			}
			if said := strings.Join(m.Notes, "\n"); !strings.Contains(said, c.note) || strings.Contains(said, c.lacks) || len(fixed.Notes) != notes {
				t.Errorf("the notes are\n%s", said)
			}
		})
	}
}

// Prices of a class with a license, written for the page and read by it, are those that the launcher plans with.
func TestPricesOfWindowsAreReadAsTheLaunchersOwn(t *testing.T) {
	const name, instanceType = "windows", "m5.xlarge"
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: awsv1.EC2NodeClassSpec{AMIFamily: new("Windows2022")}}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: name}
	objects := &input.Objects{NodePools: []*karpv1.NodePool{pool}, NodeClasses: []*awsv1.EC2NodeClass{class}}
	offered := func(files market.Files) (map[string][]catalog.InstanceType, []catalog.Offering) {
		files.Zones = []byte(`["us-east-1a"]`)
		m, err := market.Read(files)
		if err != nil {
			t.Fatal(err)
		}
		state, _ := m.Catalog(t.Context(), objects)
		for _, it := range state.InstanceTypes[name] {
			if it.Name == instanceType {
				return state.InstanceTypes, it.Offerings
			}
		}
		t.Fatalf("no %s among %d types", instanceType, len(state.InstanceTypes[name]))
		return nil, nil
	}
	types, want := offered(market.Files{Prices: []byte(`{"on-demand": {"m5.xlarge": 0.192}, "spot": {"us-east-1a": {"m5.xlarge": 0.07}}}`)})
	prices := view.PricesOf(types, nil, time.Now())
	if prices.OnDemand[instanceType] != 0.192 || prices.Spot["us-east-1a"][instanceType] != 0.07 {
		t.Errorf("the prices are %+v, want those of Linux", prices)
	}
	text, err := json.Marshal(prices)
	if err != nil {
		t.Fatal(err)
	}
	_, got := offered(market.Files{Prices: text})
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" || want[0].Price < 0.192+0.184 {
		t.Errorf("the offerings differ (-launcher +page):\n%s", diff)
	}
}

// What nodes use beside their instances, and dedicated tenancy, have the launcher's prices on the page as well, not the built-in ones of another region.
func TestUsageAndTenancyAreReadAsTheLaunchersOwn(t *testing.T) {
	const name = "default"
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: awsv1.EC2NodeClassSpec{AMIFamily: new("AL2023"), AssociatePublicIPAddress: new(true)}}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: name}
	objects := &input.Objects{NodePools: []*karpv1.NodePool{pool}, NodeClasses: []*awsv1.EC2NodeClass{class}}
	read := func(prices []byte) (*market.Market, map[string][]catalog.InstanceType) {
		m, err := market.Read(market.Files{Zones: []byte(`["sa-east-1a"]`), Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		if problems := fmt.Sprint(m.Problems); strings.Contains(problems, "usage.") || strings.Contains(problems, "dedicated.") {
			t.Error(problems)
		}
		state, _ := m.Catalog(t.Context(), objects)
		return m, state.InstanceTypes
	}
	launchers, want := read([]byte(`{"on-demand": {"m5.xlarge": 0.306, "t3.large": 0.1344}, "dedicated": {"m5.xlarge": 0.3244},
		"usage": {"EBS:VolumeUsage.gp3": 0.152, "PublicIPv4:InUseAddress": 0.006, "CPUCredits:t3": 0.07}}`))
	text, err := json.Marshal(view.PricesOf(want, launchers.Rates, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	page, got := read(text)
	if !page.Rates.Equal(launchers.Rates) || page.Rates.Equal(catalog.BuiltinRates()) {
		t.Errorf("the page's rates are %+v, want %+v", page.Rates, launchers.Rates)
	}
	byName := map[string]catalog.InstanceType{}
	for _, it := range got[name] {
		byName[it.Name] = it
	}
	for _, it := range want[name] {
		if diff := cmp.Diff(it.Charges, byName[it.Name].Charges); diff != "" || it.DedicatedShare != byName[it.Name].DedicatedShare {
			t.Errorf("%s: dedicated tenancy costs %v more, want %v; charges (-launcher +page):\n%s", it.Name, byName[it.Name].DedicatedShare, it.DedicatedShare, diff)
		}
	}
	if m5, t3 := byName["m5.xlarge"], byName["t3.large"]; len(byName) != 2 || m5.DedicatedShare < 0.06 || t3.DedicatedShare != 0 || t3.Charges.SurplusCPU != 0.07 {
		t.Errorf("the types are %+v", byName)
	}
}

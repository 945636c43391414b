package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/ui/local"
)

// The page's plans are made at the launcher's prices. A launcher that does not answer with prices leaves those of the flags, and a note.
func TestPlansOfThePageHaveTheLaunchersPrices(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		spot   float64
		note   string
	}{
		"prices": {http.StatusOK, `{"on-demand":{"m7g.large":0.08},"spot":{"us-east-1a":{"m7g.large":0.03}}}`, 0.03, "as the launcher plans"},
		"refusals": {
			http.StatusOK, `{"on-demand":{"m7g.large":0.08},"spot":{"us-east-1a":{"m7g.large":0.03}},"refused":[{"code":"VcpuLimitExceeded","zone":"us-east-1a",` +
				`"capacityType":"spot","instanceTypes":["m7g.large"],"until":"2999-01-01T00:00:00Z"}]}`, 0.03, "1 offering that EC2 refuses now",
		},
		"an old one":     {http.StatusNotFound, `{"kind":"Status","message":"there is no such path"}`, 0, "not known: asking for /api/v1/prices: there is no such path"},
		"no viewer":      {http.StatusForbidden, `forbidden`, 0, "not known: asking for /api/v1/prices: the answer is 403 Forbidden"},
		"none yet":       {http.StatusOK, `{"on-demand":{},"spot":{}}`, 0, "not known: prices: neither"},
		"something else": {http.StatusOK, `<html>`, 0, "not known: prices: invalid character"},
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
			if said := strings.Join(m.Notes, "\n"); !strings.Contains(said, c.note) || len(fixed.Notes) != notes {
				t.Errorf("the notes are\n%s", said)
			}
		})
	}
}

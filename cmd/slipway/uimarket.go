package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/simulate/market"
	"github.com/slipway-k8s/slipway/ui/local"
)

// mostPrices bounds the launcher's answer, in bytes: a region has a thousand instance types in a handful of zones.
const mostPrices = 8 << 20

// launcherMarket returns what can be bought at the prices that the launcher plans with. Without its prices, as of a launcher that does not serve them,
// that is fixed, with a note that says why.
func (s *simulation) launcherMarket(c local.Config, fixed *market.Market) func(context.Context) (*market.Market, error) {
	return func(ctx context.Context) (*market.Market, error) {
		m, err := s.pricedByLauncher(ctx, c)
		if err != nil {
			out := *fixed
			out.Notes = append(append([]string{}, fixed.Notes...), fmt.Sprintf("prices: the launcher's are not known: %v", err))
			return &out, nil
		}
		return m, nil
	}
}

func (s *simulation) pricedByLauncher(ctx context.Context, c local.Config) (*market.Market, error) {
	from, err := s.marketFiles(ctx)
	if err != nil {
		return nil, err
	}
	if from.Prices, err = answerOf(ctx, c, "/api/v1/prices"); err != nil {
		return nil, err
	}
	m, err := market.Read(from)
	if err != nil {
		return nil, err
	}
	if m.Refusals {
		m.Notes = append(m.Notes, "prices, and what EC2 refuses: as the launcher plans, now")
	} else { // A standby, or a launcher of an older version.
		m.Notes = append(m.Notes, "prices: as the launcher plans, now")
	}
	return m, s.commit(ctx, m)
}

// answerOf returns the launcher's answer for a path of its API.
func answerOf(ctx context.Context, c local.Config, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Launcher.JoinPath(path).String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: c.Transport}).Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostPrices))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		var status metav1.Status
		if json.Unmarshal(body, &status) == nil && status.Message != "" {
			return nil, fmt.Errorf("asking for %s: %s", path, status.Message)
		}
		return nil, fmt.Errorf("asking for %s: the answer is %s", path, answer.Status)
	}
	return body, nil
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// The account's commitments count beside those that are listed, whose entries win. One that ended, and one that AWS returned with a mistake, is said and left out.
func TestCommitmentsOfTheAccount(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	plan := func(id string, usd float64, end time.Time) commitment.Commitment {
		return commitment.Commitment{ID: id, Kind: commitment.ComputeSavingsPlan, USDPerHour: usd, Discount: 0.3, Share: 1, End: end}
	}
	m := &market.Market{Commitments: []commitment.Commitment{plan("listed", 1, time.Time{}), plan("both", 2, time.Time{})}}
	addCommitments(m, []commitment.Commitment{plan("both", 9, time.Time{}), plan("ended", 9, now.Add(-time.Hour)), plan("aws", 3, now.Add(time.Hour))},
		[]commitment.Fault{{Entry: "bad", Message: "currency: USD is expected"}}, now)
	s := &simulation{commitmentShare: 0.5}
	if err := s.commit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	amounts := map[string]float64{}
	for i := range m.Commitments {
		amounts[m.Commitments[i].ID] = m.Commitments[i].Amount()
	}
	if len(amounts) != 3 || amounts["listed"] != 0.5 || amounts["both"] != 1 || amounts["aws"] != 1.5 {
		t.Errorf("amounts %v", amounts)
	}
	said := ""
	for _, p := range m.Problems {
		said += p.String() + "\n"
	}
	for _, want := range []string{"commitment bad: currency: USD is expected; it is left out", "commitment ended: end: it ended at 2026-11-26T11:00:00Z; it is left out"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in:\n%s", want, said)
		}
	}
}

// A share that is none is refused with the flag's name.
func TestCommitmentShareIsChecked(t *testing.T) {
	for _, share := range []string{"0", "-1", "1.5", "NaN"} {
		if _, _, err := slipway(t, objectsYAML, "simulate", "-f", "-", "--commitment-share", share); err == nil || !strings.Contains(err.Error(), "--commitment-share") {
			t.Errorf("share %s: %v", share, err)
		}
	}
}

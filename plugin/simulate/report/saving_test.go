package report

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// The page of a simulation that ended before all moves says so in its first sentences.
func TestLeadOfAnUnfinishedSaving(t *testing.T) {
	r := simulate.SavingResult{Nodes: 102, NodesThen: 2, Steps: 100, Moves: []simulate.MoveResult{{}}}
	for _, r.Unfinished = range []bool{false, true} {
		if lead := savingLead(r); strings.Contains(lead, "More moves would follow, a simulation ends after 100 steps.") != r.Unfinished {
			t.Errorf("unfinished %t: %s", r.Unfinished, lead)
		}
	}
}

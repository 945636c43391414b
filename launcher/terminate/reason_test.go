package terminate

import (
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// The time of a reason is that of EC2's notice, and never that of the reason before it.
func TestReasonHasTheTimeOfItsNotice(t *testing.T) {
	spot := string(cloud.SpotInterrupted)
	for name, tc := range map[string]struct {
		before string
		late   time.Duration
		// ago is how long before now the reason's time is, of a claim whose earlier reason is five minutes old.
		ago time.Duration
	}{
		"no notice":                          {},
		"no notice, a move before":           {before: "underutilized"},
		"no notice, recorded before":         {before: spot, ago: 5 * time.Minute},
		"a notice":                           {late: time.Minute, ago: time.Minute},
		"a notice, a move before":            {before: "underutilized", late: time.Minute, ago: time.Minute},
		"a notice, recorded before":          {before: spot, late: 6 * time.Minute, ago: 6 * time.Minute},
		"a second notice, recorded before":   {before: spot, late: time.Minute, ago: 5 * time.Minute},
		"a notice of a clock ahead of ours":  {late: -time.Minute},
		"the same, after a move cordoned it": {before: "underutilized", late: -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim := &karpv1.NodeClaim{}
				if tc.before != "" {
					claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, tc.before, tc.before)
				}
				time.Sleep(5 * time.Minute)
				at := time.Time{}
				if tc.late != 0 {
					at = time.Now().Add(-tc.late)
				}
				if err := setReason(claim, spot, at); err != nil {
					t.Fatal(err)
				}
				if got := reasonOf(claim); got != spot || time.Since(noticed(claim)) != tc.ago {
					t.Errorf("reason %s of %s ago, want %s ago", got, time.Since(noticed(claim)), tc.ago)
				}
			})
		})
	}
}

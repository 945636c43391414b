package standby_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/standby"
)

// EC2 does not support an instance that is hibernated for more than 60 days: it ends before, unless a pod starts it. One that is stopped stays.
func TestHibernatedLong(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		reason   string
		days     int
		promised bool
		want     standby.Action
	}{
		"58 days":          {reason: "Hibernated", days: 58, want: standby.Wait},
		"59 days":          {reason: "Hibernated", days: 59, want: standby.End},
		"59 days, and now": {reason: "Hibernated", days: 59, promised: true, want: standby.Start},
		"stopped":          {reason: "Asleep", days: 100, want: standby.Wait},
	} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			catalog.StandbyAnnotation:      "buffer",
			catalog.StandbyStateAnnotation: record.FormatStandby(record.StandbyAsleep, now.AddDate(0, 0, -tc.days)),
		}}}
		claim.StatusConditions().SetTrueWithReason(record.ConditionStandby, tc.reason, "")
		got := standby.Decide(standby.Observed{Now: now.Add(time.Minute), Claim: claim, Promised: tc.promised})
		if got.Do != tc.want || got.Do == standby.End && got.Reason != standby.HibernatedLong {
			t.Errorf("%s: %+v, want %s", name, got, tc.want)
		}
	}
}

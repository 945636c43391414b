package server

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/record"
)

// A NodePool may launch once it is Ready; to ask does not write to it, which is the cache's, and neither does a claim's deadline to that.
func TestNotReadyOnlyReads(t *testing.T) {
	pool := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.Unix(1000, 0)}}
	beforePool, beforeClaim := pool, claim
	if why := notReady(&pool, offered{}); why != "its condition Ready is not True yet" {
		t.Errorf("a NodePool without conditions: %q", why)
	}
	if at := record.Deadline(&claim, record.Patience{Empty: time.Minute}); !at.Equal(time.Unix(1000, 0).Add(record.LaunchTimeout + time.Minute)) {
		t.Errorf("the deadline of a claim without conditions is %s", at)
	}
	if diff := cmp.Diff(beforePool, pool) + cmp.Diff(beforeClaim, claim); diff != "" {
		t.Errorf("they were written to (-before +after):\n%s", diff)
	}
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	pool.StatusConditions().SetFalse(karpv1.ConditionTypeNodeClassReady, "NotFound", "there is none")
	if why := notReady(&pool, offered{}); why != "there is none" {
		t.Errorf("a NodePool without a class: %q", why)
	}
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	if why := notReady(&pool, offered{problem: "no types"}); why != "no types" {
		t.Errorf("a NodePool that is Ready: %q", why)
	}
}

// A stream's pause depends on the size of the cluster alone.
func TestPause(t *testing.T) {
	for claims, want := range map[int]time.Duration{0: coalesce, 100: 10 * time.Millisecond, 2_500: 202 * time.Millisecond, 100_000: coalesceMost} {
		if got := pause(claims); got != want {
			t.Errorf("%d NodeClaims: a pause of %s, want %s", claims, got, want)
		}
	}
}

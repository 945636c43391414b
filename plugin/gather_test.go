package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// Pods of a gang keep their room as long as the launcher gives the nodes of the others.
func TestGangWaitsForSlowNodes(t *testing.T) {
	now := time.Unix(1000, 0)
	promises, err := promise.New(func([]catalog.PodRef) {})
	if err != nil {
		t.Fatal(err)
	}
	n := &nodeLaunch{nodeLaunchConfig{args: &Args{PromiseTimeout: &metav1.Duration{Duration: 6 * time.Minute}}, promises: promises}}
	others := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "quick"}}, {ObjectMeta: metav1.ObjectMeta{UID: "slow"}}, {ObjectMeta: metav1.ObjectMeta{UID: "none"}}}
	if got := n.untilPromised(others, now); got != 6*time.Minute {
		t.Errorf("without promises the pods wait for %s", got)
	}
	for uid, deadline := range map[string]time.Duration{"quick": time.Minute, "slow": 15 * time.Minute} {
		n.promises.Hold(promise.Promise{Pod: catalog.PodRef{UID: uid}, NodeClaim: uid, Since: now, Deadline: now.Add(deadline)})
	}
	if got := n.untilPromised(others, now); got != 15*time.Minute {
		t.Errorf("the pods wait for %s", got)
	}
}

package record_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// What a node was launched for, and its machine, give it its time.
func TestPatience(t *testing.T) {
	patience := record.Patience{Promised: 5 * time.Minute, Empty: 15 * time.Minute}
	forPods := map[string]string{catalog.ForPodsAnnotation: "true"}
	standby := map[string]string{catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: "awake/2026-01-02T03:04:05Z"}
	for _, tc := range []struct {
		name                string
		annotations, labels map[string]string
		woken               bool
		want                time.Duration
	}{
		{name: "for pods", annotations: forPods, labels: map[string]string{corev1.LabelInstanceTypeStable: "m7g.large", corev1.LabelOSStable: "linux"}, want: 5 * time.Minute},
		{name: "for no pods", want: 15 * time.Minute},
		{name: "bare metal", annotations: forPods, labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.metal"}, want: 15 * time.Minute},
		{name: "Windows", annotations: forPods, labels: map[string]string{corev1.LabelOSStable: "windows"}, want: 15 * time.Minute},
		{name: "promised to a pod before its instance was stopped", annotations: standby, want: 15 * time.Minute},
		{name: "started again", annotations: standby, woken: true, want: 5 * time.Minute},
	} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations, Labels: tc.labels}}
		if tc.woken {
			claim.StatusConditions().SetFalse(record.ConditionStandby, record.ReasonWoken, "A pod was promised the node")
		}
		if got := patience.Of(claim); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	patience.Empty = time.Minute
	if got := patience.Of(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.metal"}}}); got != 5*time.Minute {
		t.Errorf("bare metal has %s, less than any other", got)
	}
}

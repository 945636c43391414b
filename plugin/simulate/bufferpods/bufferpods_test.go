package bufferpods_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/plugin/simulate/bufferpods"
)

// One-shot buffers that keep no room any more take nothing of the namespace's limits, as in the launcher. A change of the spec asks again.
func TestFinished(t *testing.T) {
	now := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	oneShot := func(name string, generation int64, age time.Duration, then string) *autoscalingv1beta1.CapacityBuffer {
		created := metav1.NewTime(now.Add(-age))
		cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Generation: 1, CreationTimestamp: created}}
		cb.Spec = autoscalingv1beta1.CapacityBufferSpec{
			PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, Replicas: new(int32(600)), ProvisioningStrategy: new(buffersize.StrategyOneShot),
		}
		if then != "" {
			cb.Status.Conditions = []metav1.Condition{
				{Type: buffersize.ConditionProvisioned, Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: created},
				{Type: autoscalingv1beta1.ProvisioningCondition, Status: metav1.ConditionFalse, Reason: then, ObservedGeneration: 1},
			}
			if then == buffersize.ConditionBookingExpired {
				cb.Status.Conditions = append(cb.Status.Conditions, metav1.Condition{Type: then, Status: metav1.ConditionTrue, ObservedGeneration: 1})
			}
		}
		cb.Generation = generation
		return cb
	}
	var all []*autoscalingv1beta1.CapacityBuffer
	for i := range buffersize.MostBuffers {
		all = append(all, oneShot(fmt.Sprint("old-", i), 1, time.Hour, buffersize.ConditionBookingExpired))
	}
	all = append(all, oneShot("came", 1, 5*time.Minute, "PodsCame"), oneShot("again", 2, 4*time.Minute, buffersize.ConditionBookingExpired), oneShot("next", 1, 0, ""))
	out := bufferpods.Make(bufferpods.Input{
		Buffers: all, Now: now,
		Template: func(_, _, _ string) (bufferpods.Template, bool) {
			labels := map[string]string{"app": "job"}
			return bufferpods.Template{
				Pod:      corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
				Selector: &metav1.LabelSelector{MatchLabels: labels},
			}, true
		},
		Admit: func(_ string, spec *corev1.PodSpec) (corev1.PodSpec, error) { return *spec, nil },
	})
	if len(out.Pods) != 1 || len(out.Pods[0]) != 600 {
		t.Errorf("pods of %d buffers, want those of the one that asks again", len(out.Pods))
	}
	const why = "pods: 600 wanted, 0 granted: limit of 1000 pods of buffers in a namespace reached, older buffers have 600"
	if len(out.Problems) != 1 || out.Problems[0].Buffer.Name != "next" || out.Problems[0].Message != why {
		t.Errorf("problems %v", out.Problems)
	}
}

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

// Of a one-shot buffer that had room for all of its pods, those that came count no more, finished or not. Those that were there before, or may not take the
// room, did not come. Once its time is over it has none.
func TestBooked(t *testing.T) {
	now := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	labels := map[string]string{"app": "job"}
	oneShot := func(name string, since time.Time) *autoscalingv1beta1.CapacityBuffer {
		cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name, Generation: 1}}
		cb.Spec = autoscalingv1beta1.CapacityBufferSpec{
			PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, Replicas: new(int32(8)), ProvisioningStrategy: new(buffersize.StrategyOneShot),
		}
		cb.Status.Conditions = []metav1.Condition{
			{Type: buffersize.ConditionProvisioned, Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(since)},
		}
		return cb
	}
	var pods []*corev1.Pod
	bound := func(namespace string, at time.Time, of map[string]string, phase corev1.PodPhase) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: of}, Spec: corev1.PodSpec{NodeName: "n"}}
		p.Status.Phase = phase
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
		pods = append(pods, p)
	}
	since := now.Add(-5 * time.Minute)
	for range 2 {
		bound("run", since.Add(time.Minute), labels, corev1.PodRunning)
	}
	bound("run", since.Add(time.Minute), labels, corev1.PodSucceeded)
	bound("run", since.Add(-time.Minute), labels, corev1.PodRunning)
	bound("run", since.Add(time.Minute), map[string]string{"app": "web"}, corev1.PodRunning)
	bound("shop", since.Add(time.Minute), labels, corev1.PodRunning)
	out := bufferpods.Make(bufferpods.Input{
		Buffers: []*autoscalingv1beta1.CapacityBuffer{oneShot("run", since), oneShot("old", now.Add(-time.Hour))}, Now: now, OnNodes: pods,
		Template: func(_, _, _ string) (bufferpods.Template, bool) {
			return bufferpods.Template{
				Pod: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, Selector: &metav1.LabelSelector{MatchLabels: labels},
			}, true
		},
		Admit: func(_ string, spec *corev1.PodSpec) (corev1.PodSpec, error) { return *spec, nil },
	})
	if len(out.Pods) != 0 || len(out.Booked) != 1 || len(out.Booked[0]) != 5 || out.Booked[0][0].Namespace != "run" || len(out.Problems) != 0 {
		t.Errorf("%d buffers with pods to launch nodes for, %v, problems %v", len(out.Pods), out.Booked, out.Problems)
	}
}

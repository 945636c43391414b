package buffersize_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
)

func pod(requests map[string]string) *corev1.PodSpec {
	list := corev1.ResourceList{}
	for name, text := range requests {
		list[corev1.ResourceName(name)] = resource.MustParse(text)
	}
	return &corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}
}

func limits(of map[string]string) autoscalingv1beta1.Limits {
	out := autoscalingv1beta1.Limits{}
	for name, text := range of {
		out[corev1.ResourceName(name)] = resource.MustParse(text)
	}
	return out
}

// The number of pods is Karpenter's, whatever figures a tenant writes.
func TestWanted(t *testing.T) {
	one := map[string]string{"cpu": "1", "memory": "512Mi"}
	huge := int32(1e9)
	for _, c := range []struct {
		name                 string
		replicas, percentage *int32
		workload             *int32
		limits, requests     map[string]string
		want                 int32
	}{
		{name: "replicas", replicas: new(int32(3)), requests: one, want: 3},
		{name: "no replicas", replicas: new(int32(0)), requests: one},
		{name: "a billion replicas", replicas: &huge, requests: one, want: 1e9},
		{name: "a percentage", percentage: new(int32(20)), workload: new(int32(10)), requests: one, want: 2},
		{name: "a percentage is rounded up", percentage: new(int32(1)), workload: new(int32(10)), requests: one, want: 1},
		{name: "a percentage of 0", percentage: new(int32(0)), workload: new(int32(10)), requests: one},
		{name: "a percentage of no pods", percentage: new(int32(50)), workload: new(int32(0)), requests: one},
		{name: "a percentage of no workload", percentage: new(int32(50)), requests: one},
		{name: "a percentage beyond 32 bits", percentage: &huge, workload: &huge, requests: one, want: math.MaxInt32},
		{name: "the larger of the two", replicas: new(int32(3)), percentage: new(int32(50)), workload: new(int32(10)), requests: one, want: 5},
		{name: "limits alone", limits: map[string]string{"cpu": "2"}, requests: one, want: 2},
		{name: "the tightest limit", limits: map[string]string{"cpu": "9", "memory": "1Gi"}, requests: one, want: 2},
		{name: "limits cap", replicas: new(int32(9)), limits: map[string]string{"cpu": "2500m"}, requests: one, want: 2},
		{name: "limits do not add", replicas: new(int32(1)), limits: map[string]string{"cpu": "9"}, requests: one, want: 1},
		{name: "a limit of what is not requested", replicas: new(int32(4)), limits: map[string]string{"nvidia.com/gpu": "1"}, requests: one, want: 4},
		{name: "limits of a pod without requests", limits: map[string]string{"cpu": "9"}},
		{name: "a limit of 0", replicas: new(int32(4)), limits: map[string]string{"cpu": "0"}, requests: one},
		{name: "a negative limit", replicas: new(int32(4)), limits: map[string]string{"cpu": "-5"}, requests: one},
		{name: "a limit beyond 64 bits", limits: map[string]string{"cpu": "9E"}, requests: map[string]string{"cpu": "1m"}, want: math.MaxInt32},
		{name: "a request beyond 64 bits", limits: map[string]string{"cpu": "8E"}, requests: map[string]string{"cpu": "4E"}, want: 2},
		{name: "a request below a thousandth", limits: map[string]string{"cpu": "1"}, requests: map[string]string{"cpu": "1n"}, want: 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := &autoscalingv1beta1.CapacityBufferSpec{Replicas: c.replicas, Percentage: c.percentage}
			if c.limits != nil {
				spec.Limits = limits(c.limits)
			}
			if got := buffersize.Wanted(spec, pod(c.requests), c.workload); got != c.want {
				t.Errorf("%d pods, want %d", got, c.want)
			}
		})
	}
}

// The oldest buffers of a namespace are given their pods first, up to the limits.
func TestGrant(t *testing.T) {
	for _, c := range []struct {
		name   string
		wanted int32
		taken  int
		whole  bool
		want   int32
		why    string
	}{
		{name: "all", wanted: 3, want: 3},
		{name: "none", wanted: 0, taken: buffersize.MostPods},
		{name: "a billion", wanted: 1e9, want: buffersize.MostPods, why: "pods: 1000000000 wanted, 1000 granted: limit of 1000 pods"},
		{name: "what is left", wanted: 10, taken: buffersize.MostPods - 4, want: 4, why: "pods: 10 wanted, 4 granted"},
		{name: "nothing left", wanted: 10, taken: buffersize.MostPods, why: "pods: 10 wanted, 0 granted"},
		{name: "all of what is left", wanted: 4, taken: buffersize.MostPods - 4, whole: true, want: 4},
		{name: "all or none", wanted: 10, taken: buffersize.MostPods - 4, whole: true, why: "pods: 10 wanted, 0 granted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, why := buffersize.Grant(c.wanted, c.taken, c.whole)
			if got != c.want || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("%d, %q; want %d, %q", got, why, c.want, c.why)
			}
		})
	}
}

// conditions are those of a status, as TYPE=STATUS REASON: MESSAGE.
func conditions(cb *autoscalingv1beta1.CapacityBuffer) []string {
	var out []string
	for _, c := range cb.Status.Conditions {
		out = append(out, c.Type+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return out
}

// The conditions are Karpenter's, from the first resolution to a failure.
func TestStatus(t *testing.T) {
	cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	const ready = "ReadyForProvisioning=True Resolved: Pod template resolved successfully"
	for _, c := range []struct {
		name string
		r    buffersize.Resolution
		p    *buffersize.Places
		want []string
	}{
		{"not placed yet", buffersize.Resolution{PodTemplate: "t", Generation: 2, Replicas: 3}, nil, []string{ready}},
		{
			"in flight",
			buffersize.Resolution{PodTemplate: "t", Generation: 2, Replicas: 3},
			&buffersize.Places{Existing: 1, InFlight: 2},
			[]string{ready, "Provisioning=False RequiresNewCapacity: 2/3 virtual pods required new capacity, 0 failed"},
		},
		{
			"no room",
			buffersize.Resolution{PodTemplate: "t", Generation: 2, Replicas: 3},
			&buffersize.Places{Existing: 1, InFlight: 1, NoRoom: "limit cpu of 4 reached"},
			[]string{ready, "Provisioning=False RequiresNewCapacity: 1/3 virtual pods required new capacity, 1 failed: limit cpu of 4 reached"},
		},
		{
			"placed",
			buffersize.Resolution{PodTemplate: "t", Generation: 2, Replicas: 3},
			&buffersize.Places{Existing: 3},
			[]string{ready, "Provisioning=True FitsExistingCapacity: All 3 virtual pods fit on existing capacity"},
		},
		{
			"not known",
			buffersize.Resolution{PodTemplate: "t", Generation: 2, Replicas: 3},
			nil,
			[]string{ready, "Provisioning=True FitsExistingCapacity: All 3 virtual pods fit on existing capacity"},
		},
		{
			"limited",
			buffersize.Resolution{Replicas: 3, Limited: "9 wanted"},
			&buffersize.Places{Existing: 3},
			[]string{ready, "Provisioning=True FitsExistingCapacity: All 3 virtual pods fit on existing capacity", "LimitedByQuotas=True MaximumReached: 9 wanted"},
		},
		{"empty", buffersize.Resolution{}, nil, []string{ready, "Provisioning=False BufferEmpty: Buffer has zero desired replicas"}},
		{
			"not found",
			buffersize.Resolution{Failure: &buffersize.Failure{Reason: buffersize.PodTemplateNotFound, Message: "it is gone"}},
			nil,
			[]string{"ReadyForProvisioning=False PodTemplateNotFound: it is gone", "Provisioning=False NotReadyForProvisioning: Buffer is not ReadyForProvisioning"},
		},
	} {
		buffersize.SetResolution(cb, c.r)
		buffersize.SetPlaces(cb, c.r, c.p)
		if diff := cmp.Diff(c.want, conditions(cb)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.r.Failure == nil && *cb.Status.Replicas != c.r.Replicas || (cb.Status.PodTemplateRef == nil) != (c.r.PodTemplate == "") {
			t.Errorf("%s: status %+v", c.name, cb.Status)
		}
	}
	if got := meta.FindStatusCondition(cb.Status.Conditions, autoscalingv1beta1.ProvisioningCondition); got.ObservedGeneration != 4 {
		t.Errorf("observed generation %d", got.ObservedGeneration)
	}
}

// A reason of any length is cut, and stays text.
func TestLongReason(t *testing.T) {
	cb := &autoscalingv1beta1.CapacityBuffer{}
	buffersize.SetPlaces(cb, buffersize.Resolution{Replicas: 1}, &buffersize.Places{NoRoom: "x" + strings.Repeat("ä", 1<<16)})
	if m := cb.Status.Conditions[0].Message; len(m) > 2048 || strings.ToValidUTF8(m, "") != m {
		t.Errorf("a message of %d bytes", len(m))
	}
}

// Without a strategy a buffer is an active one.
func TestStrategy(t *testing.T) {
	for in, want := range map[string]string{"": buffersize.StrategyActive, "buffer.x-k8s.io/active-capacity": buffersize.StrategyActive, "other": "other"} {
		if got := buffersize.Strategy(&autoscalingv1beta1.CapacityBufferSpec{ProvisioningStrategy: &in}); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
	if got := buffersize.Strategy(&autoscalingv1beta1.CapacityBufferSpec{}); got != buffersize.StrategyActive {
		t.Error(got)
	}
}

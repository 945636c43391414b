package buffersize

import (
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/window"
)

// What the buffers of one namespace may be at most: a tenant may write any figure.
const (
	// MostPods is the number of pods of all buffers of a namespace.
	MostPods = 1000
	// MostBuffers is the number of buffers of a namespace.
	MostBuffers = 50
	// MostTemplate is the size of a pod template, in bytes of protobuf.
	MostTemplate = 32 << 10
)

// The strategies of a buffer.
const (
	// StrategyActive keeps room for pods that do not exist, and is the default. Any pod may take the room.
	StrategyActive = autoscalingv1beta1.ActiveProvisioningStrategy
	// StrategyReserved keeps room that its takers alone get.
	StrategyReserved = "buffer.slipway.dev/reserved"
	// StrategyOneShot keeps room for all pods or for none, once, and for a limited time. Its takers alone get it.
	StrategyOneShot = "buffer.slipway.dev/one-shot"
	// StrategyStandby keeps stopped instances, which the first of its takers wakes.
	StrategyStandby = "buffer.slipway.dev/standby"
)

// Unsupported returns why no room is kept with the buffer's strategy; empty where some is.
func Unsupported(spec *autoscalingv1beta1.CapacityBufferSpec) string {
	switch s := Strategy(spec); s {
	case StrategyActive, StrategyReserved, StrategyOneShot, StrategyStandby:
		return ""
	default:
		return fmt.Sprintf("%s is not supported, want %s, %s, %s or %s", s, StrategyActive, StrategyReserved, StrategyOneShot, StrategyStandby)
	}
}

// Strategy returns the strategy of a buffer.
func Strategy(spec *autoscalingv1beta1.CapacityBufferSpec) string {
	if spec.ProvisioningStrategy == nil || *spec.ProvisioningStrategy == "" {
		return StrategyActive
	}
	return *spec.ProvisioningStrategy
}

// Own reports whether a strategy is one of slipway's own, known or not. Of others another autoscaler may take care.
func Own(strategy string) bool { return strings.HasPrefix(strategy, "buffer.slipway.dev/") }

// SpecAt returns the spec of a buffer with what a window that is open has in its place. The error says what is wrong with the windows: note does
// where others of them hold.
func SpecAt(cb *autoscalingv1beta1.CapacityBuffer, now time.Time) (spec autoscalingv1beta1.CapacityBufferSpec, note string, err error) {
	spec = cb.Spec
	windows, err := window.Read(cb.Annotations)
	if err != nil {
		if len(windows) == 0 {
			return spec, "", err
		}
		note = err.Error()
	}
	open := windows.Open(now)
	if open == nil {
		return spec, note, nil
	}
	if open.Replicas != nil {
		spec.Replicas = open.Replicas
	}
	if open.Percentage != nil {
		spec.Percentage = open.Percentage
	}
	spec.Limits = autoscalingv1beta1.Limits(open.Over(corev1.ResourceList(spec.Limits)))
	return spec, note, nil
}

// Wanted returns how many pods the buffer asks for. workload is the number of replicas of the scalableRef, nil for a podTemplateRef.
//
// It is the larger one of replicas and percentage, and at most what the limits hold. Without either of the two it is what the limits hold. A
// limit of a resource that the pod does not request limits nothing.
func Wanted(spec *autoscalingv1beta1.CapacityBufferSpec, pod *corev1.PodSpec, workload *int32) int32 {
	var wanted int32
	sized := spec.Replicas != nil
	if sized {
		wanted = *spec.Replicas
	}
	if spec.Percentage != nil && workload != nil && *workload > 0 {
		sized, wanted = true, max(wanted, share(*workload, *spec.Percentage))
	}
	if most, limited := held(spec.Limits, pod); limited && (!sized || most < wanted) {
		wanted = most
	}
	return max(wanted, 0)
}

// share returns the percentage of the replicas, rounded up.
func share(replicas, percentage int32) int32 {
	return clamp((int64(replicas)*int64(percentage) + 99) / 100)
}

// held returns how many pods the limits hold; limited is false where they limit nothing that the pod requests.
func held(limits autoscalingv1beta1.Limits, spec *corev1.PodSpec) (most int32, limited bool) {
	requests := resourcehelper.PodRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
	most = math.MaxInt32
	for name, limit := range limits {
		request, ok := requests[name]
		if !ok || request.Sign() <= 0 {
			continue
		}
		limited, most = true, min(most, times(request, limit))
	}
	return most, limited
}

// times returns how many times the request is in the limit.
func times(request, limit resource.Quantity) int32 {
	if limit.Sign() <= 0 {
		return 0
	}
	if limit.Value() > math.MaxInt64/2000 || request.Value() > math.MaxInt64/2000 {
		return clamp(int64(min(limit.AsApproximateFloat64()/request.AsApproximateFloat64(), math.MaxInt32)))
	}
	return clamp(limit.MilliValue() / max(request.MilliValue(), 1))
}

func clamp(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// TooMany returns why no room is kept for a buffer with so many older ones in its namespace; nil where some is. Those of which nothing else is read
// cost nothing.
func TooMany(older int) *Failure {
	if older < MostBuffers {
		return nil
	}
	return &Failure{Reason: ResolutionFailed, Message: fmt.Sprintf("limit of %d buffers in a namespace reached: it has as many older ones", MostBuffers)}
}

// Grant returns how many of the wanted pods a buffer is given, where taken are those of the older buffers of its namespace; why says what limits it,
// for a human, and is empty where nothing does. A buffer that is whole is given all or none.
func Grant(wanted int32, taken int, whole bool) (granted int32, why string) {
	granted = min(wanted, int32(max(MostPods-taken, 0)))
	if granted < wanted {
		if whole {
			granted = 0
		}
		why = fmt.Sprintf("pods: %d wanted, %d granted: limit of %d pods of buffers in a namespace reached, older buffers have %d", wanted, granted, MostPods, taken)
	}
	return granted, why
}

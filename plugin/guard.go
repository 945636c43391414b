package plugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The entry points where the scheduler runs our code.
const (
	pointPreEnqueue = "PreEnqueue"
	pointPreFilter  = "PreFilter"
	pointPostFilter = "PostFilter"
	pointPermit     = "Permit"
	pointUnreserve  = "Unreserve"
	pointFilter     = "Filter"
	pointPreScore   = "PreScore"
	pointScore      = "Score"
	pointPlan       = "Plan"
)

// The planner's own entry points, for the metric of panics.
const (
	pointStep         = "Step"
	pointMakeRoom     = "MakeRoom"
	pointConsolidate  = "Consolidate"
	pointPlaceBuffers = "PlaceBuffers"
	pointNodeBusy     = "NodeBusy"
)

// points lists all entry points.
func points() []string {
	return []string{
		pointPreEnqueue, pointPreFilter, pointPostFilter, pointPermit, pointUnreserve, pointFilter, pointPreScore, pointScore, pointPlan,
		pointStep, pointMakeRoom, pointConsolidate, pointPlaceBuffers, pointNodeBusy,
	}
}

// guard keeps a bug of ours from stopping ordinary scheduling.
type guard struct {
	metrics *metrics
	// fault is Options.Fault.
	fault func(point string, pod *corev1.Pod)
}

// recovered has the entry point answer as if it were not there after a panic. It is to be deferred.
func (g *guard) recovered(point string, status **fwk.Status) {
	if cause := recover(); cause != nil {
		g.metrics.panicked(klog.Background(), point, cause)
		*status = nil
		if point == pointPostFilter {
			*status = fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("no node is launched: %s panicked: %v", point, cause))
		}
	}
}

// injected runs a test's fault.
func (g *guard) injected(point string, pod *corev1.Pod) {
	if g.fault != nil {
		g.fault(point, pod)
	}
}

package hooks

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
)

const (
	// verdictAge bounds how long a verdict counts, in case something changes that world does not cover.
	verdictAge = time.Second
	// maxVerdicts bounds their number.
	maxVerdicts = 1024
)

// world identifies a state of the cluster. The scheduler numbers the changes of its nodes and of the pods on them, one after the
// other; the removal of a node changes the number of nodes.
type world struct {
	nodes      int
	generation int64
}

// worldOf returns the state that this scheduling cycle uses. Only the scheduling goroutine may call it, in the cycle: the
// scheduler has updated the snapshot right before. All events that the queue received before it popped the pod are in it, so that
// no event is lost that would have made the pod fit.
func worldOf(nodes []fwk.NodeInfo) world {
	w := world{nodes: len(nodes)}
	for _, info := range nodes {
		w.generation = max(w.generation, info.GetGeneration())
	}
	return w
}

// verdicts lets one failure count for its class. While nothing changes, a pod fits no node if one with identical needs has just
// failed, and need not be tried on every node again. Failures may be handled in any goroutine.
type verdicts struct {
	mu    sync.Mutex
	in    world
	until time.Time
	known map[string]verdict
	// uid, class and last describe the last failure, in the state of the cluster of. It counts once it is known that the pod does not
	// preempt.
	uid   types.UID
	class string
	last  verdict
	of    world
}

// verdict is the failure that counts for every pod of a class.
type verdict struct {
	nodes         int
	why           string
	unschedulable sets.Set[string]
}

// look returns the verdict on a class.
func (v *verdicts) look(class string, in world, now time.Time) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if in != v.in || now.After(v.until) || len(v.known) >= maxVerdicts {
		v.in, v.until, v.known = in, now.Add(verdictAge), map[string]verdict{}
	}
	got, ok := v.known[class]
	return got, ok
}

// tried records that the pod fits no node.
func (v *verdicts) tried(uid types.UID, class string, fit *framework.FitError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.uid, v.class, v.of = uid, class, v.in
	v.last = verdict{nodes: fit.NumAllNodes, why: why(fit), unschedulable: fit.Diagnosis.UnschedulablePlugins.Clone()}
}

// confirm lets the pod's failure count for its class: the pod was collected for launching, and preempts no other. The failure of another pod, which was tried
// meanwhile, waits for that pod's.
func (v *verdicts) confirm(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.uid == "" || v.uid != uid {
		return
	}
	// It may be the pod's failure in an earlier cycle, of which this was never called.
	if v.known != nil && v.of == v.in {
		v.known[v.class] = v.last
	}
	v.uid = ""
}

// on returns the verdict as the failure of another pod of the class.
func (v verdict) on(pod *corev1.Pod) *framework.FitError {
	return &framework.FitError{Pod: pod, NumAllNodes: v.nodes, Diagnosis: framework.Diagnosis{
		// One text for all instead of a status for each node, which the message would count again for each pod.
		NodeToStatus: framework.NewDefaultNodeToStatus(), PreFilterMsg: v.why, UnschedulablePlugins: v.unschedulable.Clone(),
	}}
}

// why returns the part of the scheduler's message that lists the nodes' reasons.
func why(fit *framework.FitError) string {
	alone := *fit
	alone.Diagnosis.PostFilterMsg = ""
	text := strings.TrimPrefix(alone.Error(), fmt.Sprintf(framework.NoNodeAvailableMsg+":", fit.NumAllNodes))
	return strings.TrimSuffix(strings.TrimSpace(text), ".")
}

// judgesByClass reports whether the plugin judges by the node, its pods and the pod's class alone. Other plugins use further objects,
// distinguish single pods, or are not Kubernetes' own.
func judgesByClass(plugin string, pod *corev1.Pod) bool {
	switch plugin {
	case names.NodeResourcesFit, names.NodeAffinity, names.NodeName, names.NodePorts, names.NodeUnschedulable,
		names.TaintToleration:
		return true
	case names.InterPodAffinity, affinity.Name:
		// Another pod may have anti-affinity to a label that differs between the pods of a class.
		return !numbered(pod)
	case names.PodTopologySpread, spread.Name:
		// For a pod without constraints, the profile's own ones count the pods of its services.
		return len(pod.Spec.TopologySpreadConstraints) > 0
	}
	return false
}

// numbered reports whether the pod has a label that differs between the pods of its controller.
func numbered(pod *corev1.Pod) bool {
	for _, key := range []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation} {
		if _, ok := pod.Labels[key]; ok {
			return true
		}
	}
	return false
}

// speaks returns the error of a failed cycle if it holds for the pod's class.
func speaks(err error, pod *corev1.Pod) (*framework.FitError, bool) {
	var fit *framework.FitError
	if !errors.As(err, &fit) || fit.Diagnosis.UnschedulablePlugins.Len() == 0 || fit.Diagnosis.PendingPlugins.Len() > 0 {
		return nil, false
	}
	for plugin := range fit.Diagnosis.UnschedulablePlugins {
		if !judgesByClass(plugin, pod) {
			return nil, false
		}
	}
	return fit, true
}

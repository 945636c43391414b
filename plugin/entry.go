package plugin

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// The entry points where the scheduler runs our code.
const (
	pointPreEnqueue = "PreEnqueue"
	pointPreFilter  = "PreFilter"
	pointPostFilter = "PostFilter"
	pointFilter     = "Filter"
	pointPlan       = "Plan"
)

// recovered keeps a bug of ours from stopping ordinary scheduling: the entry point answers as if it were not there.
func (p *Plugin) recovered(point string, status **fwk.Status) {
	if cause := recover(); cause != nil {
		p.metrics.panics.WithLabelValues(point).Inc()
		klog.Background().Error(nil, "The plugin panicked, scheduling goes on without it", "point", point, "panic", cause)
		*status = nil
		if point == pointPostFilter {
			*status = fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("no node is launched: %s panicked: %v", point, cause))
		}
	}
}

// injected runs a test's fault.
func (p *Plugin) injected(point string, pod *corev1.Pod) {
	if p.options.Fault != nil {
		p.options.Fault(point, pod)
	}
}

// hookSide is the plugin as the hooks see it.
type hookSide struct{ p *Plugin }

var _ hooks.Plugin = &hookSide{}

// Begin waits once for what the launcher tells.
func (h *hookSide) Begin() { h.p.begins.wait() }

// Waiting says whether the planner has pods whose batch a drained queue would close.
func (h *hookSide) Waiting() bool {
	h.p.injected(hooks.NextPod, nil)
	return h.p.collected.Open()
}

// Drained is told that the queue is empty.
func (h *hookSide) Drained() { h.p.collected.Drain() }

// Promised returns the message of a promise that is not open.
func (h *hookSide) Promised(pod *corev1.Pod) (string, bool) {
	h.p.injected(hooks.SchedulePod, pod)
	promise, ok := h.p.promises.Held(pod.UID)
	return promise.Message, ok
}

// NoNodes collects a pod that no PostFilter will see.
func (h *hookSide) NoNodes(pod *corev1.Pod) {
	h.p.collected.AddInCycle(intake.Entry{Pod: pod, At: time.Now(), NoNodes: true})
}

// Class is the planner's, together with the state of the pod's namespace, whose labels other pods' affinity may look at.
//
// It leaves out pods whose failure depends on more than the nodes and the pods on them: those with volumes that are attached,
// with resource claims, in a scheduling group, with a namespace selector, and those with a nominated node, which is tried
// first.
func (h *hookSide) Class(pod *corev1.Pod) (string, bool) {
	s := &pod.Spec
	if pod.Status.NominatedNodeName != "" || len(s.ResourceClaims) > 0 || s.SchedulingGroup != nil ||
		slices.ContainsFunc(s.Volumes, attached) || selectsNamespaces(pod) {
		return "", false
	}
	namespace := ""
	if ns, err := h.p.informer.Core().V1().Namespaces().Lister().Get(pod.Namespace); err == nil {
		namespace = ns.ResourceVersion
	}
	return plan.ClassKey(pod) + "/" + namespace, true
}

// attached says of a volume that a node must be able to take it.
func attached(v corev1.Volume) bool {
	return v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil && v.EmptyDir == nil &&
		v.HostPath == nil && v.Image == nil
}

func selectsNamespaces(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	selects := func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }
	with, without := pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity
	return with != nil && slices.ContainsFunc(with.RequiredDuringSchedulingIgnoredDuringExecution, selects) ||
		without != nil && slices.ContainsFunc(without.RequiredDuringSchedulingIgnoredDuringExecution, selects)
}

// Repeats collects a pod that no PostFilter will see, unless PostFilter would not have.
func (h *hookSide) Repeats(pod *corev1.Pod) bool {
	if h.p.pinned(pod) != "" {
		return false
	}
	h.p.collected.AddInCycle(intake.Entry{Pod: pod, At: time.Now()})
	h.p.metrics.answers.Inc()
	return true
}

// Collected says whether the planner will tell the pod's story.
func (h *hookSide) Collected(pod *corev1.Pod, verdict string) bool {
	h.p.injected(hooks.FailureHandler, pod)
	return h.p.collected.Verdict(pod.UID, verdict)
}

// Preempts forgets the pod.
func (h *hookSide) Preempts(uid types.UID) { h.p.collected.Remove(uid) }

// Serves says whether the profile is ours.
func (h *hookSide) Serves(profile string) bool { return h.p.serves(profile) }

// Tripped counts and reports a hook that is switched off.
func (h *hookSide) Tripped(hook string, cause any) {
	h.p.metrics.trips.WithLabelValues(hook).Inc()
	h.p.recorder.Eventf(h.p.lease, nil, corev1.EventTypeWarning, "HookTripped", "Scheduling",
		"slipway's hook on %s panicked (%v) and is off for ten minutes; scheduling goes on", hook, cause)
}

// withoutNodes says that the hooks are off and the cluster has no node.
func (p *Plugin) withoutNodes() bool {
	if *p.args.Hooks || !p.installed.Load() || !p.nodesSynced() {
		return false
	}
	nodes, err := p.informer.Core().V1().Nodes().Lister().List(labels.Everything())
	return err == nil && len(nodes) == 0
}

// planningMessage is the PostFilter's, before the planner has said more.
func (p *Plugin) planningMessage() string {
	if since, ok := p.connection.lost(); ok {
		return p.unreachable(since, "")
	}
	return "slipway plans a node for it"
}

func (p *Plugin) unreachable(since time.Time, verdict string) string {
	return explain.Unreachable(p.args.Socket, since, verdict)
}

// connection says whether the launcher's catalog is being received.
type connection struct {
	mu    sync.Mutex
	up    bool
	since time.Time
}

func (c *connection) lost() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, !c.up
}

func (p *Plugin) setConnected(up bool) {
	value := 0.0
	if up {
		value = 1
	}
	p.connection.mu.Lock()
	p.connection.up, p.connection.since = up, time.Now()
	p.metrics.connected.Set(value)
	p.connection.mu.Unlock()
	klog.Background().V(1).Info("Connection with the launcher changed", "connected", up)
	p.collected.Notify()
}

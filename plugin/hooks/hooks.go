package hooks

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/breaker"
)

// The names of the hooks, for metrics and Events.
const (
	NextPod        = "NextPod"
	SchedulePod    = "SchedulePod"
	FailureHandler = "FailureHandler"
)

// few is a number of pods in the queue that are cheap to look at each time.
const few = 16

// Plugin receives the hooks' calls. Its methods are called in scheduling cycles: all but the first take short locks and do no
// I/O.
type Plugin interface {
	// Begin is called before each pod is taken from the queue. The first call may block for a moment.
	Begin()
	// Waiting reports whether pods were collected whose batch can close when the queue has drained.
	Waiting() bool
	// Drained records that the scheduling queue is empty.
	Drained()
	// Promised returns why the pod waits, and whether it has a promise.
	Promised(pod *corev1.Pod) (message string, ok bool)
	// NoNodes records a pod that failed because the cluster has no node.
	NoNodes(pod *corev1.Pod)
	// Class is equal for pods that fit and fail alike on any node; ok is false for a pod whose failure may depend on more
	// than the nodes and the pods on them.
	Class(pod *corev1.Pod) (class string, ok bool)
	// Repeats records a pod that fails because one of its class did, a moment ago and with nothing changed since. It returns
	// false for a pod that must be tried in spite of that.
	Repeats(pod *corev1.Pod) bool
	// Collected reports whether slipway explains the pod: it was collected in this cycle. verdict is the scheduler's message.
	Collected(pod *corev1.Pod, verdict string) bool
	// Preempts records that a pod was nominated a node: no node is launched for it.
	Preempts(uid types.UID)
	// Place returns the node that the pod is promised, and that it may be bound to by others already; empty for none.
	Place(uid types.UID) string
	// Serves reports whether the profile of this name has slipway's plugin.
	Serves(profile string) bool
	// Ordinary reports whether the nodes that are best for other pods of its class are so for the pod: no room is reserved for it.
	Ordinary(pod *corev1.Pod) bool
	// Hinted records a pod that was placed on one of the best nodes for another of its class, without a look at all nodes.
	Hinted()
	// Tripped records that a hook was switched off, and what it panicked with.
	Tripped(hook string, cause any)
}

// Config is what Install needs.
type Config struct {
	// Scheduler is the one whose fields are replaced; it must not run yet. Required.
	Scheduler *scheduler.Scheduler
	// Plugin receives the hooks' calls. Required.
	Plugin Plugin
	// Pods are those of the scheduler's informer. Required.
	Pods corelisters.PodLister
	// Rejector is the name of the plugin in whose name promised pods are rejected. It must have no event registered.
	Rejector string
	// Waker is the name of a plugin that has Node events registered. Pods in a cluster without nodes fail in its name.
	Waker string
	// Hints are the profiles whose equal pods are tried on few nodes; nil for none.
	Hints sets.Set[string]
}

// hooked is the state behind the three functions.
type hooked struct {
	Config
	next     func(klog.Logger) (*framework.QueuedPodInfo, error)
	schedule func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error)
	fail     scheduler.FailureHandlerFn

	ofNext, ofSchedule, ofFailure breaker.Breaker
	// skip is how many pods can be popped before it is worth looking at the queue again: that copies the queue. Only the
	// scheduling goroutine uses it.
	skip int
	// failing means that the last pod that was tried fits no node, or that none was tried yet. Only the scheduling goroutine uses it.
	failing bool
	// verdicts are those of the pods that were tried a moment ago.
	verdicts verdicts
	// hints are the nodes that were best for pods that were tried a moment ago.
	hints hints
}

// Install sets the hooks on the scheduler. Call it before the scheduler runs.
func Install(cfg Config) error {
	if cfg.Scheduler == nil || cfg.Plugin == nil || cfg.Pods == nil || cfg.Rejector == "" || cfg.Waker == "" {
		return errors.New("hooks: Scheduler, Plugin, Pods, Rejector and Waker are required")
	}
	s := cfg.Scheduler
	h := &hooked{Config: cfg, next: s.NextPod, schedule: s.SchedulePod, fail: s.FailureHandler, failing: true, hints: newHints()}
	h.ofNext = breaker.Breaker{Name: NextPod, Tripped: cfg.Plugin.Tripped}
	h.ofSchedule = breaker.Breaker{Name: SchedulePod, Tripped: cfg.Plugin.Tripped}
	h.ofFailure = breaker.Breaker{Name: FailureHandler, Tripped: cfg.Plugin.Tripped}
	s.NextPod, s.SchedulePod, s.FailureHandler = h.nextPod, h.schedulePod, h.failureHandler()
	return nil
}

// nextPod runs after the previous pod's failure was handled and before the loop blocks. If no pod is left to try, the batch is as
// complete as the queue can show.
func (h *hooked) nextPod(logger klog.Logger) (*framework.QueuedPodInfo, error) {
	h.ofNext.Do(logger, func() {
		h.Plugin.Begin()
		if h.skip > 0 {
			h.skip--
			return
		}
		if !h.Plugin.Waiting() {
			return
		}
		// In the order in which pods go through these lists: one whose backoff ends meanwhile is seen.
		left := len(h.Scheduler.SchedulingQueue.PodsInBackoffQ()) + len(h.Scheduler.SchedulingQueue.PodsInActiveQ())
		if left == 0 {
			h.Plugin.Drained()
			return
		}
		// Half of them: other pods may leave the queue without being popped. If all of them do, the idle window closes the batch.
		if h.skip = left / 2; h.skip < few {
			h.skip = 0
		}
	})
	return h.next(logger)
}

// schedulePod rejects promised pods without looking at any node, and pods of a class of which one has just failed. It records
// pods that fail because the cluster has no node.
func (h *hooked) schedulePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, podInfo *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	pod := podInfo.Pod
	if !h.Plugin.Serves(pod.Spec.SchedulerName) {
		return h.schedule(ctx, fw, state, podInfo)
	}
	var rejected error
	var try attempt
	logger := klog.FromContext(ctx)
	h.ofSchedule.Do(logger, func() {
		if message, ok := h.Plugin.Promised(pod); ok {
			rejected = h.rejection(pod, message)
		} else {
			try, rejected = h.begin(fw, pod)
		}
		if s, ok := state.(*framework.CycleState); ok && rejected != nil {
			// No other PostFilter may run for the pod. DefaultPreemption would clear a promised pod's nomination, and it has
			// found nothing for a pod of the same class.
			s.SetSkipAllPostFilterPlugins(true)
		}
	})
	if rejected != nil {
		return scheduler.ScheduleResult{}, rejected
	}
	result, err := h.try(ctx, fw, state, podInfo)
	h.failing = err != nil
	if err != nil {
		h.ofSchedule.Do(logger, func() {
			if errors.Is(err, scheduler.ErrNoNodesAvailable) {
				h.Plugin.NoNodes(pod)
			} else if fit, ok := speaks(err, pod); ok && try.class != "" && !h.nominated(try.nodes) {
				h.verdicts.tried(pod.UID, try.class, fit)
			}
		})
	}
	return result, err
}

// try tries the pod on the nodes that were best for its class a moment ago, and on all nodes if there are none or it fits none of them.
func (h *hooked) try(ctx context.Context, fw framework.Framework, state fwk.CycleState, podInfo *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	var class string
	var nodes sets.Set[string]
	logger := klog.FromContext(ctx)
	h.ofSchedule.Do(logger, func() {
		if class = h.hinted(fw, podInfo.Pod); class != "" {
			nodes = h.hints.take(class, time.Now())
		}
	})
	if nodes != nil {
		// Without a signature Kubernetes' opportunistic batching keeps no list of these nodes, on which it would place further pods.
		unsigned := *podInfo
		unsigned.PodSignature = nil
		result, err := h.schedule(ctx, &onNodes{fw, nodes}, state, &unsigned)
		if err == nil {
			h.ofSchedule.Do(logger, h.Plugin.Hinted)
		}
		if _, unfit := errors.AsType[*framework.FitError](err); !unfit {
			return result, err
		}
	}
	if class == "" {
		return h.schedule(ctx, fw, state, podInfo)
	}
	return h.schedule(ctx, &shown{fw, func(scores []fwk.NodePluginScores, nodes []fwk.NodeInfo) {
		h.ofSchedule.Do(logger, func() { h.hints.learn(class, scores, nodes, time.Now()) })
	}}, state, podInfo)
}

// hinted returns the class whose hints are for the pod; empty if it is to be tried on all nodes.
func (h *hooked) hinted(fw framework.Framework, pod *corev1.Pod) string {
	if !h.Hints.Has(fw.ProfileName()) {
		return ""
	}
	if nodes, err := fw.SnapshotSharedLister().NodeInfos().List(); err != nil || len(nodes) < hintedNodes || !Hintable(pod) || !h.Plugin.Ordinary(pod) {
		return ""
	}
	class, ok := h.Plugin.Class(pod)
	if !ok {
		return ""
	}
	// A node's score depends on which images it has.
	for i := range pod.Spec.Containers {
		class += "/" + pod.Spec.Containers[i].Image
	}
	return class
}

// attempt is a pod that is tried. Its class is empty if its failure counts for no other pod.
type attempt struct {
	class string
	nodes []fwk.NodeInfo
}

// begin returns the rejection of the pod by the verdict on its class. Without a verdict the pod is tried.
//
// Where the pod before fits a node, all verdicts are void, as that pod is now on the node. The pod is then tried at once, and a failure counts
// for it alone: asking for the nominated pods of 5,000 nodes takes longer than to schedule a pod, and most pods fit.
func (h *hooked) begin(fw framework.Framework, pod *corev1.Pod) (try attempt, rejected error) {
	if !h.failing {
		return attempt{}, nil
	}
	class, ok := h.Plugin.Class(pod)
	if !ok {
		return attempt{}, nil
	}
	nodes, err := fw.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return attempt{}, err
	}
	if known, ok := h.verdicts.look(class, worldOf(nodes), time.Now()); ok && h.Plugin.Repeats(pod) {
		return attempt{}, known.on(pod)
	}
	if h.nominated(nodes) {
		return attempt{}, nil
	}
	return attempt{class: class, nodes: nodes}, nil
}

// nominated reports whether resources of any node are reserved for a nominated pod. A pod may then fail because of the
// reservation, which can end without a trace on the node. A pod that fails without reservations also fails with later ones.
// Promised pods keep their reservations, so they do not count.
func (h *hooked) nominated(nodes []fwk.NodeInfo) bool {
	return slices.ContainsFunc(nodes, func(info fwk.NodeInfo) bool {
		return info.Node() != nil && slices.ContainsFunc(h.Scheduler.SchedulingQueue.NominatedPodsForNode(info.Node().Name), func(p fwk.PodInfo) bool {
			_, promised := h.Plugin.Promised(p.GetPod())
			return !promised
		})
	})
}

func (h *hooked) rejection(pod *corev1.Pod, message string) error {
	status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message).WithPlugin(h.Rejector)
	return &framework.FitError{Pod: pod, Diagnosis: framework.Diagnosis{
		NodeToStatus:         framework.NewNodeToStatus(map[string]*fwk.Status{}, status),
		UnschedulablePlugins: sets.New(h.Rejector),
		PreFilterMsg:         message,
	}}
}

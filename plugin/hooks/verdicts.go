package hooks

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	// verdictAge bounds what a verdict may miss that changes no node, such as a nomination that ends.
	verdictAge = time.Second
	// maxVerdicts bounds their memory: each names every node.
	maxVerdicts = 32
)

// world tells states of the cluster apart: the scheduler numbers the changes of its nodes, and of the pods on them, one after
// the other, and a node that goes changes their number.
type world struct {
	nodes      int
	generation int64
}

// worldOf is what this scheduling cycle sees. Only the scheduling goroutine may call it.
func worldOf(fw framework.Framework) (world, error) {
	list, err := fw.SnapshotSharedLister().NodeInfos().List()
	w := world{nodes: len(list)}
	for _, info := range list {
		w.generation = max(w.generation, info.GetGeneration())
	}
	return w, err
}

// verdicts lets one failure speak for its class: while nothing changes, a pod fits nowhere where one of identical needs has
// just failed, and need not be tried on every node again. Failures may be handled in any goroutine.
type verdicts struct {
	mu    sync.Mutex
	in    world
	until time.Time
	known map[string]*framework.FitError
	// The failure of the cycle under way, which counts once it is known that the pod does not preempt either.
	uid   types.UID
	class string
	fit   *framework.FitError
}

// look returns the verdict on a class, nil where there is none that holds.
func (v *verdicts) look(class string, in world, now time.Time) *framework.FitError {
	v.mu.Lock()
	defer v.mu.Unlock()
	if in != v.in || now.After(v.until) || len(v.known) >= maxVerdicts {
		v.in, v.until, v.known = in, now.Add(verdictAge), map[string]*framework.FitError{}
	}
	return v.known[class]
}

// tried notes that the pod fits nowhere.
func (v *verdicts) tried(uid types.UID, class string, fit *framework.FitError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.uid, v.class, v.fit = uid, class, fit
}

// confirm makes the pod's failure its class's: it was collected to be launched for, and makes no room for itself.
func (v *verdicts) confirm(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.uid == uid && v.fit != nil && v.known != nil {
		v.known[v.class] = v.fit
	}
	v.uid, v.fit = "", nil
}

// fitError is the error in a failed cycle; nil where that is another one, or where it is not to speak for others: pods that
// the waker's plugin keeps off are woken by it one by one.
func (h *hooked) fitError(err error) *framework.FitError {
	var fit *framework.FitError
	if !errors.As(err, &fit) || fit.Diagnosis.UnschedulablePlugins.Has(h.Waker) {
		return nil
	}
	return fit
}

// repeated is the same verdict on another pod.
func repeated(fit *framework.FitError, pod *corev1.Pod) *framework.FitError {
	d := fit.Diagnosis
	return &framework.FitError{Pod: pod, NumAllNodes: fit.NumAllNodes, Diagnosis: framework.Diagnosis{
		NodeToStatus: d.NodeToStatus, PreFilterMsg: d.PreFilterMsg,
		UnschedulablePlugins: sets.New(d.UnschedulablePlugins.UnsortedList()...), PendingPlugins: sets.New(d.PendingPlugins.UnsortedList()...),
	}}
}

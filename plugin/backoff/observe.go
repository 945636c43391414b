package backoff

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/clip"
)

// maxReason limits the length of a pod's own message, in bytes.
const maxReason = 300

// Observe records the state of a pod. For pods without a launch it only reads a map.
func (l *Launches) Observe(seen *corev1.Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ending, seen.UID)
	at := l.byPod[seen.UID]
	if at == nil {
		return
	}
	p := at.pods[seen.UID]
	if seen.Spec.NodeName == "" {
		return
	}
	p.node = seen.Spec.NodeName
	if at.node != "" && p.node != at.node {
		l.drop(seen.UID) // The pod was bound to another node.
		return
	}
	if seen.Status.Phase == corev1.PodRunning && p.running.IsZero() {
		p.running = now
	}
	long := !p.running.IsZero() && now.Sub(p.running) >= provenAfter
	why := rejection(seen)
	switch {
	case p.lost != "" || p.ran:
	case long, why == "" && (seen.Status.Phase == corev1.PodSucceeded || seen.Status.Phase == corev1.PodFailed):
		p.ran = true
	default:
		if p.lost = why; why != "" {
			p.lostAt = now
		}
	}
}

// Ends records that the pod has ended, and that it is being looked up how: Observe or Deleted reports that. Until then Awaits is true for
// its owner. Ends reports whether that is of use: the pod counts for a launch.
func (l *Launches) Ends(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.byPod[uid]
	if at == nil {
		return false
	}
	l.ending[uid] = at.owner
	return true
}

// Awaits reports whether it is being looked up how a pod of the owner ended.
func (l *Launches) Awaits(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.ending {
		if of == owner {
			return true
		}
	}
	return false
}

// Deleted records that the pod was deleted. A lost pod still counts: its controller creates another.
func (l *Launches) Deleted(uid types.UID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ending, uid)
	if at := l.byPod[uid]; at != nil && at.pods[uid].lost == "" && !at.proven(now) {
		l.drop(uid)
	}
}

// rejection returns why the pod's node does not run it; empty where it may. The kubelet has refused or evicted the pod, or a
// pod of higher priority preempts it.
func rejection(pod *corev1.Pod) string {
	s := pod.Status
	if s.Phase == corev1.PodFailed && s.Reason != "" && s.Reason != "DeadlineExceeded" {
		return short(s.Reason + ": " + s.Message)
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			(c.Reason == corev1.PodReasonPreemptionByScheduler || c.Reason == corev1.PodReasonTerminationByKubelet) {
			return short(c.Reason + ": " + c.Message)
		}
	}
	return ""
}

func short(s string) string {
	return clip.Text(strings.TrimRight(strings.Join(strings.Fields(s), " "), ".: "), maxReason)
}

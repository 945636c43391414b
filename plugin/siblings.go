package plugin

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

const (
	// mostSiblingWaits bounds how many pods wait for others of their plan: each is compared with promised pods every second.
	mostSiblingWaits = 200
	// siblingsSeen is how long after the last of the others was bound a pod waits still: it is tried again when the scheduler sees that.
	siblingsSeen = 2 * time.Second
	// siblingsAge is how old the list of promised pods may be.
	siblingsAge = 500 * time.Millisecond
)

// siblingWaits are the pods of initialized nodes that keep their promises, though the scheduler tries them. A plan counts all of its pods where they will be. The
// scheduler counts bound ones alone, so that topology spread or affinity may keep a pod off its node until others have theirs. Without its promise, the
// pod would have another node launched. Pods that a later plan promised nodes count as well. The planner's goroutine alone uses it.
type siblingWaits struct {
	promises *promise.Table
	queue    *queue
	// last is when pods of other nodes were found last that the pod waits for.
	last map[types.UID]time.Time
	// coming are the promised pods that the scheduler does not try yet, as they were listed.
	coming []comingPod
	listed time.Time
}

// comingPod is a pod that is promised a node.
type comingPod struct {
	pod       *corev1.Pod
	nodeClaim string
}

// keep returns which promises of a node that is initialized stay.
func (s *siblingWaits) keep(promises []promise.Promise, now time.Time) []types.UID {
	var out []types.UID
	for _, p := range promises {
		if !p.PreBound && len(s.last) < mostSiblingWaits && s.waits(p, now) {
			uid := types.UID(p.Pod.UID)
			s.last[uid] = now
			out = append(out, uid)
		}
	}
	return out
}

// over returns the pods that wait no longer: none of the others is still to come, or their node goes.
func (s *siblingWaits) over(now time.Time) []types.UID {
	if len(s.last) == 0 {
		s.coming = nil
		return nil
	}
	var out []types.UID
	for uid, at := range s.last {
		p, held := s.promises.Get(uid)
		goes := held && s.queue.objects.terminates(p.NodeName)
		switch {
		case !held:
			delete(s.last, uid)
		case !goes && s.waits(p, now):
			s.last[uid] = now
		case goes || now.Sub(at) >= siblingsSeen:
			delete(s.last, uid)
			out = append(out, uid)
		}
	}
	return out
}

// claims returns the NodeClaims of the pods that wait: the launcher knows them no longer, as their nodes are initialized.
func (s *siblingWaits) claims() map[string]bool {
	out := map[string]bool{}
	for uid := range s.last {
		if p, held := s.promises.Get(uid); held {
			out[p.NodeClaim] = true
		}
	}
	return out
}

// waits reports whether what a promised pod requires of topologies counts a pod that is promised another node and that the scheduler does not try yet. The
// pods of a gang wait for each other in another way, and those of other schedulers are not in the queue.
func (s *siblingWaits) waits(p promise.Promise, now time.Time) bool {
	pod := s.queue.objects.pod(p.Pod)
	if pod == nil || s.queue.profiles.adopts(pod.Spec.SchedulerName) || plan.GangOf(pod).Size > 1 {
		return false
	}
	counts := countedBy(pod)
	if len(counts) == 0 {
		return false
	}
	s.list(now)
	return slices.ContainsFunc(s.coming, func(other comingPod) bool {
		return other.nodeClaim != p.NodeClaim && slices.ContainsFunc(counts, func(counts func(*corev1.Pod) bool) bool { return counts(other.pod) })
	})
}

// list lists the promised pods again, if the list is old.
func (s *siblingWaits) list(now time.Time) {
	if s.coming != nil && now.Sub(s.listed) < siblingsAge {
		return
	}
	s.coming, s.listed = nil, now
	for _, p := range s.promises.Waiting() {
		if pod := s.queue.objects.pod(p.Pod); pod != nil {
			s.coming = append(s.coming, comingPod{pod: pod, nodeClaim: p.NodeClaim})
		}
	}
}

// countedBy returns which pods each requirement counts: a topology spread with DoNotSchedule, or a term of pod affinity.
func countedBy(pod *corev1.Pod) []func(*corev1.Pod) bool {
	var out []func(*corev1.Pod) bool
	for _, c := range pod.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil || c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		out = append(out, func(other *corev1.Pod) bool {
			return other.Namespace == pod.Namespace && selector.Matches(labels.Set(other.Labels))
		})
	}
	terms, err := fwk.GetAffinityTerms(pod, fwk.GetPodAffinityTerms(pod.Spec.Affinity))
	if err != nil {
		return out
	}
	for _, t := range terms {
		out = append(out, func(other *corev1.Pod) bool { return t.Matches(other, nil) })
	}
	return out
}

// releaseSiblings releases the pods that wait no longer for others of their plan.
func (c *catalogUpdates) releaseSiblings(now time.Time) {
	if over := c.siblings.over(now); len(over) > 0 {
		c.metrics.release("initialized", c.promises.Release(over...), c.promises)
	}
}

// leaveInitialized lets the scheduler try the pods of a node that is initialized. They lose their promises, but for those that may have to wait for pods of
// other nodes.
func (c *catalogUpdates) leaveInitialized(ctx context.Context, nodeClaim, node string, now time.Time) {
	c.promises.SetNode(nodeClaim, node)
	held := c.promises.OfClaim(nodeClaim)
	for _, p := range held {
		if !p.PreBound {
			c.queue.nominate(ctx, p.Pod, node)
		}
	}
	keep := c.siblings.keep(held, now)
	c.promises.Open(keep...)
	c.metrics.release("initialized", c.promises.ReleaseInitialized(nodeClaim, now.Add(boundWithin), keep...), c.promises)
}

package election

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// giveUpAfter is how long a replica leads without its launcher before it gives the Lease up. A launcher that was killed is back sooner.
	giveUpAfter = time.Minute
	// keepFor is the same for a replica that took a free Lease without its launcher. For Patience no replica leads then: if none of them reaches its
	// launcher, and they are Ready nevertheless, that is twice an hour.
	keepFor = 30 * time.Minute
	// lookEvery is how often a leader looks at its launcher.
	lookEvery = 5 * time.Second
)

// AwaitOther waits until this replica is to give the Lease up: it has led for a minute without its launcher, and ready reports that another
// replica is ready to lead, since the time that it is given or later. Without another one it leads on. AwaitOther returns false if the context
// ends before. It may be called while an elector uses the lock.
//
// The time is not zero where this replica took a Lease that was free without its launcher: another one that was ready then would have taken it.
// Half an hour takes the place of the minute then. So the Lease is not given up again and again for a replica that cannot lead.
func (l *Lock) AwaitOther(ctx context.Context, ready func(since time.Time) bool) bool {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var away time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case now := <-ticker.C:
			switch led := l.leads.Load(); {
			case led == nil || l.connected(ended):
				away = time.Time{}
			case away.IsZero():
				away = now
			case now.Sub(away) >= led.atLeast() && ready(led.free):
				return true
			}
		}
	}
}

// Others returns the other replicas of the Pod own that are not being deleted. It returns none where own is not among the pods, such as with host
// networking, where a container's host name is its node's.
func Others(pods []*corev1.Pod, own types.NamespacedName) (out []*corev1.Pod) {
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Namespace == own.Namespace && p.Name == own.Name })
	if i < 0 {
		return nil
	}
	for _, p := range pods {
		if p != pods[i] && p.DeletionTimestamp == nil && replicas(p, pods[i]) {
			out = append(out, p)
		}
	}
	return out
}

// Ready reports whether one of the replicas has become Ready since, and is: both of its containers work.
func Ready(replicas []*corev1.Pod, since time.Time) bool {
	return slices.ContainsFunc(replicas, func(p *corev1.Pod) bool { return ready(p, since) })
}

// replicas reports whether two Pods are of the same installation: they have these labels in common.
func replicas(a, b *corev1.Pod) bool {
	const name, instance = "app.kubernetes.io/name", "app.kubernetes.io/instance"
	return a.Namespace == b.Namespace && a.Labels[name] != "" && a.Labels[name] == b.Labels[name] && a.Labels[instance] == b.Labels[instance]
}

func ready(pod *corev1.Pod, since time.Time) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.Time.Before(since)
	})
}

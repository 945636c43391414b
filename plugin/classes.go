package plugin

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// mostClasses is how many pods a generation of classes has: twice as many take 6 MiB.
const mostClasses = 1 << 15

// classes remembers the classes of pods that are tried again and again: of thousands that fit nowhere, each is tried whenever some pod ends, and to find
// out its class was a fifth of what the scheduler allocated then. It is for the scheduling goroutine; its zero value is ready.
type classes struct {
	// recent and older are two generations, by the pods' UIDs: pods that are not tried any more are forgotten with the older one.
	recent, older map[types.UID]classOf
}

// classOf is the class of a version of a pod.
type classOf struct {
	version string
	class   unique.Handle[string]
}

// of returns the pod's class (plan.ClassKey).
func (c *classes) of(pod *corev1.Pod) string {
	if pod.UID == "" || pod.ResourceVersion == "" {
		return plan.ClassKey(pod)
	}
	known, ok := c.recent[pod.UID]
	if ok && known.version == pod.ResourceVersion {
		return known.class.Value()
	}
	if known, ok = c.older[pod.UID]; !ok || known.version != pod.ResourceVersion {
		known = classOf{pod.ResourceVersion, unique.Make(plan.ClassKey(pod))}
	}
	if c.recent == nil || len(c.recent) >= mostClasses {
		c.recent, c.older = map[types.UID]classOf{}, c.recent
	}
	c.recent[pod.UID] = known
	return known.class.Value()
}

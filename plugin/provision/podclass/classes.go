package podclass

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Needs tells what pods need beyond their specs: what their profiles and the objects around them add.
type Needs struct {
	// Spreads tells which constraints profiles add; nil for none.
	Spreads *Spreads
	// Volumes tells where volumes can be used; nil where pods have none.
	Volumes *Volumes
}

// Classes collects pods by class, in the order of each class's first pod. It is for one caller at a time.
type Classes struct {
	needs Needs
	list  []plan.Class
	byKey map[string]int
}

// New returns an empty collection.
func New(needs Needs) *Classes {
	return &Classes{needs: needs, byKey: map[string]int{}}
}

// Of returns the index of the pod's class in List, which it enters into the list if the pod is the first of it. The key is
// plan.ClassKey of the pod, or empty where the caller has not computed it.
func (c *Classes) Of(pod *corev1.Pod, key string) int {
	if key == "" {
		key = plan.ClassKey(pod)
	}
	class := plan.Class{Pod: pod}
	var selector string
	if c.needs.Spreads != nil {
		class.DefaultSpread, selector = c.needs.Spreads.Of(pod)
	}
	class.Key = strings.TrimSuffix(key+"/"+selector, "/")
	i, known := c.byKey[class.Key]
	if known {
		return i
	}
	if c.needs.Volumes != nil {
		class.Volumes = c.needs.Volumes.Of(pod)
	}
	i = len(c.list)
	c.byKey[class.Key] = i
	c.list = append(c.list, class)
	return i
}

// Add enters a pod into a class that Of returned.
func (c *Classes) Add(class int, pod catalog.PodRef) {
	c.list[class].Pods = append(c.list[class].Pods, pod)
}

// List returns the classes, with the pods that were added.
func (c *Classes) List() []plan.Class { return c.list }

package podclass

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Needs returns what pods need beyond their specs: what their profiles and other objects add.
type Needs struct {
	// Spreads returns the spread constraints that profiles add; nil for none.
	Spreads *Spreads
	// Affinity is the node affinity that profiles require of their pods, by the profile's name; nil for none.
	Affinity map[string]*corev1.NodeSelector
	// Volumes returns where volumes can be used; nil if pods have none.
	Volumes *Volumes
	// Selected are the labels by which selectors distinguish pods that are alike otherwise; nil for none.
	Selected *plan.Selected
}

// Classes groups pods by class, in the order of each class's first pod. It serves one caller at a time.
type Classes struct {
	needs Needs
	list  []plan.Class
	byKey map[string]int
}

// New returns an empty collection.
func New(needs Needs) *Classes {
	return &Classes{needs: needs, byKey: map[string]int{}}
}

// Of returns the index in List of the pod's class. If the pod is the first of its class, Of adds the class to the list. The key
// is plan.ClassKey of the pod, or empty if the caller has not computed it.
func (c *Classes) Of(pod *corev1.Pod, key string) int {
	if key == "" {
		key = plan.ClassKey(pod)
	}
	class := plan.Class{Pod: pod, AddedAffinity: c.needs.Affinity[pod.Spec.SchedulerName]}
	var selector string
	if c.needs.Spreads != nil {
		class.DefaultSpread, selector = c.needs.Spreads.Of(pod)
	}
	class.Key = strings.TrimSuffix(key+"/"+selector, "/")
	if c.Single(pod) {
		class.Key += "/" + c.own(pod)
	}
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

// Single reports whether the class of the pod may be another one than that of a pod with the same spec, because of labels by which selectors distinguish
// them, or because each has volume claims of its own.
func (c *Classes) Single(pod *corev1.Pod) bool {
	return c.needs.Selected.Of(pod) != "" || c.needs.Volumes != nil && slices.ContainsFunc(pod.Spec.Volumes, ephemeral)
}

// ephemeral reports whether the volume has a claim that is made for its pod.
func ephemeral(v corev1.Volume) bool { return v.Ephemeral != nil }

// own returns a key of what makes the pod's class another one than that of a pod with the same spec.
func (c *Classes) own(pod *corev1.Pod) string {
	type place struct {
		Driver, Problem string
		Terms           []corev1.NodeSelectorTerm
	}
	var places []place
	if c.needs.Volumes != nil && slices.ContainsFunc(pod.Spec.Volumes, ephemeral) {
		for _, v := range c.needs.Volumes.Of(pod) {
			places = append(places, place{v.Driver, v.Problem, v.Terms})
		}
	}
	text, err := json.Marshal(places)
	if err != nil {
		text = []byte(pod.UID) // Only a channel or a function cannot be marshalled, and a volume has none.
	}
	sum := sha256.Sum256(append(text, c.needs.Selected.Of(pod)...))
	return hex.EncodeToString(sum[:12])
}

// Add adds a pod to a class that Of returned.
func (c *Classes) Add(class int, pod catalog.PodRef) {
	c.list[class].Pods = append(c.list[class].Pods, pod)
}

// List returns the classes with the pods that were added.
func (c *Classes) List() []plan.Class { return c.list }

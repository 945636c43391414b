package catalog

import (
	"encoding/json"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxPromised is how many pods can be promised to one NodeClaim. Their UIDs, in PodsAnnotation and again in BindingsAnnotation, take less
// than a third of the 256 KiB that the API server allows for all annotations of an object. No instance type has addresses for more than
// 737 pods, but spec.kubelet.maxPods of an EC2NodeClass has no limit.
const MaxPromised = 1000

// promisedPods is an entry of PodsAnnotation: pods that differ by their UIDs alone.
type promisedPods struct {
	UIDs          []string `json:"uids"`
	SchedulerOnly string   `json:"schedulerOnly,omitempty"`
	Adopted       bool     `json:"adopted,omitempty"`
}

// FormatPods returns the value of PodsAnnotation. It has the UIDs of the pods and not their names: names may be seven times as long.
func FormatPods(pods []PodRef) string {
	list := []promisedPods{}
	at := map[PodRef]int{}
	for _, p := range pods {
		needs := PodRef{SchedulerOnly: p.SchedulerOnly, Adopted: p.Adopted}
		i, ok := at[needs]
		if !ok {
			i, at[needs] = len(list), len(list)
			list = append(list, promisedPods{SchedulerOnly: p.SchedulerOnly, Adopted: p.Adopted})
		}
		list[i].UIDs = append(list[i].UIDs, p.UID)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "[]" // Strings always marshal.
	}
	return string(text)
}

// ParsePods returns the pods in a value of PodsAnnotation, without their names; none for an empty text.
func ParsePods(text string) ([]PodRef, error) {
	if text == "" {
		return nil, nil
	}
	var list []promisedPods
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	n := 0
	for _, p := range list {
		n += len(p.UIDs)
	}
	out := make([]PodRef, 0, n)
	for _, p := range list {
		for _, uid := range p.UIDs {
			out = append(out, PodRef{UID: uid, SchedulerOnly: p.SchedulerOnly, Adopted: p.Adopted})
		}
	}
	return out, nil
}

// PromisedUIDs returns the UIDs in a value of PodsAnnotation without decoding it: at 5,000 NodeClaims, decoding takes a quarter of a second and
// 50 MB. It also returns the names of the fields, which are no UIDs. A text with escaped characters is decoded: FormatPods writes none for UIDs
// of the API server.
func PromisedUIDs(text string) iter.Seq[string] {
	if !strings.Contains(text, `\`) {
		return strings.SplitSeq(text, `"`)
	}
	pods, err := ParsePods(text)
	return func(yield func(string) bool) {
		for _, p := range pods {
			if err != nil || !yield(p.UID) {
				return
			}
		}
	}
}

// CapPods lowers the number of pods in a node's resources to MaxPromised. It changes the list.
func CapPods(of corev1.ResourceList) {
	if of.Pods().Value() > MaxPromised {
		of[corev1.ResourcePods] = *resource.NewQuantity(MaxPromised, resource.DecimalSI)
	}
}

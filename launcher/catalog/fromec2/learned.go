package fromec2

import (
	"encoding/json"
	"fmt"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Sizes is what real nodes of a class have reported, the least of all, by instance type and AMI. It is kept as JSON in
// the class's annotation slipway.dev/learned-sizes, so that it lives as long as the class and is known after a restart.
type Sizes map[string]Size

// Size is what nodes of one instance type and AMI have reported.
type Size struct {
	// Memory is the capacity of memory.
	Memory resource.Quantity `json:"memory"`
	// Allocatable holds the resources of which a node left less to pods than was promised, as it reported them; Class is
	// the class's hash that they were reported under, and they count for it alone.
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Class is the hash of the EC2NodeClass that Allocatable was reported under.
	Class string `json:"class,omitempty"`
}

// SizesKey names an instance type with an AMI.
func SizesKey(instanceType, imageID string) string { return instanceType + "/" + imageID }

// SizesOf reads the class's annotation; none where it cannot be read: what a node reports is learned again.
func SizesOf(class *awsv1.EC2NodeClass) Sizes {
	out := Sizes{}
	if err := json.Unmarshal([]byte(class.Annotations[catalog.LearnedAnnotation]), &out); err != nil {
		return Sizes{}
	}
	return out
}

// String is the annotation's value.
func (s Sizes) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%d sizes", len(s)) // Texts and quantities always marshal.
	}
	return string(text)
}

// Learn takes over what a node of the key has reported, and says whether it is news. promised is what the node was
// launched for, and hash that of the class it was launched from.
func (s Sizes) Learn(key, hash string, promised, capacity, allocatable corev1.ResourceList) bool {
	have, known := s[key]
	next, news := have, false
	if memory := *capacity.Memory(); !known || memory.Cmp(have.Memory) < 0 {
		next.Memory, news = memory, true
	}
	if next.Class != hash {
		next.Class, next.Allocatable = hash, nil
	}
	least := next.Allocatable.DeepCopy()
	if least == nil {
		least = corev1.ResourceList{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		want, got := promised[name], allocatable[name]
		before, seen := least[name]
		if got.Cmp(want) < 0 && (!seen || got.Cmp(before) < 0) {
			least[name], news = got, true
		}
	}
	if len(least) > 0 {
		next.Allocatable = least
	} else {
		next.Class = ""
	}
	if news {
		s[key] = next
	}
	return news
}

// Prune forgets AMIs that the class launches no more, once it holds more than an annotation should.
func (s Sizes) Prune(class *awsv1.EC2NodeClass) {
	if len(s) <= sizesAtMost {
		return
	}
	current := map[string]bool{}
	for _, ami := range class.Status.AMIs {
		current[ami.ID] = true
	}
	for key := range s {
		if _, ami, _ := strings.Cut(key, "/"); !current[ami] {
			delete(s, key)
		}
	}
}

// sizesAtMost entries take some 60 KiB; Kubernetes takes 256 KiB of annotations.
const sizesAtMost = 1000

// Learned is what counts for an instance type that is launched with an AMI from the class.
func (s Sizes) Learned(class *awsv1.EC2NodeClass, instanceType, imageID string) (catalog.Learned, bool) {
	size, ok := s[SizesKey(instanceType, imageID)]
	out := catalog.Learned{MemoryBytes: size.Memory.Value()}
	if size.Class != "" && size.Class == class.Annotations[awsv1.AnnotationEC2NodeClassHash] {
		out.Allocatable = size.Allocatable
	}
	return out, ok
}

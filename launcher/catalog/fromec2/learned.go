package fromec2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// ReportsCountFor is how long a report counts. A node that lives on reports again.
	ReportsCountFor = 24 * time.Hour
	// ReportAgain is after how long a node's report is written down once more.
	ReportAgain = ReportsCountFor / 2
	// reportPause is how long a node's report stands before another of it is written down: each is a new catalogue, and a
	// kubelet may report as often as it likes.
	reportPause = 10 * time.Second
	// reportsAtMost is how many reports are kept of one instance type and AMI. What counts follows from the lowest two nodes
	// in each of five amounts, and two such nodes are mostly the same in all of them.
	reportsAtMost = 6
	// sizesBytes is how long the annotation gets at most. Kubernetes takes 256 KiB of annotations.
	sizesBytes = 128 << 10
)

// Sizes is what real nodes of a class have reported, by instance type and AMI. It is kept as JSON in the class's annotation
// slipway.dev/learned-sizes, so that it lives as long as the class and is known after a restart.
type Sizes map[string][]Report

// Report is what one node has reported, or what its kubelet's rejection of a pod has shown.
type Report struct {
	// NodeClaim of the node.
	NodeClaim string `json:"nodeClaim"`
	// Rejection says that a kubelet rejected a pod, which the node's report does not explain.
	Rejection bool `json:"rejection,omitempty"`
	// At is when.
	At metav1.Time `json:"at"`
	// Memory is the capacity of memory; zero in a rejection.
	Memory resource.Quantity `json:"memory"`
	// Allocatable is what pods have of CPU, memory, ephemeral storage and pods. It depends on the class's settings.
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Class is the hash of the EC2NodeClass that the node was launched from; Allocatable counts for it alone.
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

// Note writes a report of a node of the key into the class's annotation. It says whether that is news: whether it may change what
// counts, or a node that is known reports otherwise than before, or has not reported for long. The duration is after how long the
// node is to report again.
func Note(class *awsv1.EC2NodeClass, key string, r Report) (news bool, again time.Duration) {
	r.Allocatable = learnable(r.Allocatable)
	sizes := SizesOf(class)
	sizes.Expire(r.At.Time)
	if before, known := sizes.before(key, r); known && r.At.Sub(before) < reportPause {
		return false, reportPause - r.At.Sub(before)
	}
	if !sizes.add(key, r) {
		return false, ReportAgain
	}
	sizes.prune(class)
	sizes.write(class)
	return true, ReportAgain
}

// before returns when the node reported last; false where it has not.
func (s Sizes) before(key string, r Report) (time.Time, bool) {
	i := slices.IndexFunc(s[key], func(have Report) bool { return have.NodeClaim == r.NodeClaim && have.Rejection == r.Rejection })
	if i < 0 {
		return time.Time{}, false
	}
	return s[key][i].At.Time, true
}

// Expire forgets reports that no longer count, and says whether there were any.
func (s Sizes) Expire(now time.Time) bool {
	expired := false
	for key, reports := range s {
		left := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return now.Sub(r.At.Time) >= ReportsCountFor })
		expired = expired || len(left) < len(reports)
		if s[key] = left; len(left) == 0 {
			delete(s, key)
		}
	}
	return expired
}

// ExpireReports forgets what no longer counts of a class's annotation, and says whether there was any.
func ExpireReports(class *awsv1.EC2NodeClass, now time.Time) bool {
	sizes := SizesOf(class)
	if class.Annotations[catalog.LearnedAnnotation] == "" || len(sizes) > 0 && !sizes.Expire(now) {
		return false
	}
	sizes.write(class) // Also where it could not be read.
	return true
}

// Forget forgets what nodes of one instance type, or of all where it is empty, have reported, and returns of how many instance types
// and AMIs.
func Forget(class *awsv1.EC2NodeClass, instanceType string) int {
	sizes := SizesOf(class)
	before := len(sizes)
	maps.DeleteFunc(sizes, func(key string, _ []Report) bool {
		kind, _, _ := strings.Cut(key, "/")
		return instanceType == "" || kind == instanceType
	})
	sizes.write(class)
	return before - len(sizes)
}

func (s Sizes) write(class *awsv1.EC2NodeClass) {
	if len(s) == 0 {
		delete(class.Annotations, catalog.LearnedAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, catalog.LearnedAnnotation, s.String())
}

func (s Sizes) add(key string, r Report) bool {
	for i, have := range s[key] {
		if have.NodeClaim != r.NodeClaim || have.Rejection != r.Rejection {
			continue
		}
		same := have.Class == r.Class && have.Memory.Cmp(r.Memory) == 0 && equality.Semantic.DeepEqual(have.Allocatable, r.Allocatable)
		if same && r.At.Sub(have.At.Time) < ReportAgain {
			return false
		}
		s[key][i] = r
		return true
	}
	if !slices.ContainsFunc(r.amounts(), func(a amount) bool { return a.matters(s[key]) }) {
		return false
	}
	s[key] = append(s[key], r)
	if len(s[key]) > reportsAtMost {
		s[key] = needed(s[key])
	}
	return true
}

// amount is one number of a report: of the memory's capacity, or of a resource that is allocatable under a class's hash.
type amount struct {
	class string
	name  corev1.ResourceName
	value resource.Quantity
}

func (r Report) amounts() []amount {
	var out []amount
	if !r.Memory.IsZero() {
		out = append(out, amount{"", "", r.Memory})
	}
	for name, q := range r.Allocatable {
		out = append(out, amount{r.Class, name, q})
	}
	return out
}

// matters says that the amount would be one of the lowest two among those of different nodes.
func (a amount) matters(reports []Report) bool {
	lower := map[string]bool{}
	for _, r := range reports {
		for _, b := range r.amounts() {
			if b.class == a.class && b.name == a.name && b.value.Cmp(a.value) <= 0 {
				lower[r.NodeClaim] = true
			}
		}
	}
	return len(lower) < 2
}

// needed returns the reports that what counts follows from, the newest of them where they are too many.
func needed(reports []Report) []Report {
	newest := slices.SortedStableFunc(slices.Values(reports), func(a, b Report) int { return b.At.Compare(a.At.Time) })
	for i := len(newest) - 1; i >= 0 && len(newest) > reportsAtMost; i-- {
		others := slices.Delete(slices.Clone(newest), i, i+1)
		if !slices.ContainsFunc(newest[i].amounts(), func(a amount) bool { return a.matters(others) }) {
			newest = others
		}
	}
	return newest[:min(len(newest), reportsAtMost)]
}

// learnable are the resources that are planned with a number that nodes can show to be wrong.
func learnable(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

// prune forgets what an annotation has no room for: AMIs that the class launches no more, then what was reported longest ago.
func (s Sizes) prune(class *awsv1.EC2NodeClass) {
	current := map[string]bool{}
	for _, ami := range class.Status.AMIs {
		current[ami.ID] = true
	}
	age := func(key string) (bool, int64) {
		_, ami, _ := strings.Cut(key, "/")
		newest := int64(0)
		for _, r := range s[key] {
			newest = max(newest, r.At.Unix())
		}
		return current[ami], newest
	}
	length := len(s.String())
	for _, key := range slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		hasA, atA := age(a)
		hasB, atB := age(b)
		if hasA != hasB {
			if hasA {
				return 1
			}
			return -1
		}
		return int(atA - atB)
	}) {
		if length <= sizesBytes {
			return
		}
		length -= len(Sizes{key: s[key]}.String()) - len(`}`) // Its other brace stands for the comma.
		delete(s, key)
	}
}

// Learned returns what counts for an instance type that is launched with an AMI from the class: for each node, the least that it has
// reported or shown. False where no node has.
func (s Sizes) Learned(class *awsv1.EC2NodeClass, instanceType, imageID string) (catalog.Learned, bool) {
	byNode := map[string]catalog.Reported{}
	for _, r := range s[SizesKey(instanceType, imageID)] {
		node := byNode[r.NodeClaim]
		if !r.Memory.IsZero() {
			node.MemoryBytes = r.Memory.Value()
		}
		if r.Class == class.Annotations[awsv1.AnnotationEC2NodeClassHash] {
			node.Allocatable = least(node.Allocatable, r.Allocatable)
		}
		byNode[r.NodeClaim] = node
	}
	var out catalog.Learned
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		out = append(out, byNode[name])
	}
	return out, len(out) > 0
}

func least(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range b {
		if have, ok := out[name]; !ok || q.Cmp(have) < 0 {
			out[name] = q
		}
	}
	return out
}

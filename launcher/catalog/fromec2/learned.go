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
	// ReportsCountFor is how long a report is used. A running node reports again before that.
	ReportsCountFor = 24 * time.Hour
	// ReportAgain is the age at which a node's report is written again.
	ReportAgain = ReportsCountFor / 2
	// reportPause is the minimum time between two written reports of a node: each makes a new catalog, and a kubelet may report as often as
	// it likes.
	reportPause = 10 * time.Second
	// reportsAtMost is the maximum number of reports kept for one instance type and AMI. The values used depend on the lowest two nodes in
	// each of five amounts, and these two nodes are mostly the same for all amounts.
	reportsAtMost = 6
	// sizesBytes is the maximum size of the annotation. Kubernetes allows 256 KiB of annotations.
	sizesBytes = 128 << 10
)

// Sizes holds the reports of real nodes of a class, by instance type and AMI. It is stored as JSON in the class's annotation
// slipway.dev/learned-sizes, so that it lives as long as the class and survives restarts.
type Sizes map[string][]Report

// Report is one node's report, or a limit inferred from its kubelet's rejection of a pod.
type Report struct {
	// NodeClaim is the name of the node's NodeClaim.
	NodeClaim string `json:"nodeClaim"`
	// Rejection means that the report was inferred from a rejected pod that the node's own report does not explain.
	Rejection bool `json:"rejection,omitempty"`
	// At is the time of the report.
	At metav1.Time `json:"at"`
	// Memory is the capacity of memory; zero in a rejection.
	Memory resource.Quantity `json:"memory"`
	// Allocatable holds the allocatable CPU, memory, ephemeral storage and pods. It depends on the class's settings.
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Class is the hash of the EC2NodeClass that the node was launched from; Allocatable is used for that hash only.
	Class string `json:"class,omitempty"`
}

// SizesKey returns the key of an instance type and AMI.
func SizesKey(instanceType, imageID string) string { return instanceType + "/" + imageID }

// SizesOf parses the class's annotation. It returns no sizes if the annotation cannot be parsed: nodes report again.
func SizesOf(class *awsv1.EC2NodeClass) Sizes {
	out := Sizes{}
	if err := json.Unmarshal([]byte(class.Annotations[catalog.LearnedAnnotation]), &out); err != nil {
		return Sizes{}
	}
	return out
}

// String returns the annotation's value.
func (s Sizes) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Sprintf("sizes: %d", len(s)) // Strings and quantities always marshal.
	}
	return string(text)
}

// Note adds a node's report to the class's annotation. news reports whether the annotation must be written: the report may change the values
// used, differs from the node's last one, or the last one is old. The duration is the time until the node's next report is due.
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

// before returns the time of the node's last report; false if there is none.
func (s Sizes) before(key string, r Report) (time.Time, bool) {
	i := slices.IndexFunc(s[key], func(have Report) bool { return have.NodeClaim == r.NodeClaim && have.Rejection == r.Rejection })
	if i < 0 {
		return time.Time{}, false
	}
	return s[key][i].At.Time, true
}

// Expire removes expired reports, and reports whether there were any.
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

// ExpireReports removes expired reports from a class's annotation, and reports whether there were any.
func ExpireReports(class *awsv1.EC2NodeClass, now time.Time) bool {
	sizes := SizesOf(class)
	if class.Annotations[catalog.LearnedAnnotation] == "" || len(sizes) > 0 && !sizes.Expire(now) {
		return false
	}
	sizes.write(class) // This also replaces an annotation that could not be parsed.
	return true
}

// Forget removes the reports for one instance type, or for all if it is empty. It returns the number of removed pairs of instance type and
// AMI.
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

// amount is one number of a report: the capacity of memory, or an allocatable resource under a class's hash.
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

// matters reports whether the amount would be one of the lowest two among those of different nodes.
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

// needed returns the reports that the used values depend on; the newest of them if there are too many.
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

// learnable returns the resources that are planned with a number that a node's report can correct.
func learnable(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

// prune removes reports until the annotation fits: first those of AMIs that the class no longer launches, then the oldest.
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

// Learned returns the reports for an instance type that is launched with an AMI from the class: for each node the lowest values. False if no
// node has reported.
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

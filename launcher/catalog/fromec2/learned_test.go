package fromec2

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// firstClass is an EC2NodeClass with the hash of report.
func firstClass() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{awsv1.AnnotationEC2NodeClassHash: "h1"}}}
}

// report is one of a node that has so much memory, and leaves so much CPU to pods, some time after the start.
func report(claim, memory, cpu string, after time.Duration) Report {
	return Report{
		NodeClaim: claim, At: metav1.NewTime(start().Add(after)), Memory: resource.MustParse(memory), Class: "h1",
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), "x.io/device": resource.MustParse("1")},
	}
}

// counts prints what counts of an instance type: memory in MiB and CPU of each node.
func counts(class *awsv1.EC2NodeClass) string {
	var out []string
	learned, _ := SizesOf(class).Learned(class, "m5.large", "ami-1")
	for _, r := range learned {
		out = append(out, fmt.Sprintf("%d/%s", r.MemoryBytes>>20, r.Allocatable.Cpu()))
	}
	return strings.Join(out, " ")
}

// What nodes report is kept in the class's annotation: of each the last, of all those that what counts may follow from.
func TestNote(t *testing.T) {
	class, key := firstClass(), SizesKey("m5.large", "ami-1")
	for _, step := range []struct {
		report Report
		news   bool
		counts string
	}{
		{report("a", "7750Mi", "1930m", 0), true, "7750/1930m"},
		{report("a", "7750Mi", "1900m", time.Second), false, "7750/1930m"}, // It has reported a moment ago.
		{report("a", "7750Mi", "1900m", time.Minute), true, "7750/1900m"},
		{report("a", "7750Mi", "1900m", time.Hour), false, "7750/1900m"},
		{report("b", "7760Mi", "1930m", time.Hour), true, "7750/1900m 7760/1930m"},  // It takes two to agree.
		{report("c", "7770Mi", "1930m", time.Hour), false, "7750/1900m 7760/1930m"}, // Two report as little or less.
		{report("c", "7770Mi", "1910m", 2*time.Hour), true, "7750/1900m 7760/1930m 7770/1910m"},
		{report("a", "7750Mi", "1900m", 14*time.Hour), true, "7750/1900m 7760/1930m 7770/1910m"}, // It lives and reports again.
		{report("d", "7000Mi", "1930m", 26*time.Hour), true, "7750/1900m 7000/1930m"},            // The others have not for a day.
	} {
		if news, again := Note(class, key, step.report); news != step.news || counts(class) != step.counts || again <= 0 || again > ReportAgain {
			t.Errorf("%s at %s: news %v, again after %s, what counts is %q, want %v and %q", step.report.NodeClaim, step.report.At, news, again, counts(class), step.news, step.counts)
		}
	}
	if strings.Contains(class.Annotations[catalog.LearnedAnnotation], "device") {
		t.Error("a device is kept, of which nothing can be learned")
	}
	class.Annotations[awsv1.AnnotationEC2NodeClassHash] = "h2"
	if got := counts(class); got != "7750/0 7000/0" {
		t.Errorf("of another class only the memory counts: %s", got)
	}
	if _, ok := SizesOf(class).Learned(class, "m5.large", "ami-2"); ok {
		t.Error("another AMI has other memory")
	}
}

// A rejection on a node is no report of a second node.
func TestRejectionAndReportAreOfOneNode(t *testing.T) {
	class, key := firstClass(), SizesKey("m5.large", "ami-1")
	rejection := report("a", "0", "20m", time.Minute)
	rejection.Rejection = true
	Note(class, key, report("a", "7750Mi", "1930m", 0))
	if news, _ := Note(class, key, rejection); !news || counts(class) != "7750/20m" {
		t.Errorf("news %v, what counts is %q", news, counts(class))
	}
	// The node's next report does not undo what the rejection has shown.
	if news, _ := Note(class, key, report("a", "7750Mi", "1930m", 13*time.Hour)); !news || counts(class) != "7750/20m" {
		t.Errorf("news %v, what counts is %q", news, counts(class))
	}
}

func TestExpireReports(t *testing.T) {
	class, key := firstClass(), SizesKey("m5.large", "ami-1")
	Note(class, key, report("a", "7750Mi", "1930m", 0))
	if ExpireReports(class, start().Add(ReportsCountFor-time.Second)) {
		t.Error("expired too early")
	}
	if !ExpireReports(class, start().Add(ReportsCountFor)) || class.Annotations[catalog.LearnedAnnotation] != "" {
		t.Errorf("not forgotten: %v", class.Annotations)
	}
	if ExpireReports(class, start().Add(2*ReportsCountFor)) {
		t.Error("there was nothing to forget")
	}
	for _, unreadable := range []string{"{", `{"m5.large/ami-1":{"memory":"7750Mi"}}`} {
		class.Annotations[catalog.LearnedAnnotation] = unreadable
		if len(SizesOf(class)) != 0 || !ExpireReports(class, start()) {
			t.Errorf("%s is not forgotten", unreadable)
		}
	}
}

// However many nodes of however many kinds report, the annotation has room for it, and what the class launches now stays longest.
func TestSizesAreBounded(t *testing.T) {
	class, current := firstClass(), SizesKey("m5.large", "ami-new")
	class.Status.AMIs = []awsv1.AMI{{ID: "ami-new"}}
	for i := range 300 {
		Note(class, current, report(fmt.Sprintf("falls-%d", i), fmt.Sprintf("%dMi", 7000-i), "1930m", time.Duration(i)*time.Second))
	}
	sizes := SizesOf(class)
	if n := len(sizes[current]); n == 0 || n > reportsAtMost {
		t.Errorf("%d reports of one kind", n)
	}
	for i := range 2000 {
		sizes[SizesKey(fmt.Sprintf("t%d.large", i), "ami-old")] = []Report{report("default-1", "7Gi", "1930m", time.Duration(i)*time.Second)}
	}
	sizes.write(class)
	Note(class, SizesKey("m5.xlarge", "ami-old"), report("last", "7Gi", "1930m", time.Hour))
	if n := len(class.Annotations[catalog.LearnedAnnotation]); n > sizesBytes || n < sizesBytes/2 {
		t.Errorf("the annotation has %d bytes", n)
	}
	left := SizesOf(class)
	if len(left[current]) == 0 || len(left[SizesKey("m5.xlarge", "ami-old")]) == 0 || len(left[SizesKey("t0.large", "ami-old")]) > 0 {
		t.Error("the wrong kinds are forgotten")
	}
}

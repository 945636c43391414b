package main

import (
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// What nodes have reported is shown, and forgotten by instance type or as a whole.
func TestLearned(t *testing.T) {
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	now := time.Now()
	for _, kind := range []string{"m6i.large", "c6i.large"} {
		fromec2.Note(class, fromec2.SizesKey(kind, "ami-1"), fromec2.Report{
			NodeClaim: "default-1", At: metav1.NewTime(now.Add(-time.Hour)), Memory: resource.MustParse("7750Mi"),
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1930m"), corev1.ResourcePods: resource.MustParse("29")},
		})
	}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(class).Build()
	shown := func(instanceType string) string {
		t.Helper()
		var classes awsv1.EC2NodeClassList
		if err := c.List(t.Context(), &classes); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := reportsTable(&out, classes.Items, instanceType, now); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const header = "EC2NODECLASS  INSTANCE TYPE  AMI    NODECLAIM  AGE  FROM  MEMORY  ALLOCATABLE\n"
	const large = "EC2NODECLASS  INSTANCE TYPE  AMI    NODECLAIM  AGE  FROM  MEMORY  ALLOCATABLE\n" +
		"default       m6i.large      ami-1  default-1  60m  node  7750Mi  cpu=1930m,pods=29\n"
	if got := shown("m6i.large"); got != large {
		t.Errorf("shown:\n%swant\n%s", got, large)
	}
	var out strings.Builder
	if err := forgetReports(t.Context(), c, &out, "default", "c6i.large"); err != nil || !strings.Contains(out.String(), "of 1 instance type by AMI") {
		t.Errorf("%v: %s", err, out.String())
	}
	if got := shown(""); got != large {
		t.Errorf("without c6i.large:\n%s", got)
	}
	if err := forgetReports(t.Context(), c, &out, "default", ""); err != nil {
		t.Fatal(err)
	}
	if got := shown(""); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(header), " ") {
		t.Errorf("after all was forgotten:\n%s", got)
	}
	if err := forgetReports(t.Context(), c, &out, "another", ""); err == nil {
		t.Error("an EC2NodeClass that is not there")
	}
}

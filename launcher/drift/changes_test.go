package drift

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// The NodeClaims of a class are examined when anything of it changes but what its nodes report: thousands of nodes that start report again and again.
func TestReportsAreNoChangeOfAClass(t *testing.T) {
	changes := classChanges()
	before := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class", ResourceVersion: "1", Generation: 1, Annotations: map[string]string{
		awsv1.AnnotationEC2NodeClassHash: "1", catalog.LearnedAnnotation: "{}",
	}}}
	for name, c := range map[string]struct {
		change func(after *awsv1.EC2NodeClass)
		want   bool
	}{
		"reports":       {func(c *awsv1.EC2NodeClass) { c.Annotations[catalog.LearnedAnnotation] = `{"m5.large/ami-1":[]}` }, false},
		"first reports": {func(c *awsv1.EC2NodeClass) { delete(c.Annotations, catalog.LearnedAnnotation) }, false},
		"hash":          {func(c *awsv1.EC2NodeClass) { c.Annotations[awsv1.AnnotationEC2NodeClassHash] = "2" }, true},
		"spec":          {func(c *awsv1.EC2NodeClass) { c.Generation = 2 }, true},
		"AMIs":          {func(c *awsv1.EC2NodeClass) { c.Status.AMIs = []awsv1.AMI{{ID: "ami-2"}} }, true},
		"subnets":       {func(c *awsv1.EC2NodeClass) { c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a"}} }, true},
		"readiness":     {func(c *awsv1.EC2NodeClass) { c.StatusConditions().SetTrue(awsv1.ConditionTypeAMIsReady) }, true},
	} {
		after := before.DeepCopy()
		after.ResourceVersion, after.ManagedFields = "2", []metav1.ManagedFieldsEntry{{Manager: "slipway"}}
		c.change(after)
		for _, pair := range [][2]*awsv1.EC2NodeClass{{before, after}, {after, before}} {
			if got := changes.Update(event.UpdateEvent{ObjectOld: pair[0], ObjectNew: pair[1]}); got != c.want {
				t.Errorf("a change of its %s counts: %t, want %t", name, got, c.want)
			}
		}
		if len(before.Annotations) != 2 {
			t.Fatalf("annotations became %v", before.Annotations)
		}
	}
	if !changes.Create(event.CreateEvent{Object: before}) || !changes.Delete(event.DeleteEvent{Object: before}) {
		t.Error("a class that comes or goes does not count")
	}
}

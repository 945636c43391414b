package nodeclass_test

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A class with an unreadable part launches nothing, reports the reason, and keeps its hash: its nodes have not drifted.
func TestUnreadable(t *testing.T) {
	w := newWorld(t, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Annotations: map[string]string{catalog.UnreadableAnnotation: "spec.kubelet: no", awsv1.AnnotationEC2NodeClassHash: "1"},
	}})
	class := w.mustReconcile("default")
	valid := class.StatusConditions().Get(awsv1.ConditionTypeValidationSucceeded)
	if class.StatusConditions().Root().IsTrue() || !valid.IsFalse() || valid.Message != "spec.kubelet: no" {
		t.Errorf("condition %+v", valid)
	}
	if class.Annotations[awsv1.AnnotationEC2NodeClassHash] != "1" {
		t.Errorf("annotations %v", class.Annotations)
	}
}

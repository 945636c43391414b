package nodeclass

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

func memoryOf(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
}

func aNode(memory string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
			karpv1.NodeRegisteredLabelKey: "true", corev1.LabelInstanceTypeStable: "m5.large",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///a/i-1"},
		Status: corev1.NodeStatus{Capacity: memoryOf(memory), Allocatable: memoryOf("7000Mi")},
	}
}

// What a node reports stands in its class afterwards, where a launcher that starts later finds it.
func TestLearn(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{awsv1.AnnotationEC2NodeClassHash: "h"}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	claim.Status.ProviderID, claim.Status.ImageID, claim.Status.Allocatable = "aws:///a/i-1", "ami-1", memoryOf("7100Mi")
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Annotations: map[string]string{awsv1.AnnotationEC2NodeClassHash: "h"},
	}}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, class, aNode("7750Mi"))
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api := b.Build()
	subject, err := New(Config{Client: api, Cloud: memory.New(memory.Config{}), Guard: leadershiptest.Always{}, Events: record.NewFakeRecorder(1)})
	if err != nil {
		t.Fatal(err)
	}
	learned := func() (int64, string) {
		t.Helper()
		if _, err := subject.learn(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "n"}}); err != nil {
			t.Fatal(err)
		}
		got := &awsv1.EC2NodeClass{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: "default"}, got); err != nil {
			t.Fatal(err)
		}
		size, _ := fromec2.SizesOf(got).Learned(got, "m5.large", "ami-1")
		return size.MemoryBytes, size.Allocatable.Memory().String()
	}
	if memory, allocatable := learned(); memory != 7750<<20 || allocatable != "7000Mi" {
		t.Errorf("learned %d, %s", memory, allocatable)
	}
	for _, next := range []struct {
		memory string
		want   int64
	}{{"7760Mi", 7750}, {"7740Mi", 7740}} {
		node := &corev1.Node{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: "n"}, node); err != nil {
			t.Fatal(err)
		}
		node.Status = aNode(next.memory).Status
		if err := api.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		if memory, _ := learned(); memory != next.want<<20 {
			t.Errorf("after a node of %s: %d MiB, want %d", next.memory, memory>>20, next.want)
		}
	}
}

func TestLearnOnlyFromJoinedNodes(t *testing.T) {
	p, booting := reporting(), aNode("1Gi")
	booting.Labels = nil
	if p.Create(event.CreateEvent{Object: booting}) || !p.Create(event.CreateEvent{Object: aNode("1Gi")}) {
		t.Error("created: only a joined node reports")
	}
	for name, tc := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"joins":      {booting, aNode("1Gi"), true},
		"heartbeat":  {aNode("1Gi"), aNode("1Gi"), false},
		"other size": {aNode("1Gi"), aNode("2Gi"), true},
		"booting":    {booting, booting, false},
	} {
		if got := p.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

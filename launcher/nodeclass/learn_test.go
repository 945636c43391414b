package nodeclass

import (
	"testing"
	"testing/synctest"
	"time"

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

	"github.com/slipway-k8s/slipway/launcher/catalog"
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
			karpv1.NodeRegisteredLabelKey: "true", corev1.LabelInstanceTypeStable: "what-the-kubelet-says",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///a/i-1"},
		Status: corev1.NodeStatus{Capacity: memoryOf(memory), Allocatable: memoryOf("7000Mi")},
	}
}

// learner returns a controller beside these objects, and their API.
func learner(t *testing.T, objects ...client.Object) (*Controller, client.Client) {
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api := b.Build()
	subject, err := New(Config{Client: api, Cloud: memory.New(memory.Config{}), Guard: leadershiptest.Always{}, Events: record.NewFakeRecorder(1)})
	if err != nil {
		t.Fatal(err)
	}
	return subject, api
}

// What a node reports stands in its class afterwards, where a launcher that starts later finds it, until it has not been reported for
// a day.
func TestLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "c", Annotations: map[string]string{awsv1.AnnotationEC2NodeClassHash: "h"}, Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large"},
		}}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
		claim.Status.ProviderID, claim.Status.ImageID = "aws:///a/i-1", "ami-1"
		class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{
			Name: "default", Annotations: map[string]string{awsv1.AnnotationEC2NodeClassHash: "h"},
		}}
		subject, api := learner(t, claim, class, aNode("7750Mi"))
		read := func() (*awsv1.EC2NodeClass, catalog.Learned) {
			t.Helper()
			got := &awsv1.EC2NodeClass{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "default"}, got); err != nil {
				t.Fatal(err)
			}
			learned, _ := fromec2.SizesOf(got).Learned(got, "m5.large", "ami-1")
			return got, learned
		}
		for _, memory := range []string{"7750Mi", "7760Mi", "7740Mi"} {
			node := &corev1.Node{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "n"}, node); err != nil {
				t.Fatal(err)
			}
			node.Status = aNode(memory).Status
			if err := api.Status().Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			again, err := subject.learn(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "n"}})
			if err != nil || again.RequeueAfter != fromec2.ReportAgain {
				t.Fatalf("%v, again after %s", err, again.RequeueAfter)
			}
			_, got := read()
			want := resource.MustParse(memory)
			if len(got) != 1 || got[0].MemoryBytes != want.Value() || got[0].Allocatable.Memory().String() != "7000Mi" {
				t.Errorf("of a node of %s was learned %+v", memory, got)
			}
			time.Sleep(time.Minute)
		}
		for _, left := range []int{1, 0} {
			got, _ := read()
			if err := subject.expireReports(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if _, learned := read(); len(learned) != left {
				t.Errorf("%d reports are left, want %d", len(learned), left)
			}
			time.Sleep(fromec2.ReportsCountFor)
		}
	})
}

// What a node of another provider reports is not recorded in the EC2NodeClass that has its class's name.
func TestLearnNothingFromOtherProviders(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	claim.Status.ProviderID, claim.Status.ImageID = "aws:///a/i-1", "ami-1"
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	subject, api := learner(t, claim, class, aNode("7750Mi"))
	if _, err := subject.learn(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	got := &awsv1.EC2NodeClass{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "default"}, got); err != nil {
		t.Fatal(err)
	}
	if len(got.Annotations) > 0 {
		t.Errorf("annotations %v", got.Annotations)
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

package join

import (
	"context"
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// sliceReads counts the ResourceSlices that it returns.
type sliceReads struct {
	client.Reader
	returned int
}

// List implements client.Reader.
func (s *sliceReads) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := s.Reader.List(ctx, list, options...)
	s.returned += len(list.(*resourcev1.ResourceSliceList).Items)
	return err
}

// Of the ResourceSlices of a cluster, those of the node are read: the ones that name it, and those that it owns.
func TestSlicesOfANode(t *testing.T) {
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	index.Devices(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	for i := range 20 {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)}}
		switch node := fmt.Sprint("node-", i/2); {
		case i == 19: // Its devices are on several nodes.
		case i%2 == 0:
			slice.Spec.NodeName = &node
		default:
			slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "driver"}, {APIVersion: "v1", Kind: "Node", Name: node}}
		}
		b.WithObjects(slice)
	}
	from := &sliceReads{Reader: b.Build()}
	got, err := slicesOf(t.Context(), from, "node-3")
	if err != nil || len(got) != 2 || got[0].Name != "slice-6" || got[1].Name != "slice-7" {
		t.Errorf("ResourceSlices %v, %v", got, err)
	}
	if from.returned != 2 {
		t.Errorf("%d ResourceSlices are read", from.returned)
	}
}

package terminate

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// A node that waits for its volumes reads its own VolumeAttachments, and copies none: a cluster has tens of thousands of them.
func TestWaitReadsAttachmentsOfItsNodesAlone(t *testing.T) {
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			volumes, ok := list.(*storagev1.VolumeAttachmentList)
			if !ok {
				return err
			}
			if o := (&client.ListOptions{}).ApplyOptions(opts); o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
				t.Error("VolumeAttachments are copied")
			}
			for _, va := range volumes.Items {
				if va.Spec.NodeName == "c" {
					t.Errorf("VolumeAttachment %s of another node is read", va.Name)
				}
			}
			return err
		},
	})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	for name, node := range map[string]string{"vol-1": "a", "vol-2": "b", "vol-3": "c", "vol-4": "a"} {
		b.WithObjects(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
			NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-" + name)},
		}})
	}
	terminator := &Terminator{config: Config{Client: b.Build()}}
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	got, err := terminator.attachments(t.Context(), &scope{nodes: []*corev1.Node{node("a"), node("b")}})
	if err != nil || !slices.Equal(got, []string{"vol-1", "vol-2", "vol-4"}) {
		t.Errorf("waits for %v, error %v", got, err)
	}
}

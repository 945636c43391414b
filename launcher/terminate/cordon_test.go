package terminate_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// TestCordonReadsTheCache checks that a Node is cordoned as it is in the API server, whatever the cache shows, and that only a cache that lags costs a read.
func TestCordonReadsTheCache(t *testing.T) {
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirs}}}
	before, cordoned := now.DeepCopy(), now.DeepCopy()
	before.Spec.Taints = nil
	cordoned.Spec.Taints = append(cordoned.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	for name, c := range map[string]struct {
		cache *corev1.Node
		reads int
	}{
		"it has what is there": {now, 0}, "an older version": {before, 1}, "a taint that is gone": {cordoned, 1}, "no Node": {nil, 1},
	} {
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(now.DeepCopy()).Build()
		reads := 0
		cache := interceptor.NewClient(api, interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
				if c.cache == nil {
					return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
				}
				c.cache.DeepCopyInto(o.(*corev1.Node))
				return nil
			},
			Patch: func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := api.Patch(ctx, o, p, opts...); err != nil { // The fake has no status for a test that fails.
					return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", corev1.Resource("nodes"), o.GetName(), err.Error(), 0, false)
				}
				return nil
			},
		})
		subject, err := terminate.New(terminate.Config{
			Client: cache, Pods: index.ListPods(api), Cloud: memory.New(memory.Config{}), Asker: &world{}, Guard: leadershiptest.Always{},
			Events: record.NewFakeRecorder(1), Registerer: prometheus.NewRegistry(),
			Reader: interceptor.NewClient(api, interceptor.Funcs{
				Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					reads++
					return api.Get(ctx, key, o, opts...)
				},
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := subject.Cordon(t.Context(), nodeName, "test"); err != nil {
			t.Errorf("the cache has %s: %v", name, err)
		}
		got := &corev1.Node{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: nodeName}, got); err != nil {
			t.Fatal(err)
		}
		if len(got.Spec.Taints) != 2 || got.Spec.Taints[0] != theirs || !terminate.Cordoned(got) || reads != c.reads {
			t.Errorf("the cache has %s: taints %v after %d reads of the API server, want %d", name, got.Spec.Taints, reads, c.reads)
		}
	}
}

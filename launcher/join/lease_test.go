package join

import (
	"context"
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// A renewal whose answer was lost, and one of another leader, are not the kubelet's: the Lease of a node that boots is renewed further.
func TestLeaseIsRenewedAfterAConflict(t *testing.T) {
	lost := errors.New("connection reset")
	for name, meanwhile := range map[string]func(t *testing.T, api client.Client, lease *coordinationv1.Lease, answer *error){
		"lost answer": func(_ *testing.T, _ client.Client, _ *coordinationv1.Lease, answer *error) { *answer = lost },
		"another leader": func(t *testing.T, api client.Client, lease *coordinationv1.Lease, _ *error) {
			t.Helper()
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, "by", "another")
			if err := api.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var answer error
			renewals := 0
			api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if err := c.Patch(ctx, o, p, opts...); err != nil {
						return err
					}
					renewals++
					defer func() { answer = nil }()
					return answer
				},
			}).Build()
			of := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
			l := leases{client: api, reader: api, memory: newMemory()}
			if err := l.renew(t.Context(), "claim", of); err != nil {
				t.Fatal(err)
			}
			lease := &coordinationv1.Lease{}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "node-1"}, lease); err != nil {
				t.Fatal(err)
			}
			meanwhile(t, api, lease, &answer)
			for range 4 {
				if err := l.renew(t.Context(), "claim", of); err != nil && !errors.Is(err, lost) {
					t.Fatal(err)
				}
			}
			if renewals != 4 {
				t.Errorf("renewed %d times, want 4", renewals)
			}
		})
	}
}

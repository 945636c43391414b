package launcher

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func karpenter(namespace string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "karpenter-leader-election"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("karpenter-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: renewed},
		},
	}
}

func pool(labels map[string]string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: labels}}
}

func claimOf(annotations map[string]string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Annotations: annotations}}
}

// Two programs that launch for the same pods would buy everything twice.
func TestNeighbour(t *testing.T) {
	now := time.Now()
	noHolder, noTimes := karpenter("karpenter", now), karpenter("karpenter", now)
	noHolder.Spec.HolderIdentity, noTimes.Spec.RenewTime = new(""), nil
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease
		live  bool
	}{
		"none":               {nil, false},
		"live":               {karpenter("kube-system", now), true},
		"in its namespace":   {karpenter("karpenter", now.Add(-14*time.Second)), true},
		"gone":               {karpenter("karpenter", now.Add(-15*time.Second)), false},
		"scaled to nothing":  {noHolder, false},
		"it never had begun": {noTimes, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
			if c.lease != nil {
				b.WithObjects(c.lease)
			}
			n, err := newNeighbour(b.Build(), "handover=yes", func() {})
			if err != nil {
				t.Fatal(err)
			}
			if ok, why := n.manages(pool(nil)); ok || !strings.Contains(why, "not done yet") {
				t.Errorf("before the first look: %t, %q", ok, why)
			}
			n.look(t.Context(), now)
			ok, why := n.manages(pool(nil))
			if ok == c.live || c.live && !strings.Contains(why, c.lease.Namespace+"/karpenter-leader-election") {
				t.Errorf("manages %t: %q", ok, why)
			}
			if ok, why := n.manages(pool(map[string]string{"handover": "yes"})); !ok {
				t.Errorf("a NodePool that was handed over: %q", why)
			}
			if n.ours(claimOf(nil)) == c.live || !n.ours(claimOf(map[string]string{catalog.InstanceTypesAnnotation: "m7g.large"})) {
				t.Error("whose claim it is")
			}
			other := claimOf(map[string]string{catalog.InstanceTypesAnnotation: "m7g.large"})
			other.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"}
			if n.ours(other) {
				t.Error("a claim of another provider's class is ours")
			}
		})
	}
}

func TestNeighbourComesAndGoes(t *testing.T) {
	now, changes := time.Now(), 0
	var broken error
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return errors.Join(broken, c.Get(ctx, key, o, opts...))
		},
	}).WithObjects(karpenter("karpenter", now)).Build()
	n, err := newNeighbour(api, "", func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	n.look(t.Context(), now)
	n.look(t.Context(), now)
	if ok, _ := n.manages(pool(nil)); ok || changes != 1 {
		t.Errorf("manages %t, %d changes", ok, changes)
	}
	broken = errors.New("the API server is busy")
	n.look(t.Context(), now.Add(time.Hour))
	if ok, _ := n.manages(pool(nil)); ok || changes != 1 {
		t.Errorf("what was known is forgotten: manages %t, %d changes", ok, changes)
	}
	broken = nil
	n.look(t.Context(), now.Add(time.Hour))
	if ok, _ := n.manages(pool(nil)); !ok || changes != 2 {
		t.Errorf("manages %t, %d changes", ok, changes)
	}
	if _, err := newNeighbour(api, "a in", func() {}); err == nil {
		t.Error("a selector that nobody can read")
	}
}

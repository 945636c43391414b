package index_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// Both readers return all NodeClaims; those of the store are the cache's own objects, or what was written of them since.
func TestClaims(t *testing.T) {
	written := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "2"}}
	own := func(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
		if claim.Name == written.Name {
			return written
		}
		return claim
	}
	claims := map[string]*karpv1.NodeClaim{}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	store := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &karpv1.NodeClaim{}, 0, toolscache.Indexers{})
	for _, name := range []string{"a", "b", "c"} {
		claims[name] = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		builder.WithObjects(claims[name])
		if err := store.GetIndexer().Add(claims[name]); err != nil {
			t.Fatal(err)
		}
	}
	for kind, read := range map[string]index.Claims{"list": index.ListClaims(builder.Build()), "store": index.SharedClaims(informers{only: store}, own)} {
		got, err := read.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, claim := range got {
			seen[claim.Name] = true
			if kind == "store" && claim != own(claims[claim.Name]) {
				t.Errorf("NodeClaim %s is a copy, or not what was written", claim.Name)
			}
		}
		if len(got) != len(claims) || len(seen) != len(claims) {
			t.Errorf("%s: NodeClaims %v", kind, seen)
		}
	}
	if _, err := index.SharedClaims(informers{only: struct{ cache.Informer }{}}, own).All(t.Context()); err == nil {
		t.Error("no error for an informer without a store")
	}
}

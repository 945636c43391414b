package index_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// informers have one informer.
type informers struct {
	cache.Informers
	only cache.Informer
}

// GetInformer implements cache.Informers.
func (i informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i.only, nil
}

// Both readers return the pods of the node alone, and the one of the store the cache's own objects.
func TestPodsOn(t *testing.T) {
	pods := map[string]*corev1.Pod{}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	store := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{})
	for name, node := range map[string]string{"a": "n", "b": "n", "c": "m", "d": ""} {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		builder.WithObjects(pods[name])
		if err := store.GetIndexer().Add(pods[name]); err != nil {
			t.Fatal(err)
		}
	}
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { builder.WithIndex(o, field, value) })
	for kind, read := range map[string]index.PodsOn{"list": index.ListPods(builder.Build()), "store": index.SharedPods(informers{only: store})} {
		got, err := read(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pod := range got {
			names = append(names, pod.Name)
			if kind == "store" && pod != pods[pod.Name] {
				t.Errorf("pod %s is a copy", pod.Name)
			}
		}
		if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("%s: pods %v", kind, names)
		}
	}
	if _, err := index.SharedPods(&informertest.FakeInformers{Scheme: scheme.Scheme})(t.Context(), "n"); err == nil {
		t.Error("no error for an informer without a store")
	}
}

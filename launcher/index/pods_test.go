package index_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Both readers return the pods of the node, and the one of the UID, alone; those of the store are the cache's own objects.
func TestPods(t *testing.T) {
	pods := map[string]*corev1.Pod{}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	store := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	set := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", UID: "set", Controller: new(true)}}
	for name, node := range map[string]string{"a": "n", "b": "n", "c": "m", "d": "", "e": "m"} {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID("1234-" + name)}, Spec: corev1.PodSpec{NodeName: node}}
		switch name {
		case "a", "d":
			pods[name].OwnerReferences = set
		case "e":
			pods[name].Namespace, pods[name].OwnerReferences = "y", set
		}
		pods[name].Spec.Affinity = apart(map[string]string{"b": corev1.LabelHostname, "d": corev1.LabelTopologyZone, "e": corev1.LabelTopologyZone}[name])
		builder.WithObjects(pods[name])
		if err := store.GetIndexer().Add(pods[name]); err != nil {
			t.Fatal(err)
		}
	}
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { builder.WithIndex(o, field, value) })
	for kind, read := range map[string]index.Pods{"list": index.ListPods(builder.Build()), "store": index.SharedPods(informers{only: store})} {
		if all, err := read.All(t.Context()); err != nil || len(all) != len(pods) {
			t.Errorf("%s: All returns %d pods of %d, error %v", kind, len(all), len(pods), err)
		}
		for _, pod := range podsOnNode(t, kind, read) {
			if kind == "store" && pod != pods[pod.Name] {
				t.Errorf("pod %s is a copy", pod.Name)
			}
		}
		podsOfUIDs(t, kind, read)
		podsOfController(t, kind, read)
		podsOfTheCluster(t, kind, read)
	}
	none := index.SharedPods(&informertest.FakeInformers{Scheme: scheme.Scheme})
	if _, err := none.On(t.Context(), "n"); err == nil {
		t.Error("no error for an informer without a store")
	}
	if _, err := none.Of(t.Context(), "1234-a"); err == nil {
		t.Error("no error for an informer without a store")
	}
	if _, err := none.Controlled(t.Context(), "x", "set"); err == nil {
		t.Error("no error for an informer without a store")
	}
	_, errIn := none.In(t.Context(), "x")
	_, errRepelling := none.Repelling(t.Context())
	if slices.Contains([]error{errIn, errRepelling}, nil) {
		t.Error("no error for an informer without a store")
	}
}

// apart is anti-affinity over a topology; nil for none.
func apart(key string) *corev1.Affinity {
	if key == "" {
		return nil
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}}
}

// podsOfTheCluster checks the pods of namespace y, and the bound ones with anti-affinity over zones.
func podsOfTheCluster(t *testing.T, kind string, read index.Pods) {
	t.Helper()
	in, err := read.In(t.Context(), "y")
	if err != nil || len(in) != 1 || in[0].Name != "e" {
		t.Errorf("%s: pods of the namespace %v, error %v", kind, in, err)
	}
	repelling, err := read.Repelling(t.Context())
	if err != nil || len(repelling) != 1 || repelling[0].Name != "e" {
		t.Errorf("%s: pods with anti-affinity %v, error %v", kind, repelling, err)
	}
}

// podsOnNode checks the pods of node n, and returns them.
func podsOnNode(t *testing.T, kind string, read index.Pods) []*corev1.Pod {
	t.Helper()
	got, err := read.On(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range got {
		names = append(names, pod.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%s: pods %v", kind, names)
	}
	return got
}

// podsOfController checks the pods of a ReplicaSet, of its namespace alone.
func podsOfController(t *testing.T, kind string, read index.Pods) {
	t.Helper()
	got, err := read.Controlled(t.Context(), "x", "set")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range got {
		names = append(names, pod.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "d"}) {
		t.Errorf("%s: pods of the ReplicaSet %v", kind, names)
	}
}

// podsOfUIDs checks the pods of UIDs that begin alike.
func podsOfUIDs(t *testing.T, kind string, read index.Pods) {
	t.Helper()
	for uid, want := range map[string]string{"1234-a": "a", "1234-d": "d", "1234": "", "12": "", "": "", "1235-a": ""} {
		pod, err := read.Of(t.Context(), uid)
		if err != nil {
			t.Fatal(err)
		}
		if pod == nil && want != "" || pod != nil && pod.Name != want {
			t.Errorf("%s: UID %q is of pod %v, want %q", kind, uid, pod, want)
		}
	}
}

package apiserver_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"

	"github.com/slipway-k8s/slipway/plugin/simulate/apiserver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// Informers have what is served, of the other kinds nothing, and end with their context.
func TestInformers(t *testing.T) {
	claims := []*corev1.PersistentVolumeClaim{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "data"}},
	}
	served, err := apiserver.NewResource(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), claims)
	if err != nil {
		t.Fatal(err)
	}
	client, err := apiserver.NewClient(map[string]apiserver.Resource{"persistentvolumeclaims": served})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	lister := factory.Core().V1().PersistentVolumeClaims().Lister()
	others := []interface{ HasSynced() bool }{
		factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer(),
		factory.Core().V1().ReplicationControllers().Informer(), factory.Apps().V1().StatefulSets().Informer(),
		factory.Storage().V1().StorageClasses().Informer(), factory.Storage().V1().CSIStorageCapacities().Informer(),
		factory.Policy().V1().PodDisruptionBudgets().Informer(), factory.Resource().V1().ResourceClaims().Informer(),
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("%s has not synced", kind)
		}
	}
	if got, err := lister.PersistentVolumeClaims("b").Get("data"); err != nil || got.ResourceVersion == "" {
		t.Errorf("claim b/data: %v, %v", got, err)
	}
	if all, err := lister.List(labels.Everything()); err != nil || len(all) != 2 {
		t.Errorf("%d claims, %v, want 2", len(all), err)
	}
	if pods, err := factory.Core().V1().Pods().Lister().List(labels.Everything()); err != nil || len(pods) > 0 || len(others) == 0 {
		t.Errorf("%d pods, %v, want none", len(pods), err)
	}
	cancel()
	factory.Shutdown()
}

// Without the initial events of a watch a client lists; writing is refused.
func TestListAndWrite(t *testing.T) {
	served, err := apiserver.NewResource(corev1.SchemeGroupVersion.WithKind("Namespace"), []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := apiserver.NewClient(map[string]apiserver.Resource{"namespaces": served})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "shop" {
		t.Errorf("list: %v, %v", list, err)
	}
	watch, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	if _, open := <-watch.ResultChan(); open {
		t.Error("a watch told of a change where nothing changes")
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{}, metav1.CreateOptions{}); err == nil {
		t.Error("writing was not refused")
	}
}

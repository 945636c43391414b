package terminate_test

import (
	"context"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// cached returns a client that reads pods as the cache shows them, which may be behind.
func (w *world) cached() client.WithWatch {
	return interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			pods, ok := list.(*corev1.PodList)
			if !ok {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			var shown []corev1.Pod
			for _, pod := range pods.Items {
				switch old, behind := w.behind[pod.Name]; {
				case !behind:
					shown = append(shown, pod)
				case old != nil:
					shown = append(shown, *old.DeepCopy())
				}
			}
			pods.Items = shown
			return err
		},
	})
}

// changes does what a ReplicaSet controller does, or changes what the cache shows.
func (w *world) changes(ctx context.Context, d *datadriven.TestData) {
	if d.Cmd == "cache" {
		w.cache(ctx, d)
		return
	}
	w.changeSet(ctx, d)
}

// cache has the cache not show a pod, show it as it is now from now on, or show it as it is.
func (w *world) cache(ctx context.Context, d *datadriven.TestData) {
	name := d.CmdArgs[1].Key
	var pod *corev1.Pod
	if d.HasArg("keeps") {
		pod = &corev1.Pod{}
		if err := w.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
			w.t.Fatal(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind[name] = pod
	if d.HasArg("shows") {
		delete(w.behind, name)
	}
}

package bind_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is answered for good is no error; the rest may be tried again.
func TestBinder(t *testing.T) {
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "pod-4", errors.New("its namespace is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	answers := map[string]error{
		"pod-4": ending,
		"pod-1": apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "pod-1", errors.New("it is bound to another node")),
		"pod-2": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pod-2"),
		"pod-3": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "pod-3", errors.New("a webhook says no")),
	}
	sent := make(chan string, 200)
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, kind string, pod, sub client.Object, _ ...client.SubResourceCreateOption) error {
			b := sub.(*corev1.Binding)
			sent <- fmt.Sprintf("%s %s/%s %s -> %s", kind, b.Namespace, b.Name, b.UID, b.Target.Name)
			return answers[pod.GetName()]
		},
	}).Build()
	events := record.NewFakeRecorder(200)
	binder, err := bind.NewBinder(api, api, events)
	if err != nil {
		t.Fatal(err)
	}
	var list []bind.Binding
	for i := range 150 { // More than are under way at once.
		f := ordinary()
		f.Pod.Name = fmt.Sprintf("pod-%d", i)
		f.Pod.UID = types.UID(f.Pod.Name)
		list = append(list, bind.Binding{Pod: f.Pod, Node: "node-1", Moment: bind.Ready, Reason: "it is ready"})
	}
	errs := binder.All(t.Context(), list)
	for i, err := range errs {
		if (i == 3) != (err != nil) {
			t.Errorf("pod-%d: %v", i, err)
		}
		if bound := binder.Bound(list[i].Pod.UID); bound != (err == nil) {
			t.Errorf("pod-%d: bound %t, %v", i, bound, err)
		}
	}
	if len(sent) != 150 || !strings.HasPrefix(<-sent, "binding default/pod-") {
		t.Errorf("%d bindings", len(sent))
	}
	if !strings.Contains(errs[3].Error(), "pod default/pod-3 to node node-1") {
		t.Errorf("the error does not name pod and node: %v", errs[3])
	}
	if len(events.Events) != 146 {
		t.Errorf("%d events, want one for each pod that was bound", len(events.Events))
	}
	if e := <-events.Events; e != "Normal PreBound Bound to node node-1 at ready: it is ready" {
		t.Errorf("event %q", e)
	}
}

// A conflict is also what the API server answers when etcd fails: it is final if the pod cannot be bound any more, and else the binding is tried again.
func TestConflict(t *testing.T) {
	for name, c := range map[string]struct {
		// now is what became of the pod; nil if it is deleted.
		now func(pod *corev1.Pod)
		// silent means that the API server does not answer.
		silent, final bool
	}{
		"etcd failed":             {now: func(*corev1.Pod) {}},
		"bound elsewhere":         {now: func(pod *corev1.Pod) { pod.Spec.NodeName = "node-2" }, final: true},
		"bound to this node":      {now: func(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" }, final: true},
		"another pod of its name": {now: func(pod *corev1.Pod) { pod.UID = "another" }, final: true},
		"deleted":                 {final: true},
		"being deleted": {now: func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.Finalizers = new(metav1.Now()), []string{"example.com/kept"}
		}, final: true},
		"not known: no answer yet": {silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				SubResourceCreate: func(_ context.Context, _ client.Client, _ string, pod, _ client.Object, _ ...client.SubResourceCreateOption) error {
					return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.GetName(), errors.New("etcdserver: leader changed"))
				},
				Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if c.silent {
						return context.DeadlineExceeded
					}
					return api.Get(ctx, key, o, options...)
				},
			})
			pod := ordinary().Pod
			if c.now != nil {
				now := pod.DeepCopy()
				c.now(now)
				b.WithObjects(now)
			}
			events := record.NewFakeRecorder(1)
			api := b.Build()
			binder, err := bind.NewBinder(api, api, events)
			if err != nil {
				t.Fatal(err)
			}
			err = binder.All(t.Context(), []bind.Binding{{Pod: pod, Node: "node-1"}})[0]
			if (err == nil) != c.final || binder.Bound(pod.UID) != c.final || len(events.Events) > 0 {
				t.Errorf("error %v, bound %t, %d events", err, binder.Bound(pod.UID), len(events.Events))
			}
		})
	}
}

// A pod gets its deletion cost with the binding, in one request.
func TestDeletionCost(t *testing.T) {
	var sent []map[string]string
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption) error {
			sent = append(sent, sub.GetAnnotations())
			return nil
		},
	}).Build()
	binder, err := bind.NewBinder(api, api, record.NewFakeRecorder(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []string{"812", ""} {
		if err := errors.Join(binder.All(t.Context(), []bind.Binding{{Pod: ordinary().Pod, Node: "node-1", DeletionCost: cost}})...); err != nil {
			t.Fatal(err)
		}
	}
	if want := fmt.Sprint([]map[string]string{{corev1.PodDeletionCost: "812"}, nil}); fmt.Sprint(sent) != want {
		t.Errorf("bindings with the annotations %v, want %s", sent, want)
	}
}

func TestNewBinderNeedsItsDependencies(t *testing.T) {
	if _, err := bind.NewBinder(nil, nil, nil); err == nil {
		t.Error("no error")
	}
}

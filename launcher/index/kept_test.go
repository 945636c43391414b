package index_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	watched "k8s.io/client-go/tools/cache/testing"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// What is derived from the pods of a node is kept until one of them comes, changes, leaves or goes, and forgotten when no look asks for it.
func TestPerNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := watched.NewFakeControllerSource()
		defer cluster.Shutdown()
		store := toolscache.NewSharedIndexInformer(cluster, &corev1.Pod{}, 0, toolscache.Indexers{})
		read := index.SharedPods(informers{only: store})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go store.RunWithContext(ctx)
		var memory index.PerNode[[]string]
		derived := 0
		look := func(node string) []string {
			t.Helper()
			synctest.Wait()
			memory.Look()
			names, err := memory.On(ctx, read, node, func(pods []*corev1.Pod) (names []string) {
				derived++
				for _, pod := range pods {
					names = append(names, pod.Name+pod.Labels["version"])
				}
				slices.Sort(names)
				return names
			})
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		look("n") // The handler is added here, before there are pods, and after that it has seen all.
		pod := func(name, version, node string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, Labels: map[string]string{"version": version}}, Spec: corev1.PodSpec{NodeName: node}}
		}
		for _, step := range []struct {
			what    string
			change  func()
			want    []string
			derived int
		}{
			{"pods come", func() { cluster.Add(pod("a", "1", "n")); cluster.Add(pod("b", "1", "")) }, []string{"a1"}, 1},
			{"nothing changes", func() {}, []string{"a1"}, 0},
			{"a pod of another node comes", func() { cluster.Add(pod("c", "1", "m")) }, []string{"a1"}, 0},
			{"a pod is bound", func() { cluster.Modify(pod("b", "1", "n")) }, []string{"a1", "b1"}, 1},
			{"a pod changes", func() { cluster.Modify(pod("a", "2", "n")) }, []string{"a2", "b1"}, 1},
			{"a pod goes", func() { cluster.Delete(pod("a", "2", "n")) }, []string{"b1"}, 1},
			{"another look does not ask for the node", func() { look("m") }, []string{"b1"}, 1},
		} {
			step.change()
			derived = 0
			if got := look("n"); !slices.Equal(got, step.want) || derived != step.derived {
				t.Errorf("%s: %v, derived %d times, expected %v and %d", step.what, got, derived, step.want, step.derived)
			}
		}
		again, err := memory.On(ctx, read, "n", func([]*corev1.Pod) []string { return nil })
		if err != nil || !slices.Equal(again, []string{"b1"}) {
			t.Errorf("the second time in one look: %v, error %v", again, err)
		}
	})
}

// Of a reader that does not know of changes nothing is kept, and its errors are returned.
func TestPerNodeOfUnknownChanges(t *testing.T) {
	var memory index.PerNode[int]
	for want := range 2 {
		got, err := memory.On(t.Context(), unknown{}, "n", func([]*corev1.Pod) int { return want })
		if err != nil || got != want {
			t.Errorf("got %d, error %v", got, err)
		}
	}
	if _, err := memory.On(t.Context(), unknown{err: errors.New("no store")}, "n", func([]*corev1.Pod) int { return 0 }); err == nil {
		t.Error("no error")
	}
}

// unknown has no pods, and does not know of changes.
type unknown struct {
	index.Pods
	err error
}

// On implements index.Pods.
func (u unknown) On(context.Context, string) ([]*corev1.Pod, error) { return nil, u.err }

// Changes implements index.Pods.
func (unknown) Changes(context.Context, string) (uint64, bool) { return 0, false }

package podstatus

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Ten thousand pods of one namespace take a hundred seconds to write. A pod of another namespace that comes after them has its condition
// and its Event within a second, and so has each of fifty namespaces.
func TestOneNamespaceDelaysNoOther(t *testing.T) {
	for _, others := range []int{1, 50} {
		t.Run(fmt.Sprintf("%d others", others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { delayed(t, others) })
		})
	}
}

func delayed(t *testing.T, others int) {
	t.Helper()
	const flood = 10_000
	w := newReporter(t, pending())
	put := func(namespace, name string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
		if err := w.informer.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	report := func(pod *corev1.Pod) {
		w.Report(Note{Pod: catalog.PodRefOf(pod), Message: full("a", ""), EventReason: "FailedScheduling", Warning: true})
	}
	var many, victims []*corev1.Pod
	for i := range flood {
		many = append(many, put("hostile", fmt.Sprintf("p-%d", i)))
	}
	for i := range others {
		victims = append(victims, put(fmt.Sprintf("victim-%d", i), "web"))
	}
	// The Events are read at once: the recorder's channel is short.
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-w.recorder.Events:
			case <-stop:
				return
			}
		}
	}()
	defer close(stop)
	for _, pod := range many {
		report(pod)
	}
	time.Sleep(10 * time.Second)
	begin := time.Now()
	for _, pod := range victims {
		report(pod)
	}
	written := func() (n int) {
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "patch" && strings.HasPrefix(a.GetNamespace(), "victim-") {
				n++
			}
		}
		return n
	}
	for written() < others && time.Since(begin) < 2*time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begin)
	t.Logf("%d namespaces with a pod each: written %v after a namespace with %d pods", others, took, flood)
	if took > 2*time.Second {
		t.Errorf("the conditions of %d pods were written after %v, want 2 s at most", others, took)
	}
}

// Namespaces take turns, and pods of one keep their order.
func TestTurns(t *testing.T) {
	var q turns
	for _, pod := range []string{"a/1", "a/2", "a/3", "b/1", "c/1", "c/2"} {
		namespace, _, _ := strings.Cut(pod, "/")
		q.add(namespace, pod)
	}
	var got []string
	for {
		uid, ok := q.next()
		if !ok {
			break
		}
		got = append(got, uid)
		if uid == "b/1" {
			q.add("b", "b/2")
		}
	}
	if text := strings.Join(got, " "); text != "a/1 b/1 c/1 a/2 b/2 c/2 a/3" {
		t.Errorf("order %s", text)
	}
	if len(q.waiting) != 0 || len(q.namespaces) != 0 {
		t.Errorf("left: %v %v", q.waiting, q.namespaces)
	}
}

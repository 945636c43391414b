package plugin

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// countedQueue counts how often the pods that are left to try are copied.
type countedQueue struct {
	internalqueue.SchedulingQueue
	copied int
}

func (c *countedQueue) PodsInActiveQ() []*corev1.Pod {
	c.copied++
	return c.SchedulingQueue.PodsInActiveQ()
}

// queueOf returns a queue with pods that are left to try, in a scheduler that does not run.
func queueOf(tb testing.TB, pods int) (*queue, *countedQueue) {
	tb.Helper()
	q := benchPlannerOf(tb, nil).waker.queue
	counted := &countedQueue{SchedulingQueue: q.sched.SchedulingQueue}
	q.sched.SchedulingQueue = counted
	for i := range pods {
		counted.Add(tb.Context(), benchPod(fmt.Sprintf("pod-%d", i), ""))
	}
	return q, counted
}

// The queue is idle when its last pod has left its scheduling cycle. While a pod is in one, the pods that are left are not copied: there may be thousands, and an
// open batch asks fifty times a second.
func TestAnIdleQueue(t *testing.T) {
	q, counted := queueOf(t, 2)
	for left := 2; left > 0; left-- {
		if q.idle() {
			t.Errorf("idle with %d pods left", left)
		}
		popped, err := counted.Pop(klog.Background())
		if err != nil {
			t.Fatal(err)
		}
		counted.copied = 0
		if q.idle() || counted.copied > 0 {
			t.Errorf("in the cycle of a pod the queue is idle, or its pods were copied (%d times)", counted.copied)
		}
		counted.Done(popped.Pod.UID)
	}
	if !q.idle() {
		t.Error("busy without a pod")
	}
}

// What an open batch asks the queue while thousands of pods are left to try: in a pod's cycle, and in the moment between two.
func BenchmarkIdle(b *testing.B) {
	for name, cycle := range map[string]bool{"20000pods/cycle": true, "20000pods/between": false} {
		b.Run(name, func(b *testing.B) {
			q, counted := queueOf(b, 20000)
			if cycle {
				if _, err := counted.Pop(klog.Background()); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if q.idle() {
					b.Fatal("idle with thousands of pods left")
				}
			}
		})
	}
}

package podstatus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// reporter is a Writer at work in a bubble, on one pod.
type reporter struct {
	*Writer
	t        *testing.T
	client   *fake.Clientset
	informer informers.SharedInformerFactory
	recorder *record.FakeRecorder
	pod      *corev1.Pod
}

func newReporter(t *testing.T, pod *corev1.Pod, others ...runtime.Object) *reporter {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &reporter{t: t, client: fake.NewClientset(append(others, pod)...), recorder: record.NewFakeRecorder(100 + len(others)), pod: pod}
	w.informer = informers.NewSharedInformerFactory(w.client, 0)
	w.Writer = New(Config{
		Client: w.client, Pods: w.informer.Core().V1().Pods().Lister(), Recorder: w.recorder, Karpenter: w.recorder,
		Adopts: func(string) bool { return false },
	})
	w.informer.Start(ctx.Done())
	w.informer.WaitForCacheSync(ctx.Done())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		w.informer.Shutdown()
	})
	return w
}

func pending() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: types.UID("uid-a")}}
}

// says reports a reason for the pod and returns the Events that it got by then.
func (w *reporter) says(pool, verdict string) []string {
	w.Report(Note{Pod: catalog.PodRefOf(w.pod), Message: full(pool, verdict), EventReason: "FailedScheduling", Warning: true})
	return w.sent()
}

// full is the message of a pod for which the NodePool has no node.
func full(pool, verdict string) explain.Message {
	return explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{{NodePool: pool, Code: "LimitExceeded", Message: "full"}}}, verdict)
}

func (w *reporter) sent() (out []string) {
	synctest.Wait()
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// current returns the pod as it is.
func (w *reporter) current() *corev1.Pod {
	pod, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *reporter) condition() string { return Message(w.current()) }

// patches returns how many patches the pod has had.
func (w *reporter) patches() int {
	n := 0
	for _, a := range w.client.Actions() {
		if a.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

// A pod gets an event for each reason that is new, one in ten seconds at most, the last one in any case; its condition is
// always the newest.
func TestEventsArePerReasonAndSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReporter(t, pending())
		if got := w.says("a", "0/1 nodes are available: 1 Insufficient cpu."); len(got) != 1 || !strings.Contains(got[0], "NodePool a: full") {
			t.Fatalf("events %q", got)
		}
		time.Sleep(time.Minute)
		if got := w.says("a", "0/2 nodes are available: 2 Insufficient cpu."); len(got) != 0 {
			t.Errorf("the same reason again: %q", got)
		}
		if !strings.HasPrefix(w.condition(), "0/2 nodes") {
			t.Errorf("condition %q", w.condition())
		}
		if got := w.says("b", ""); len(got) != 1 {
			t.Errorf("another reason: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := append(w.says("c", ""), w.says("d", "")...); len(got) != 0 {
			t.Errorf("within ten seconds: %q", got)
		}
		if !strings.Contains(w.condition(), "NodePool d: full") {
			t.Errorf("condition %q", w.condition())
		}
		time.Sleep(eventEvery)
		if got := w.sent(); len(got) != 1 || !strings.Contains(got[0], "NodePool d: full") {
			t.Errorf("ten seconds later: %q", got)
		}
	})
}

// A writer that starts again does not repeat what the pod's conditions report already: of a refusal, and of a launch.
func TestEventsAfterARestart(t *testing.T) {
	for name, was := range map[string]explain.Message{
		"refusal": full("a", "0/1 nodes are available."), "launch": explain.Existing("m"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := pending()
				pod.Status.Conditions = []corev1.PodCondition{unmet(pod, corev1.PodScheduled, corev1.PodReasonUnschedulable, was.String())}
				if was.Refusal.Code != "" {
					reason, message, err := was.Refusal.Encode()
					if err != nil {
						t.Fatal(err)
					}
					pod.Status.Conditions = append(pod.Status.Conditions, unmet(pod, explain.NodeLaunchable, reason, message))
				}
				w := newReporter(t, pod)
				was.Verdict = ""
				w.Report(Note{Pod: catalog.PodRefOf(pod), Message: was, EventReason: "FailedScheduling"})
				if got := w.sent(); len(got) != 0 {
					t.Errorf("events %q", got)
				}
				if got := w.says("b", ""); len(got) != 1 {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// The refusal is a condition of its own, in the patch of PodScheduled: it comes where it is missing, and goes with a launch.
func TestRefusalIsACondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := pending()
		message := full("a", "0/1 nodes are available.")
		// A version before this one wrote PodScheduled alone.
		pod.Status.Conditions = []corev1.PodCondition{unmet(pod, corev1.PodScheduled, corev1.PodReasonUnschedulable, message.String())}
		w := newReporter(t, pod)
		for range 2 {
			w.says("a", "0/1 nodes are available.")
		}
		got, ok := explain.Read(w.current())
		if diff := cmp.Diff(message.Refusal, got); !ok || diff != "" || got.Code != "LimitExceeded" {
			t.Errorf("read %t, -want +got:\n%s", ok, diff)
		}
		if n := w.patches(); n != 1 {
			t.Errorf("%d patches for one refusal", n)
		}
		w.Report(Note{Pod: catalog.PodRefOf(pod), Message: explain.Existing("m"), EventReason: "Nominated"})
		w.sent()
		if c := w.current().Status.Conditions; len(c) != 1 || c[0].Message != "node m has room" || c[0].Reason != corev1.PodReasonUnschedulable {
			t.Errorf("conditions of a pod with a place: %+v", c)
		}
		if n := w.patches(); n != 2 {
			t.Errorf("%d patches for a refusal and a launch", n)
		}
	})
}

// A pod that was bound without a launch loses the condition a little later; its other conditions stay.
func TestRefusalOfABoundPodIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReporter(t, pending())
		w.says("a", "")
		bound := w.current()
		bound.Spec.NodeName = "n"
		bound.Status.Conditions[0].Status = corev1.ConditionTrue
		if _, err := w.client.CoreV1().Pods("default").Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * clearEvery)
		w.sent()
		if c := w.current().Status.Conditions; len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionTrue {
			t.Errorf("conditions %+v", c)
		}
		before := w.patches()
		time.Sleep(10 * clearEvery)
		w.sent()
		if n := w.patches() - before; n != 0 {
			t.Errorf("%d patches of a pod that is cleared", n)
		}
	})
}

// Nothing is reported on a pod that is bound.
func TestBoundPodsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := pending()
		w := newReporter(t, pod)
		w.says("a", "")
		w.says("b", "")
		bound := pod.DeepCopy()
		bound.Spec.NodeName = "n"
		if _, err := w.client.CoreV1().Pods("default").Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.sent()
		time.Sleep(eventEvery)
		if got := w.sent(); len(got) != 0 {
			t.Errorf("events %q", got)
		}
	})
}

func TestClipped(t *testing.T) {
	long := clipped(strings.Repeat("ä", noteLimit))
	if len(long) > noteLimit || strings.ToValidUTF8(long, "?") != long || !strings.HasSuffix(long, "ä ...") {
		t.Errorf("clipped to %d bytes: %q", len(long), long[len(long)-10:])
	}
	if clipped("short") != "short" {
		t.Error("a short text is cut")
	}
}

// TestALaunchIsNotHeldBack shows that the Event of a launch comes at once, also right after a warning, but only once in ten seconds.
func TestALaunchIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReporter(t, pending())
		w.says("a", "")
		for i, want := range []int{1, 0} {
			w.Report(Note{Pod: catalog.PodRefOf(w.pod), Message: explain.Place(fmt.Sprintf("launching node %d", i)), EventReason: "Nominated"})
			if got := w.sent(); len(got) != want {
				t.Errorf("launch %d: events %q, want %d", i, got, want)
			}
		}
		time.Sleep(eventEvery)
		if got := w.sent(); len(got) != 1 {
			t.Errorf("ten seconds later: events %q", got)
		}
	})
}

// A pod that is deleted is forgotten within a minute; one that exists is not.
func TestEventsOfDeletedPodsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []*corev1.Pod
		var objects []runtime.Object
		for i := range 300 {
			name := fmt.Sprint("gone-", i)
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}})
			objects = append(objects, pods[i])
		}
		w := newReporter(t, pending(), objects...)
		for _, pod := range append(pods, w.pod) {
			w.Report(Note{Pod: catalog.PodRefOf(pod), Message: full("a", ""), EventReason: "FailedScheduling"})
		}
		time.Sleep(clearEvery)
		w.sent()
		if len(w.events) != len(pods)+1 {
			t.Fatalf("%d Events are remembered of %d pods", len(w.events), len(pods)+1)
		}
		for _, pod := range pods {
			if err := w.client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // The watch of the fake client holds few events.
		}
		time.Sleep(sweepEvery)
		w.sent()
		if _, ok := w.events["uid-a"]; !ok || len(w.events) != 1 {
			t.Errorf("%d Events are remembered, that of the pod which exists: %t", len(w.events), ok)
		}
	})
}

// A write that fails is repeated, less and less often: the pod would have no reason until kube-scheduler tries it again. It has one Event, and one that always
// fails is given up.
func TestFailedWritesAreRepeated(t *testing.T) {
	for name, failure := range map[string]error{
		"conflict": apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("the object has been modified")),
		"timeout":  apierrors.NewTimeoutError("the API server is busy", 1),
		"reset":    errors.New("connection reset by peer"),
	} {
		for _, fails := range []int{5, 1000} {
			t.Run(fmt.Sprintf("%s %d", name, fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newReporter(t, pending())
					left := fails
					w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
						if left == 0 {
							return false, nil, nil
						}
						left--
						return true, nil, failure
					})
					events := w.says("a", "0/1 nodes are available.")
					time.Sleep(10 * time.Minute)
					if events = append(events, w.sent()...); len(events) != 1 {
						t.Errorf("events %q, want one", events)
					}
					written := strings.Contains(w.condition(), "NodePool a: full")
					if n := w.patches(); written != (fails == 5) || n > mostTries {
						t.Errorf("condition %q after %d patches", w.condition(), n)
					}
				})
			})
		}
	}
}

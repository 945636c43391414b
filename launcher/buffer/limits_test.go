package buffer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// counting counts what is read.
type counting struct {
	client.Client

	gets, lists, podLists int
}

// Get implements client.Client.
func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	c.gets++
	return c.Client.Get(ctx, key, o, options...)
}

// List implements client.Client.
func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	if _, pods := list.(*corev1.PodList); pods {
		c.podLists++
	}
	return c.Client.List(ctx, list, options...)
}

// counted makes the scene's Controller anew, over a client that counts.
func (s *scene) counted() *counting {
	c := &counting{Client: s.API}
	s.API = c
	s.start(false)
	return c
}

// oneShot is a buffer of that name for two pods of app job. Buffers are as old as they were made early.
func (s *scene) oneShot(name string) {
	cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	cb.Spec = autoscalingv1beta1.CapacityBufferSpec{
		PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, Replicas: new(int32(2)), ProvisioningStrategy: new(buffersize.StrategyOneShot),
	}
	s.put(cb)
}

func (s *scene) chunk() {
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "chunk"}}
	template.Template.Labels, template.Template.Spec = map[string]string{"app": "job"}, podSpec("1")
	s.put(template)
}

// A queue makes a one-shot buffer for each run and deletes none. Those whose time is over, and those whose pods all came, take nothing from the ones that come
// after them, and are not read again.
func TestFinishedBuffersTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		c := s.counted()
		s.chunk()
		s.room = 1000
		provisioned := func(name string) bool {
			cb := &autoscalingv1beta1.CapacityBuffer{}
			s.Must(s.API.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: name}, cb))
			return meta.IsStatusConditionTrue(cb.Status.Conditions, buffersize.ConditionProvisioned)
		}
		for run := range 3 {
			for i := range buffersize.MostBuffers {
				s.oneShot(fmt.Sprintf("run-%d-%02d", run, i))
			}
			s.Must(s.subject.Pass(t.Context()))
			if last := fmt.Sprintf("run-%d-%02d", run, buffersize.MostBuffers-1); !provisioned(last) {
				t.Fatalf("%s has no room", last)
			}
			if run == 1 {
				time.Sleep(2 * time.Second)
				for i := range 2 {
					s.pod(fmt.Sprint("pod-", i), "job")
				}
			} else {
				time.Sleep(time.Hour)
			}
			s.Must(s.subject.Pass(t.Context()))
			*c = counting{Client: c.Client}
			s.Must(s.subject.Pass(t.Context()))
			if c.gets != 0 || c.podLists > 1 {
				t.Errorf("%d Gets and %d Lists of pods for buffers of which nothing more is to be said", c.gets, c.podLists)
			}
		}
		s.oneShot("run-last")
		s.TakeTrace()
		s.Must(s.subject.Pass(t.Context()))
		if got, want := s.TakeTrace(), "asked for a of [a]: 2 of run-last (cpu 1) for \"app=job\" or priority 0, whole\n"; got != want {
			t.Errorf("got  %swant %s", got, want)
		}
		want := `
# HELP slipway_capacity_buffer_pods Pods of all CapacityBuffers, by whether they have room on nodes that are initialized, in flight, or none; wanted is their sum. Without a value while another replica leads.
# TYPE slipway_capacity_buffer_pods gauge
slipway_capacity_buffer_pods{state="existing"} 2
slipway_capacity_buffer_pods{state="in_flight"} 0
slipway_capacity_buffer_pods{state="missing"} 0
slipway_capacity_buffer_pods{state="wanted"} 2
`
		if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		s.follows = true // Another replica has them.
		if err := testutil.GatherAndCompare(s.registry, strings.NewReader("")); err != nil {
			t.Error(err)
		}
	})
}

// A tenant may leave any number of buffers: of those beyond the limit nothing is read, and pods are listed once however many are booked.
func TestBuffersBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		c := s.counted()
		s.chunk()
		s.room = 1000
		for i := range 200 {
			s.oneShot(fmt.Sprintf("b-%03d", i))
		}
		s.Must(s.subject.Pass(t.Context()))
		*c = counting{Client: c.Client}
		s.Must(s.subject.Pass(t.Context()))
		if c.gets != buffersize.MostBuffers || c.podLists != 1 || c.lists != 5 {
			t.Errorf("%d Gets, %d Lists, %d of them of pods", c.gets, c.lists, c.podLists)
		}
		cb := &autoscalingv1beta1.CapacityBuffer{}
		s.Must(s.API.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "b-050"}, cb))
		const why = "limit of 50 buffers in a namespace reached: it has as many older ones"
		for kind, status := range map[string]metav1.ConditionStatus{
			autoscalingv1beta1.ReadyForProvisioningCondition: metav1.ConditionFalse, autoscalingv1beta1.LimitedByQuotasCondition: metav1.ConditionTrue,
		} {
			if is := meta.FindStatusCondition(cb.Status.Conditions, kind); is == nil || is.Status != status || is.Message != why {
				t.Errorf("condition %s: %v", kind, is)
			}
		}
		s.Must(s.API.Delete(t.Context(), &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b-007"}}))
		s.Must(s.subject.Pass(t.Context()))
		s.Must(s.API.Get(t.Context(), client.ObjectKeyFromObject(cb), cb))
		if !meta.IsStatusConditionTrue(cb.Status.Conditions, buffersize.ConditionProvisioned) ||
			meta.FindStatusCondition(cb.Status.Conditions, autoscalingv1beta1.LimitedByQuotasCondition) != nil {
			t.Errorf("after another one is gone: %v", cb.Status.Conditions)
		}
	})
}

// changing are pods of which it is known how often they have changed. It counts the nodes of which they are read.
type changing struct {
	index.Pods

	changes uint64
	read    int
}

// On implements index.Pods.
func (c *changing) On(ctx context.Context, node string) ([]*corev1.Pod, error) {
	c.read++
	return c.Pods.On(ctx, node)
}

// Changes implements index.Pods.
func (c *changing) Changes(context.Context, string) (uint64, bool) { return c.changes, true }

// A pass reads the pods of the nodes on which one has changed, and none where there is none, however many there are.
func TestAPassReadsChangedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		pods := &changing{Pods: index.ListPods(s.API)}
		s.pods = pods
		s.start(false)
		s.chunk()
		cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
		cb.Spec = autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, Replicas: new(int32(1))}
		s.put(cb)
		s.room = 9
		const nodes = 5
		for i := range nodes {
			s.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)}})
		}
		for _, step := range []struct {
			what   string
			change func()
			read   int
			asks   bool
		}{
			{"the first one", func() {}, nodes, true},
			{"nothing has changed", func() {}, 0, false},
			{"a node has come", func() { s.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}) }, 1, true},
			{"a pod has come", func() { s.pod("p", "web"); pods.changes++ }, nodes + 1, true},
			{"nothing has changed since", func() {}, 0, false},
		} {
			step.change()
			pods.read = 0
			s.TakeTrace()
			time.Sleep(time.Second)
			s.Must(s.subject.Pass(t.Context()))
			if asked := strings.Contains(s.TakeTrace(), "asked for"); pods.read != step.read || asked != step.asks {
				t.Errorf("%s: pods of %d nodes are read, asked %t; want %d and %t", step.what, pods.read, asked, step.read, step.asks)
			}
		}
	})
}

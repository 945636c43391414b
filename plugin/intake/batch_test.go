package intake

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// openBatch is a batch over informers that show what the test adds to them.
type openBatch struct {
	*Batch
	t         *testing.T
	informers informers.SharedInformerFactory
	// tried are pods that the queue has given out before.
	tried map[types.UID]bool
	// idle is what the queue is asked.
	idle func() bool
}

func newOpenBatch(t *testing.T) *openBatch {
	t.Helper()
	b := &openBatch{t: t, informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), tried: map[types.UID]bool{}, idle: func() bool { return false }}
	owners, err := NewOwners(b.informers)
	if err != nil {
		t.Fatal(err)
	}
	b.Batch, err = NewBatch(Config{
		Windows:   batch.Config{Idle: time.Minute, Max: time.Hour, GangTimeout: time.Minute},
		Collector: NewCollector(), Owners: owners, Tried: func(p *corev1.Pod) bool { return b.tried[p.UID] },
		Idle: func() bool { return b.idle() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exists has the informer show a pod of ReplicaSet web, or of none.
func (b *openBatch) exists(name string, owned bool) *corev1.Pod {
	b.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	if owned {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", APIVersion: "apps/v1", Name: "web", UID: "web", Controller: new(true)}}
	}
	if err := b.informers.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
		b.t.Fatal(err)
	}
	return pod
}

// wants has the informer show ReplicaSet web with as many replicas.
func (b *openBatch) wants(n int32) {
	b.t.Helper()
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"}, Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
	if err := b.informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(rs); err != nil {
		b.t.Fatal(err)
	}
}

func names(entries []Entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Pod.Name)
	}
	return out
}

// A batch closes when the queue has drained and has given out every pod that the owner of its pods wants.
func TestBatchClosesWhenItsOwnerIsComplete(t *testing.T) {
	b, now := newOpenBatch(t), time.Now()
	b.wants(3)
	first, second, third := b.exists("web-1", true), b.exists("web-2", true), b.exists("web-3", true)
	b.Add(Entry{Pod: second, At: now.Add(time.Millisecond)}, now)
	b.Add(Entry{Pod: first, At: now}, now)
	now = now.Add(time.Second)
	if v := b.Check(now); v.Close {
		t.Error("the batch closes before the queue has drained")
	}
	b.Collector.Drain()
	if v := b.Check(now); v.Close {
		t.Error("the batch closes before the third pod was tried")
	}
	b.tried[third.UID] = true
	b.Collector.Drain()
	if v := b.Check(now); !v.Close {
		t.Fatalf("the batch is open: it waits %s", v.Waiting)
	}
	if got := names(b.Close(now)); !slices.Equal(got, []string{"web-1", "web-2"}) {
		t.Errorf("closed with %v, want the pods in the order in which they were collected", got)
	}
	if len(b.Entries()) != 0 || b.Has(first.UID) {
		t.Error("pods are left in the batch")
	}
}

// The pods of a gang that is not complete stay in the batch when it closes, and are found there afterwards.
func TestIncompleteGangStays(t *testing.T) {
	b, now := newOpenBatch(t), time.Now()
	gang, alone := b.exists("gang-1", false), b.exists("alone", false)
	gang = gang.DeepCopy()
	gang.Labels = map[string]string{"slipway.dev/gang": "g", "slipway.dev/gang-size": "2"}
	if err := b.informers.Core().V1().Pods().Informer().GetIndexer().Update(gang); err != nil {
		t.Fatal(err)
	}
	of := plan.GangOf(gang)
	b.Add(Entry{Pod: gang, At: now, Gang: of}, now)
	b.Add(Entry{Pod: alone, At: now}, now)
	b.Collector.Drain()
	if v := b.Check(now); !v.Close {
		t.Fatalf("the batch is open: it waits %s", v.Waiting)
	}
	if got := names(b.Close(now)); !slices.Equal(got, []string{"alone"}) {
		t.Errorf("closed with %v", got)
	}
	if got := names(b.Entries()); !slices.Equal(got, []string{"gang-1"}) || !b.Has(gang.UID) || b.Lacking(of.Name, now) != 1 {
		t.Errorf("%v are left, and %d pods are lacking", got, b.Lacking(of.Name, now))
	}
	b.Add(Entry{Pod: gang, At: now, Gang: of, Verdict: "0/1 nodes"}, now)
	if got := b.Entries(); len(got) != 1 || got[0].Verdict != "0/1 nodes" {
		t.Errorf("the pod that came again is in the batch as %v", got)
	}
	if b.Collector.Open() {
		t.Error("the collector watches for a queue that has drained already")
	}
}

// A pod that is collected while the scheduling goroutine waits for the next one is planned at once: the queue is asked. A pod that comes meanwhile
// keeps the batch open.
func TestBatchAsksTheQueue(t *testing.T) {
	b, now := newOpenBatch(t), time.Now()
	first, second := b.exists("first", false), b.exists("second", false)
	collect := func(pod *corev1.Pod) { b.Collector.Add(Entry{Pod: pod, At: now}) }
	check := func() bool {
		for _, e := range b.Collector.Take(now) {
			b.Add(e, now)
		}
		now = now.Add(CheckEvery)
		return b.Check(now).Close
	}
	collect(first)
	if check() {
		t.Error("the batch closes while the queue is busy")
	}
	b.idle = func() bool { collect(second); return true }
	if check() {
		t.Error("the batch closes before the pod that came meanwhile is looked at")
	}
	b.idle = func() bool { return true }
	if !check() {
		t.Error("the batch waits for a queue that is idle")
	}
	if got := names(b.Close(now)); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("closed with %v", got)
	}
	// The queue knows nothing of another scheduler's pods: that one may be trying more of them.
	collect(first)
	b.Collector.Add(Entry{Pod: second, At: now, Adopted: true})
	if check() {
		t.Error("the batch does not wait for more pods of the other scheduler")
	}
}

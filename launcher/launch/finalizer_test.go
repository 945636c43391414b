package launch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// unguarded is a NodeClaim as a user creates it, with these finalizers.
func (w *world) unguarded(name string, finalizers ...string) *karpv1.NodeClaim {
	c := w.newClaim(name)
	c.Finalizers, c.Labels, c.Annotations = finalizers, nil, nil
	return c
}

// lacking lists the claims without Karpenter's finalizer.
func (w *world) lacking() []string {
	w.t.Helper()
	var out []string
	for _, c := range w.claims() {
		if !slices.Contains(c.Finalizers, karpv1.TerminationFinalizer) {
			out = append(out, c.Name)
		}
	}
	return out
}

// A NodeClaim that a user created has the finalizer when EC2 is called, and keeps its other finalizers.
func TestFinalizerBeforeTheCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		calls := 0
		w.at("before", func(what string) error {
			if what != "launch" {
				return nil
			}
			calls++
			if lacking := w.lacking(); len(lacking) > 0 {
				t.Errorf("call %d: NodeClaims %v lack the finalizer", calls, lacking)
			}
			return nil
		})
		a, b := w.unguarded("by-hand-a"), w.unguarded("by-hand-b", "example.com/theirs")
		w.create(a)
		w.create(b)
		w.subject.Enqueue(a, b)
		w.settle(time.Second)
		w.owners()
		if calls == 0 || len(w.ec2.Live()) != 2 {
			t.Errorf("%d calls, live instances %v", calls, w.ec2.Live())
		}
		if got := w.claims()[1].Finalizers; !slices.Equal(got, []string{"example.com/theirs", karpv1.TerminationFinalizer}) {
			t.Errorf("finalizers %v", got)
		}
	})
}

// A finalizer that cannot be written is no reason to launch without it.
func TestNoFinalizerNoCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("before", always("patch by-hand", errors.New("the API server is busy")))
		c := w.unguarded("by-hand")
		w.create(c)
		w.subject.Enqueue(c)
		w.settle(time.Minute)
		w.wantLaunches(0)
	})
}

// A NodeClaim that is being deleted can get no finalizer any more: it is not launched, also where the cache has not shown it yet.
func TestDeletingWithoutFinalizerIsNotLaunched(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		c := w.unguarded("by-hand", metav1.FinalizerDeleteDependents)
		w.create(c)
		stale := c.DeepCopy()
		if err := w.api.Delete(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		w.subject.Enqueue(stale)
		w.settle(time.Minute)
		w.wantLaunches(0)
		if live := w.ec2.Live(); len(live) > 0 {
			t.Errorf("live instances %v", live)
		}
	})
}

// The instance of a call that an older release made is dealt to its NodeClaim, which gets the finalizer with it.
func TestOlderReleasesCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		c := w.unguarded("by-hand")
		c.Annotations = map[string]string{catalog.LaunchAnnotation: "l-1"}
		w.create(c)
		w.ec2.Put(cloud.Instance{InstanceType: "m7g.large", Zone: "us-east-1a", Tags: map[string]string{catalog.LaunchAnnotation: "l-1"}})
		w.subject.Enqueue(c)
		w.settle(time.Second)
		w.wantLaunches(0)
		w.owners()
		if lacking := w.lacking(); len(lacking) > 0 {
			t.Errorf("NodeClaims %v lack the finalizer", lacking)
		}
	})
}

package terminate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// alone reconciles the Node for a duration, only when it asks for it: no event comes. then is called after the first time.
func (w *world) alone(ctx context.Context, duration time.Duration, then func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = w.subject.Run(ctx) }()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		result, err := w.subject.ReconcileNode(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
		if err != nil {
			w.t.Fatal(err)
		}
		then()
		then = func() {}
		if result.RequeueAfter == 0 {
			return
		}
		time.Sleep(result.RequeueAfter)
	}
}

// A NodeClaim whose finalizer is removed during the drain vanishes at once. The kubelet of its Node may be dead: no event of the Node follows.
func TestNodeEndsWithoutEventsOnceItsClaimVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addClaim(t.Context(), &datadriven.TestData{})
		w.changeNode(t.Context(), "delete")
		w.alone(t.Context(), 5*time.Minute, func() { w.strip(t.Context()) })
		err := w.api.Get(t.Context(), client.ObjectKey{Name: nodeName}, &corev1.Node{})
		if live := w.ec2.Live(); client.IgnoreNotFound(err) != nil || err == nil || len(live) > 0 {
			t.Errorf("Node: %v, live instances: %v", err, live)
		}
		synctest.Wait()
	})
}

// The Node of a running Karpenter that has no NodeClaim any more is ended by that Karpenter, or by the launcher once it has stopped. One that was handed over
// is the launcher's, and one of another provider never is.
func TestNodesOfOthersAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		karpenter, stops bool
		change           func(*corev1.Node)
		ends             bool
	}{
		"a running Karpenter's":           {karpenter: true, change: func(*corev1.Node) {}},
		"that of a Karpenter that stops":  {karpenter: true, stops: true, change: func(*corev1.Node) {}, ends: true},
		"taken from a running Karpenter":  {karpenter: true, change: func(n *corev1.Node) { finalizer.Take(n) }, ends: true},
		"another provider's, such as EKS": {change: func(n *corev1.Node) { delete(n.Labels, catalog.LabelNodeClass) }},
		"the launcher's":                  {change: func(*corev1.Node) {}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.addClaim(t.Context(), &datadriven.TestData{})
				node := &corev1.Node{}
				err := w.api.Get(t.Context(), client.ObjectKey{Name: nodeName}, node)
				w.karpenter = c.karpenter
				c.change(node)
				if err := errors.Join(err, w.api.Update(t.Context(), node)); err != nil {
					t.Fatal(err)
				}
				w.orphan(t.Context())
				w.changeNode(t.Context(), "delete")
				w.alone(t.Context(), 5*time.Minute, func() { w.karpenter = c.karpenter && !c.stops })
				if ended := len(w.ec2.Live()) == 0; ended != c.ends {
					t.Errorf("ended %t, want %t", ended, c.ends)
				}
				synctest.Wait()
			})
		})
	}
}

// A NodeClaim that vanishes in the middle of its drain is forgotten.
func TestVanishedClaimIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addClaim(t.Context(), &datadriven.TestData{})
		w.addPod(t.Context(), &datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "web"}, {Key: "protected"}}})
		if err := w.api.Delete(t.Context(), w.claim(t.Context())); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			w.tick(t.Context())
		}
		if w.subject.Remembered() == 0 {
			t.Fatal("nothing is remembered of a NodeClaim whose drain goes on")
		}
		w.strip(t.Context())
		w.reconcile("claim", w.subject.ReconcileClaim, t.Context(), claimName)
		if n := w.subject.Remembered(); n != 0 {
			t.Errorf("%d records of a NodeClaim that is gone", n)
		}
	})
}

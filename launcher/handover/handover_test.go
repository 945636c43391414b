package handover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/handover"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// beside is a Karpenter that runs, unless it is alone.
type beside struct{ alone bool }

// Alone implements handover.Neighbour.
func (b *beside) Alone() bool { return b.alone }

// Known implements handover.Neighbour.
func (b *beside) Known() bool { return true }

// Selected implements handover.Neighbour.
func (b *beside) Selected(pool *karpv1.NodePool) bool { return pool.Labels[handover.Label] == "true" }

// IsKarpenter implements handover.Neighbour.
func (b *beside) IsKarpenter(user string) bool {
	return user == "system:serviceaccount:kube-system:karpenter"
}

// world is an API server whose policies refuse the probes in the name of account; none are in force where it is empty.
type world struct {
	api     client.Client
	account string
	subject *handover.Handover
	beside  *beside
	changed int
	// looks counts the lists of NodeClaims.
	looks  int
	events *record.FakeRecorder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{beside: &beside{}, events: record.NewFakeRecorder(10)}
	pool := &karpv1.NodePool{}
	pool.Name, pool.Labels = "moves", map[string]string{handover.Label: "true"}
	claim := &karpv1.NodeClaim{}
	claim.Name, claim.Labels = "moves-1", map[string]string{karpv1.NodePoolLabelKey: "moves"}
	finalizer.Return(claim)
	claim.Status.ProviderID = "aws:///us-east-1a/i-1"
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	node := &corev1.Node{}
	node.Name, node.Spec.ProviderID = "node-1", claim.Status.ProviderID
	finalizer.Return(node)
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool, claim, node).WithStatusSubresource(claim)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.api = b.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*karpv1.NodeClaimList); ok {
				w.looks++
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			all := &client.CreateOptions{}
			all.ApplyOptions(opts)
			if len(all.DryRun) == 0 {
				return errors.New("a probe was created")
			}
			if w.account == "" {
				return nil
			}
			return fmt.Errorf("nodeclaims.karpenter.sh %q is forbidden: the handover policy keeps %s from NodePool moves", o.GetName(), w.account)
		},
	}).Build()
	var err error
	w.subject, err = handover.New(handover.Config{
		Client: w.api, Claims: index.ListClaims(w.api), Guard: leadershiptest.Always{}, Events: w.events, Neighbour: w.beside, Changed: func() { w.changed++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// passes makes two passes: one for each object.
func (w *world) passes(t *testing.T) (claim *karpv1.NodeClaim, node *corev1.Node) {
	t.Helper()
	for range 2 {
		if err := w.subject.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	claim, node = &karpv1.NodeClaim{}, &corev1.Node{}
	if err := errors.Join(w.api.Get(t.Context(), client.ObjectKey{Name: "moves-1"}, claim), w.api.Get(t.Context(), client.ObjectKey{Name: "node-1"}, node)); err != nil {
		t.Fatal(err)
	}
	return claim, node
}

// Without policies, or with policies for somebody else, nothing is taken, and the reason is told.
func TestNothingIsTakenWithoutPolicies(t *testing.T) {
	for account, want := range map[string]string{
		"": "slipway-handover-objects for NodePool moves: it is not in force",
		"system:serviceaccount:default:karpenter": "keeps system:serviceaccount:default:karpenter away, which may not create NodeClaims",
	} {
		w := newWorld(t)
		if err := w.subject.Keeps("moves"); err == nil || !strings.Contains(err.Error(), "not done yet") {
			t.Errorf("before the first pass: %v", err)
		}
		w.account = account
		claim, node := w.passes(t)
		if finalizer.Taken(claim) || finalizer.Taken(node) {
			t.Errorf("%q: %v, %v", account, claim.Finalizers, node.Finalizers)
		}
		if err := w.subject.Keeps("moves"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", account, err)
		}
	}
}

// unlabel takes the NodePool's labels off, so that it is not handed over any more.
func (w *world) unlabel(t *testing.T) {
	t.Helper()
	pool := &karpv1.NodePool{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "moves"}, pool); err != nil {
		t.Fatal(err)
	}
	pool.Labels = nil
	if err := w.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// A NodePool is taken, and returned to a Karpenter, or to nobody where none runs any more.
func TestThereAndBack(t *testing.T) {
	for _, alone := range []bool{false, true} {
		w := newWorld(t)
		w.account = "system:serviceaccount:kube-system:karpenter"
		claim, node := w.passes(t)
		if !finalizer.Taken(claim) || !finalizer.Taken(node) || node.Annotations[karpv1.DoNotDisruptAnnotationKey] != "true" {
			t.Errorf("taken: %v, %v, %v", claim.Finalizers, node.Finalizers, node.Annotations)
		}
		if err := w.subject.Keeps("moves"); err != nil || w.changed != 1 {
			t.Errorf("%v, %d changes", err, w.changed)
		}
		w.beside.alone = alone
		if !alone {
			w.unlabel(t)
		}
		claim, node = w.passes(t)
		if !finalizer.Karpenters(claim) || !finalizer.Karpenters(node) || finalizer.Taken(claim) || finalizer.Taken(node) || len(node.Annotations) > 0 {
			t.Errorf("returned: %v, %v, %v", claim.Finalizers, node.Finalizers, node.Annotations)
		}
		want := 2
		if alone {
			want = 1 // Where no Karpenter runs nothing changes for anybody.
		}
		if got := len(w.events.Events); got != want {
			t.Errorf("%d Events, want %d", got, want)
		}
	}
}

// A Node that is deleted between the two steps is ended: by slipway, which takes its NodeClaim, or by Karpenter, if that is deleting the NodeClaim.
func TestNodeDeletedBetweenTheSteps(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		w := newWorld(t)
		w.account = "system:serviceaccount:kube-system:karpenter"
		if err := w.subject.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
		err := errors.Join(w.api.Get(t.Context(), client.ObjectKey{Name: "moves-1"}, claim), w.api.Get(t.Context(), client.ObjectKey{Name: "node-1"}, node))
		if err != nil || finalizer.Taken(claim) || !finalizer.Taken(node) {
			t.Fatalf("%v; after the first step: %v, %v", err, claim.Finalizers, node.Finalizers)
		}
		err = w.api.Delete(t.Context(), node)
		if deleting {
			err = errors.Join(err, w.api.Delete(t.Context(), claim))
		}
		if err := errors.Join(err, w.subject.Pass(t.Context()), w.api.Get(t.Context(), client.ObjectKey{Name: "moves-1"}, claim)); err != nil {
			t.Fatal(err)
		}
		err = w.api.Get(t.Context(), client.ObjectKey{Name: "node-1"}, node)
		if gone := apierrors.IsNotFound(err); gone != deleting || finalizer.Taken(claim) == deleting {
			t.Errorf("Karpenter deletes the NodeClaim: %t; the Node: %v, the NodeClaim: %v", deleting, err, claim.Finalizers)
		}
	}
}

// Once a Karpenter that was there is gone and all is returned, NodeClaims are looked at every ten seconds as well, though the NodePools keep
// their labels.
func TestPassesAreRareAfterAMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.account = "system:serviceaccount:kube-system:karpenter"
		if claim, node := w.passes(t); !finalizer.Taken(claim) || !finalizer.Taken(node) {
			t.Fatalf("not taken: %v, %v", claim.Finalizers, node.Finalizers)
		}
		w.beside.alone, w.looks = true, 0
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second+500*time.Millisecond)
		defer cancel()
		if err := w.subject.Run(ctx); err != nil {
			t.Fatal(err)
		}
		// Two return the NodeClaim and its Node, one finds nothing to do, and then six in a minute.
		if most := 2 + 1 + 6; w.looks > most {
			t.Errorf("%d looks in a minute, want %d at most", w.looks, most)
		}
		claim, node := w.passes(t)
		if finalizer.Taken(claim) || finalizer.Taken(node) {
			t.Errorf("not returned: %v, %v", claim.Finalizers, node.Finalizers)
		}
	})
}

// A cluster without a Karpenter is looked at every ten seconds, not every second, until there is something to do.
func TestPassesAreRareWhereThereIsNothingToDo(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.beside.alone = alone
			ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second+500*time.Millisecond)
			defer cancel()
			if err := w.subject.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{false: 60, true: 6}[alone]; w.looks != want {
				t.Errorf("alone %t: %d looks in a minute, want %d", alone, w.looks, want)
			}
		})
	}
}

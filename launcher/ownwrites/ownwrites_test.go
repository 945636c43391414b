package ownwrites_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/ownwrites"
)

// late reads objects as they were at the last catchUp, as a cache whose watch is late.
type late struct {
	client.Client
	nodes  map[string]*corev1.Node
	claims map[string]*karpv1.NodeClaim
}

func (l *late) catchUp(t *testing.T) {
	t.Helper()
	l.nodes, l.claims = map[string]*corev1.Node{}, map[string]*karpv1.NodeClaim{}
	nodes, claims := &corev1.NodeList{}, &karpv1.NodeClaimList{}
	if err := l.Client.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	if err := l.Client.List(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		l.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range claims.Items {
		l.claims[claims.Items[i].Name] = &claims.Items[i]
	}
}

// Get reads from memory.
func (l *late) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch o := obj.(type) {
	case *corev1.Node:
		if have := l.nodes[key.Name]; have != nil {
			have.DeepCopyInto(o)
			return nil
		}
	case *karpv1.NodeClaim:
		if have := l.claims[key.Name]; have != nil {
			have.DeepCopyInto(o)
			return nil
		}
	}
	return apierrors.NewNotFound(corev1.Resource("objects"), key.Name)
}

// List reads NodeClaims from memory.
func (l *late) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if claims, ok := list.(*karpv1.NodeClaimList); ok {
		for _, c := range l.claims {
			claims.Items = append(claims.Items, *c)
		}
	}
	return nil
}

func newWorld(t *testing.T) (*late, *ownwrites.Client) {
	t.Helper()
	inner := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{}).Build()
	l := &late{Client: inner}
	c := ownwrites.Wrap(l)
	for _, obj := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "node"}}, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "claim"}},
	} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return l, c
}

func get[T client.Object](t *testing.T, c client.Client, into T) T {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// status writes a condition.
func status(t *testing.T, c client.Client) {
	t.Helper()
	claim := get(t, c, &karpv1.NodeClaim{})
	before := claim.DeepCopy()
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	if err := c.Status().Patch(t.Context(), claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
}

func launched(c *karpv1.NodeClaim) bool {
	return c.StatusConditions().Get(karpv1.ConditionTypeLaunched).IsTrue()
}

func TestOwnWritesAreRead(t *testing.T) {
	l, c := newWorld(t)
	l.catchUp(t)
	status(t, c)
	if launched(get(t, l, &karpv1.NodeClaim{})) {
		t.Fatal("the cache is not late")
	}
	if !launched(get(t, c, &karpv1.NodeClaim{})) {
		t.Error("the own write is not read")
	}
	list := &karpv1.NodeClaimList{}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) != 1 || !launched(&list.Items[0]) {
		t.Errorf("the own write is not in the list %+v, %v", list.Items, err)
	}
	if launched(l.claims["a"]) {
		t.Error("the cache was changed")
	}
	node := get(t, c, &corev1.Node{})
	before := node.DeepCopy()
	node.Labels = map[string]string{"own": "true"}
	if err := c.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if node = get(t, c, &corev1.Node{}); node.Labels["own"] != "true" {
		t.Errorf("labels of the Node %v", node.Labels)
	}
}

// Who reads a list as it is in the cache shares the own write as well; all others have copies.
func TestListsShareOwnWrites(t *testing.T) {
	l, c := newWorld(t)
	l.catchUp(t)
	status(t, c)
	read := func(opts ...client.ListOption) *metav1.Condition {
		list := &karpv1.NodeClaimList{}
		if err := c.List(t.Context(), list, opts...); err != nil || len(list.Items) != 1 || !launched(&list.Items[0]) {
			t.Fatalf("the own write is not in the list %+v, %v", list.Items, err)
		}
		return (*metav1.Condition)(&list.Items[0].Status.Conditions[0])
	}
	own, other, shared, again := read(), read(), read(client.UnsafeDisableDeepCopy), read(client.UnsafeDisableDeepCopy)
	if own == other || own == shared {
		t.Error("a reader that may change what it reads shares it with another")
	}
	if shared != again {
		t.Error("readers that change nothing have copies")
	}
	if one := ownwrites.Latest[*karpv1.NodeClaim](c)(l.claims["a"]); !launched(one) || (*metav1.Condition)(&one.Status.Conditions[0]) != shared {
		t.Errorf("of the cached NodeClaim the own write is %+v", one)
	}
	l.catchUp(t)
	if one := ownwrites.Latest[*karpv1.NodeClaim](c)(l.claims["a"]); one != l.claims["a"] {
		t.Errorf("the cached NodeClaim has everything, and %+v is another", one)
	}
}

// What others write later counts, and so does an end.
func TestLaterVersionsCount(t *testing.T) {
	l, c := newWorld(t)
	l.catchUp(t)
	status(t, c)
	other := get(t, c, &karpv1.NodeClaim{})
	other.Labels = map[string]string{"other": "true"}
	if err := l.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	l.catchUp(t)
	if claim := get(t, c, &karpv1.NodeClaim{}); claim.Labels["other"] != "true" || !launched(claim) {
		t.Errorf("the later version is not read: %+v", claim)
	}
	status(t, c)
	if err := l.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	l.catchUp(t)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &karpv1.NodeClaim{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading a deleted object: %v", err)
	}
}

// A cache that is later than any watch is believed again.
func TestOldWritesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := newWorld(t)
		l.catchUp(t)
		status(t, c)
		time.Sleep(time.Minute)
		if launched(get(t, c, &karpv1.NodeClaim{})) {
			t.Error("a write is remembered for a minute")
		}
	})
}

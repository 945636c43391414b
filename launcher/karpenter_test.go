package launcher

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func karpenter(namespace string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "karpenter-leader-election"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("karpenter-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: renewed},
		},
	}
}

func pool(labels map[string]string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: labels}}
}

func claimOf(annotations map[string]string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Annotations: annotations}}
}

// installed is what lets a Karpenter of the namespace create NodeClaims.
func installed(namespace string) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "karpenter-core"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims", "nodeclaims/status"}, Verbs: []string{"create", "delete", "patch"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "karpenter-core"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "karpenter-core"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "karpenter"}},
		},
	}
}

// leases is an API server with Karpenter's Leases.
func leases(objects ...client.Object) *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
}

// beside runs the check while test goes on, in a bubble of time.
func beside(t *testing.T, api client.Client, test func(t *testing.T, n *neighbour)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		n, err := newNeighbour(api, "handover=yes", func() {})
		if err != nil {
			t.Fatal(err)
		}
		n.keeps = func(string) error { return nil }
		if ok, why := n.manages(pool(nil)); ok || !strings.Contains(why, "not done yet") {
			t.Errorf("before the first look: %t, %q", ok, why)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- n.run(ctx) }()
		test(t, n)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// renew writes the Lease as its holder does, every 2 s for d, by a clock that is off by skew.
func renew(t *testing.T, api client.Client, namespace string, skew, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
		lease := &coordinationv1.Lease{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: karpenterLease}, lease); err != nil {
			t.Fatal(err)
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(skew)}
		if err := api.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
}

// Two programs that launch for the same pods would buy everything twice. A Karpenter lives while its Lease moves, in whichever namespace,
// and whatever its clock says.
func TestLiveKarpenter(t *testing.T) {
	for _, c := range []struct {
		namespace string
		skew      time.Duration
	}{
		{"kube-system", 0}, {"karpenter", -time.Minute}, {"platform", time.Minute}, {"somewhere", -24 * time.Hour},
	} {
		t.Run(c.namespace, func(t *testing.T) {
			api := leases(append(installed(c.namespace), karpenter(c.namespace, time.Unix(0, 0)))...).Build()
			beside(t, api, func(t *testing.T, n *neighbour) {
				t.Helper()
				renew(t, api, c.namespace, c.skew, 5*time.Second)
				ok, why := n.manages(pool(nil))
				if ok || !strings.Contains(why, c.namespace+"/karpenter-leader-election") {
					t.Errorf("manages %t: %q", ok, why)
				}
				renew(t, api, c.namespace, c.skew, time.Minute)
				if ok, _ := n.manages(pool(nil)); ok {
					t.Error("a minute later it counts as gone")
				}
				if ok, why := n.manages(pool(map[string]string{"handover": "yes"})); !ok {
					t.Errorf("a NodePool that was handed over: %q", why)
				}
				taken := claimOf(nil)
				n.own(taken)
				if n.ours(claimOf(nil)) || n.ours(claimOf(map[string]string{catalog.InstanceTypesAnnotation: "m7g.large"})) || !n.ours(taken) {
					t.Error("whose claim it is")
				}
				n.keeps = func(string) error { return errors.New("no policy") }
				if ok, why := n.manages(pool(map[string]string{"handover": "yes"})); ok || !strings.Contains(why, "no policy") {
					t.Errorf("a NodePool that Karpenter is not kept from: %t, %q", ok, why)
				}
				// It stops.
				time.Sleep(41 * time.Second) // The last renewal, the Lease, and a period of reading.
				if ok, why := n.manages(pool(nil)); !ok || !n.Alone() {
					t.Errorf("it is gone: %q", why)
				}
			})
		})
	}
}

// A Karpenter that ends gives its Lease back, as in an upgrade. Its NodePools stay its own until it is clear that no other follows.
func TestKarpenterIsReplaced(t *testing.T) {
	api := leases(append(installed("karpenter"), karpenter("karpenter", time.Unix(0, 0)))...).Build()
	hold := func(t *testing.T, holder string) {
		t.Helper()
		lease := karpenter("karpenter", time.Now())
		before := lease.DeepCopy()
		lease.Spec.HolderIdentity = &holder
		if holder == "" {
			lease.Spec.LeaseDurationSeconds = new(int32(1)) // As client-go does.
		}
		before.Spec = coordinationv1.LeaseSpec{}
		if err := api.Patch(t.Context(), lease, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	beside(t, api, func(t *testing.T, n *neighbour) {
		t.Helper()
		renew(t, api, "karpenter", 0, 15*time.Second)
		for _, empty := range []time.Duration{4 * time.Second, 9 * time.Second} {
			hold(t, "")
			for range empty / time.Second {
				time.Sleep(time.Second)
				if ok, _ := n.manages(pool(nil)); ok || n.Alone() {
					t.Fatal("its NodePools are slipway's while the next one starts")
				}
			}
			hold(t, "karpenter-2")
			renew(t, api, "karpenter", 0, 15*time.Second)
			if ok, _ := n.manages(pool(nil)); ok {
				t.Error("the next one counts as gone")
			}
		}
		hold(t, "")
		time.Sleep(lookForKarpenter + succession + lookAgain)
		if ok, why := n.manages(pool(nil)); !ok || !n.Alone() {
			t.Errorf("it is gone: %q", why)
		}
	})
}

// A Lease that nobody renews is no Karpenter, even if its time is in the future; until that is known, nothing is managed.
func TestKarpenterThatIsGone(t *testing.T) {
	noHolder, noTimes := karpenter("karpenter", time.Unix(0, 0)), karpenter("karpenter", time.Unix(0, 0))
	noHolder.Spec.HolderIdentity, noTimes.Spec.RenewTime = new(""), nil
	other := karpenter("karpenter", time.Unix(0, 0))
	other.Name = "another"
	for name, c := range map[string]struct {
		objects []client.Object
		after   time.Duration
	}{
		"none":              {nil, 0},
		"another's Lease":   {[]client.Object{other}, 0},
		"scaled to nothing": {[]client.Object{noHolder}, 0},
		"it never began":    {[]client.Object{noTimes}, 0},
		"old":               {[]client.Object{karpenter("karpenter", time.Unix(0, 0))}, 15 * time.Second},
		"in the future":     {[]client.Object{karpenter("karpenter", time.Unix(1<<32, 0))}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			beside(t, leases(append(installed("karpenter"), c.objects...)...).Build(), func(t *testing.T, n *neighbour) {
				t.Helper()
				time.Sleep(c.after / 2)
				if ok, why := n.manages(pool(nil)); c.after > 0 && (ok || !strings.Contains(why, "not done yet")) {
					t.Errorf("early: manages %t: %q", ok, why)
				}
				time.Sleep(c.after/2 + lookAgain)
				if ok, why := n.manages(pool(nil)); !ok || !n.Alone() || !n.ours(claimOf(nil)) {
					t.Errorf("manages %t: %q", ok, why)
				}
				other := claimOf(map[string]string{catalog.InstanceTypesAnnotation: "m7g.large"})
				other.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"}
				if n.ours(other) {
					t.Error("a claim of another provider's class is ours")
				}
				theirs := pool(map[string]string{"handover": "yes"})
				theirs.Spec.Template.Spec.NodeClassRef = other.Spec.NodeClassRef
				if ok, why := n.manages(theirs); ok || why == "" || n.Selected(theirs) {
					t.Error("a NodePool of another provider's class is managed")
				}
			})
		})
	}
}

// A Karpenter that is installed later counts from the first read of its Lease. While the API server does not answer, what was known stays.
func TestKarpenterComesAndGoes(t *testing.T) {
	now, changes := time.Now(), 0
	var broken error
	api := leases(installed("karpenter")...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			return errors.Join(broken, c.List(ctx, o, opts...))
		},
	}).Build()
	n, err := newNeighbour(api, "", func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, after time.Duration, managed bool, want int) {
		t.Helper()
		n.look(t.Context(), now.Add(after))
		if ok, _ := n.manages(pool(nil)); ok != managed || changes != want {
			t.Errorf("%s: manages %t, %d changes; want %t, %d", what, ok, changes, managed, want)
		}
	}
	expect("no Lease", 0, true, 1)
	if err := api.Create(t.Context(), karpenter("karpenter", now.Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	expect("it comes", 10*time.Second, false, 2)
	broken = errors.New("the API server is busy")
	expect("nothing is known", time.Hour, false, 2)
	broken = nil
	expect("it did not renew", time.Hour, true, 3)
	if _, err := newNeighbour(api, "a in", func() {}); err == nil {
		t.Error("a selector that nobody can read")
	}
}

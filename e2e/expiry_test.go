package e2e_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/expire"
)

// born lets NodeClaims have been created so long ago. The API server lets nobody say that, its etcd does.
func (w *world) born(ago time.Duration, claims ...observe.Claim) {
	w.t.Helper()
	sockets, err := filepath.Glob(filepath.Join(w.Folder(), "slipway-cp-*", "etcd.sock"))
	if err != nil || len(sockets) != 1 {
		w.t.Fatalf("the sandbox's etcd is not to be found: %v %v", sockets, err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + sockets[0]}, DialTimeout: patience})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	for _, c := range claims {
		before, err := json.Marshal(c.Object.CreationTimestamp)
		if err != nil {
			w.t.Fatal(err)
		}
		after, err := json.Marshal(metav1.NewTime(time.Now().Add(-ago)))
		if err != nil {
			w.t.Fatal(err)
		}
		field := []byte(`"creationTimestamp":`)
		rewrite(w, etcd, "/registry/karpenter.sh/nodeclaims/"+c.Object.Name, func(old []byte) []byte {
			return bytes.Replace(old, append(bytes.Clone(field), before...), append(bytes.Clone(field), after...), 1)
		})
	}
}

// rewrite changes what is stored under a key, whoever else writes there.
func rewrite(w *world, etcd *clientv3.Client, key string, change func([]byte) []byte) {
	w.t.Helper()
	for {
		got, err := etcd.Get(w.t.Context(), key)
		if err != nil || len(got.Kvs) != 1 {
			w.t.Fatalf("%s: %d values, %v", key, len(got.Kvs), err)
		}
		old := got.Kvs[0]
		value := change(old.Value)
		if bytes.Equal(value, old.Value) {
			w.t.Fatalf("%s is not what it was expected to be: %s", key, old.Value)
		}
		put, err := etcd.Txn(w.t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", old.ModRevision)).
			Then(clientv3.OpPut(key, string(value))).Commit()
		switch {
		case err != nil:
			w.t.Fatal(err)
		case put.Succeeded:
			return
		}
	}
}

// In the window before its expiry a fleet is replaced one node at a time, as its budget says, though all of it has come into the window
// at once; the Deployment keeps the availability that its PodDisruptionBudget asks for.
func TestExpiringFleetIsReplacedWithinItsBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soft-expiry")
	class := w.ownClass(newerImages)
	const life, window = 30 * 24 * time.Hour, 10 * time.Hour
	w.pool("soft-expiry", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		p.Annotations = map[string]string{expire.WindowAnnotation: window.String()}
		p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration(life.String())
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}
	})
	w.budget()
	const n = 2
	w.deployment("web", n, w.podSpec("300m", "512Mi", apart("web")))
	w.await(t, "all pods to be ready", func() bool { return w.ready() == n })
	first := w.claimsOf("soft-expiry")
	// Each one's window begins within its first half.
	w.born(life-window/2, first...)
	most := 0
	w.await(t, "the first nodes to be gone and all pods to be ready on others", func() bool {
		most = max(most, w.disrupted("soft-expiry"))
		return claimGone(w.cluster, first[0]) && claimGone(w.cluster, first[1]) && w.ready() == n
	})
	w.keptAvailable(n)
	if most != 1 {
		t.Errorf("%d nodes were disrupted at one time, the budget allows one", most)
	}
	for _, c := range first {
		if got := w.reasonOf(c); got != expire.Reason {
			t.Errorf("NodeClaim %s was ended for %q", c.Object.Name, got)
		}
	}
	if bought := len(w.everClaimed("soft-expiry")); bought != 2*n {
		t.Errorf("%d nodes were bought for %d", bought, n)
	}
}

// A node that is as old as its expireAfter is replaced, whatever the budgets say, and its pod moves; a younger one is left alone.
func TestExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "expiry")
	const life = 30 * 24 * time.Hour
	w.pool("expiry", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration(life.String())
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	})
	w.budget()
	w.deployment("web", 2, w.podSpec("500m", "512Mi", apart("web")))
	w.await(t, "all pods to be ready", func() bool { return w.ready() == 2 })
	claims := w.claimsOf("expiry")
	old, young := claims[0], claims[1]
	w.born(life+time.Second, old)
	w.born(life/2, young)
	w.await(t, "the old node to be gone and its pod to run on another", func() bool { return claimGone(w.cluster, old) && w.ready() == 2 })
	w.keptAvailable(2)
	if got := w.reasonOf(old); got != expire.Reason {
		t.Errorf("the NodeClaim was ended for %q", got)
	}
	if claimGone(w.cluster, young) || w.reasonOf(young) != "" {
		t.Errorf("NodeClaim %s was ended for %q in the middle of its life", young.Object.Name, w.reasonOf(young))
	}
	awaitTerminated(t, instanceID(old))
}

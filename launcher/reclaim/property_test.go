package reclaim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/reclaim"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// answers are the parts of the scheduler's answer that can be left out, to see whether the property would notice.
type answers struct{ noTaint, noCycles, noAssumed bool }

// model is a scheduler and the two caches, each as late as it may be: a cycle chooses the node by what the scheduler's cache shows
// when it begins, the pod is assumed at its end and bound later, and the launcher's cache shows that later still.
type model struct {
	api   client.WithWatch
	node  string
	leave answers

	mu sync.Mutex
	// tainted is what the scheduler's cache shows.
	tainted bool
	// cycles under way by pod, true once the pod is assumed.
	cycles map[string]bool
	bound  map[string]time.Time
	// lags of the scheduler's cache and of the launcher's.
	taintLag, podLag time.Duration
}

// Busy answers as the scheduler's plugin does (plugin/questions.go).
func (m *model) Busy(ctx context.Context, _ *api.NodeBusy) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if !m.leave.noTaint && !m.until(ctx, func() bool { return m.tainted }) {
		return true, "the taint is not seen", nil
	}
	before := map[string]bool{}
	m.mu.Lock()
	for pod := range m.cycles {
		before[pod] = true
	}
	m.mu.Unlock()
	over := func() bool {
		for pod, assumed := range m.cycles {
			if before[pod] && !assumed {
				return false
			}
		}
		return true
	}
	if !m.leave.noCycles && !m.until(ctx, over) {
		return true, "cycles go on", nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for pod, assumed := range m.cycles {
		if assumed && !m.leave.noAssumed {
			return true, pod + " is assumed", nil
		}
	}
	return false, "", nil
}

func (m *model) until(ctx context.Context, fact func() bool) bool {
	for {
		m.mu.Lock()
		ok := fact()
		m.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pod is created at a given time, scheduled, and bound if the node accepts it.
func (m *model) pod(ctx context.Context, name string, wait, cycle, binding time.Duration) error {
	time.Sleep(wait)
	m.mu.Lock()
	refused := m.tainted
	m.cycles[name] = false
	m.mu.Unlock()
	time.Sleep(cycle)
	m.mu.Lock()
	if refused {
		delete(m.cycles, name)
		m.mu.Unlock()
		return nil
	}
	m.cycles[name] = true
	m.mu.Unlock()
	time.Sleep(binding)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.NodeName = "default", m.node+"-"+name, m.node
	m.mu.Lock()
	m.bound[pod.Name] = time.Now()
	m.mu.Unlock()
	err := m.api.Create(ctx, pod)
	m.mu.Lock()
	delete(m.cycles, name) // The scheduler's cache has seen the binding.
	m.mu.Unlock()
	return err
}

// launcherClient delays bindings for the launcher, and taints for the scheduler's cache.
func (m *model) launcherClient() client.WithWatch {
	return interceptor.NewClient(m.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			if node, ok := o.(*corev1.Node); ok {
				cordoned := terminate.Cordoned(node)
				time.AfterFunc(m.taintLag, func() {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.tainted = cordoned
				})
			}
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, ok := list.(*corev1.PodList); ok {
				m.mu.Lock()
				defer m.mu.Unlock()
				seen := pods.Items[:0]
				for _, pod := range pods.Items {
					if at := m.bound[pod.Name]; time.Since(at) >= m.podLag {
						seen = append(seen, pod)
					}
				}
				pods.Items = seen
			}
			return err
		},
	})
}

// outcome of a case.
type outcome struct{ reclaimed, evicted bool }

// arena is the API server of many cases, with few kinds: the fake client looks at each for every write.
func arena() client.WithWatch {
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.Pod{}, &corev1.PodList{})
	group := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	kinds.AddKnownTypes(group, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{}, &karpv1.NodePool{}, &karpv1.NodePoolList{})
	kinds.AddKnownTypes(policyv1.SchemeGroupVersion, &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{})
	kinds.AddKnownTypes(storagev1.SchemeGroupVersion, &storagev1.VolumeAttachment{}, &storagev1.VolumeAttachmentList{})
	metav1.AddToGroupVersion(kinds, corev1.SchemeGroupVersion)
	metav1.AddToGroupVersion(kinds, policyv1.SchemeGroupVersion)
	metav1.AddToGroupVersion(kinds, storagev1.SchemeGroupVersion)
	metav1.AddToGroupVersion(kinds, group)
	b := fake.NewClientBuilder().WithScheme(kinds).WithStatusSubresource(&karpv1.NodeClaim{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	return b.Build()
}

// empties runs one case: a node that becomes empty, pods created at random times, and the Reclaimer.
func empties(t *testing.T, api client.WithWatch, seed uint64, leave answers) (out outcome) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	m := &model{
		api: api, node: fmt.Sprint("n", seed), leave: leave, cycles: map[string]bool{}, bound: map[string]time.Time{},
		taintLag: random(300 * time.Millisecond), podLag: random(300 * time.Millisecond),
	}
	f := &flow{t: t, api: api}
	late := m.launcherClient()
	ender, err := terminate.New(terminate.Config{
		Client: late, Pods: index.ListPods(late), Reader: api, Cloud: memory.New(memory.Config{}), Asker: f, Guard: leadershiptest.Always{}, Events: f, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ledger, counted := shared(t, late)
	subject, err := reclaim.New(reclaim.Config{
		Client: late, Pods: index.ListPods(late), Reader: api, Guard: leadershiptest.Always{}, Asker: m, Ender: ender, Events: f, Ledger: ledger, Metrics: counted,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.addNode(t.Context(), m.node)
	var pods sync.WaitGroup
	for i := range 1 + rng.IntN(3) {
		wait, cycle, binding := random(1500*time.Millisecond), random(200*time.Millisecond), random(300*time.Millisecond)
		pods.Go(func() {
			if err := m.pod(t.Context(), fmt.Sprint("web-", i), wait, cycle, binding); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(random(1500 * time.Millisecond))
	claim := &karpv1.NodeClaim{}
	claim.Name = "claim-" + m.node
	if _, err := subject.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
		t.Error(err)
	}
	pods.Wait()
	// The last change reaches the scheduler's cache.
	time.Sleep(time.Second)
	list := &corev1.PodList{}
	err = errors.Join(
		api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim),
		api.List(t.Context(), list, client.MatchingFields{index.PodNodeName: m.node}),
	)
	out.reclaimed = claim.DeletionTimestamp != nil
	out.evicted = out.reclaimed && len(list.Items) > 0
	claim.Finalizers = nil
	node := &corev1.Node{}
	node.Name = m.node
	err = errors.Join(err, api.Update(t.Context(), claim), client.IgnoreNotFound(api.Delete(t.Context(), claim)), api.Delete(t.Context(), node))
	for i := range list.Items {
		err = errors.Join(err, api.Delete(t.Context(), &list.Items[i]))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// emptying makes the NodePool of all cases.
func emptying(t *testing.T, api client.Client) {
	t.Helper()
	pool := &karpv1.NodePool{}
	pool.Name = "default"
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	(&flow{t: t, api: api}).create(t.Context(), pool)
}

// cases is how many random cases are played.
const cases = 200

// Pods are created at any time while a node becomes empty: none is ever on a node that is removed as empty.
func TestNoPodIsEvictedFromAnEmptyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reclaimed, api := 0, arena()
		emptying(t, api)
		for seed := range uint64(cases) {
			got := empties(t, api, seed, answers{})
			if got.evicted {
				t.Errorf("seed %d: a pod is on the node that leaves", seed)
			}
			if got.reclaimed {
				reclaimed++
			}
		}
		if reclaimed < cases/20 || reclaimed > cases*19/20 {
			t.Errorf("%d of %d nodes were given back: the cases show too little", reclaimed, cases)
		}
	})
}

// The property notices when any part of the scheduler's answer is missing.
func TestEachPartOfTheAnswerIsNeeded(t *testing.T) {
	for name, leave := range map[string]answers{
		"the taint in the scheduler's cache": {noTaint: true},
		"the cycles that began before":       {noCycles: true},
		"the pods that are assumed":          {noAssumed: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			api, evicted := arena(), false
			emptying(t, api)
			for seed := uint64(0); seed < cases && !evicted; seed++ {
				evicted = empties(t, api, seed, leave).evicted
			}
			if !evicted {
				t.Errorf("without %s no pod was evicted in %d cases", name, cases)
			}
		})
	}
}

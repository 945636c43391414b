package disrupt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// chance is a scheduler with random answers, which checks what the executor does.
type chance struct {
	*flow
	rand *rand.Rand

	mu sync.Mutex
	// room are the pods that have their slot, by the node that they leave.
	room map[string]map[string]bool
	// launched are the claims that were launched for a node's pods.
	launched map[string][]string
	booting  []string
	names    int
	ended    int
	wrong    []string
}

func (c *chance) pick(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

func (c *chance) roll(n int) bool { return c.pick(n) == 0 }

func (c *chance) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, what)
}

// boots returns the oldest launched claim that has not joined; empty for none.
func (c *chance) boots() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.booting) == 0 {
		return ""
	}
	name := c.booting[0]
	c.booting = c.booting[1:]
	return name
}

// Busy implements disrupt.Asker.
func (c *chance) Busy(context.Context, *api.NodeBusy) (bool, string, error) {
	switch {
	case c.roll(10):
		return false, "", errors.New("no stream")
	case c.roll(10):
		return true, "a pod is nominated to it", nil
	}
	return false, "", nil
}

// MakeRoom implements disrupt.Asker.
func (c *chance) MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	switch {
	case c.roll(10):
		return nil, errors.New("no stream")
	case c.roll(12):
		return &api.MakeRoomAnswer{NoRoom: "it costs too much"}, nil
	}
	launch := c.roll(3)
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := &api.MakeRoomAnswer{}
	if launch {
		answer.NodeClaims = []string{fmt.Sprintf("default-%d", c.names)}
		c.names++
		c.create(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: answer.GetNodeClaims()[0], Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}})
		c.booting = append(c.booting, answer.GetNodeClaims()...)
	}
	for _, node := range q.GetNodeNames() {
		for _, name := range c.launched[node] {
			// What a move before it launched for the node counts as its own, as long as it is there.
			if c.api.Get(ctx, client.ObjectKey{Name: name}, &karpv1.NodeClaim{}) == nil && !slices.Contains(answer.GetNodeClaims(), name) {
				answer.NodeClaims = append(answer.NodeClaims, name)
			}
		}
		c.room[node] = map[string]bool{}
		for _, pod := range q.GetPods() {
			c.room[node][pod] = true
		}
		c.launched[node] = answer.GetNodeClaims()
	}
	return answer, nil
}

// Cordon and Uncordon are the terminator's; Begin looks first.
type witness struct {
	*terminate.Terminator
	*chance
}

// Begin implements disrupt.Ender.
func (w *witness) Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	w.check(ctx, claim)
	return w.Terminator.Begin(ctx, claim, reason)
}

// check records violations at the deletion of a node.
func (c *chance) check(ctx context.Context, claim *karpv1.NodeClaim) {
	name := claim.Status.NodeName
	node, pods, budgets := &corev1.Node{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}
	err := errors.Join(c.api.Get(ctx, client.ObjectKey{Name: name}, node), c.api.List(ctx, budgets),
		c.api.List(ctx, pods, client.MatchingFields{"spec.nodeName": name}))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	note := func(format string, args ...any) { c.wrong = append(c.wrong, fmt.Sprintf(format, args...)) }
	if err != nil {
		note("%v", err)
		return
	}
	if !terminate.Cordoned(node) {
		note("node %s goes without a cordon", name)
	}
	var on []*corev1.Pod
	for i := range pods.Items {
		on = append(on, &pods.Items[i])
		if pods.Items[i].DeletionTimestamp == nil && !c.room[name][string(pods.Items[i].UID)] {
			note("node %s goes, and its pod %s has no room", name, pods.Items[i].Name)
		}
	}
	if v := disruption.BlockOf(disruption.Candidate{Now: time.Now(), Node: node, Claim: claim, Pods: on}, disruption.ReadPodBudgets(budgets.Items)); v.Why != "" {
		note("node %s goes: %s", name, v.Why)
	}
	for _, launched := range c.launched[name] {
		r := &karpv1.NodeClaim{}
		if err := c.api.Get(ctx, client.ObjectKey{Name: launched}, r); err != nil || !r.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized) {
			note("node %s goes before %s is initialized: %v", name, launched, err)
		}
	}
}

// latePods is a cache that shows the pods of a node up to lateBy after what the API server has.
type latePods struct {
	index.Pods

	mu   sync.Mutex
	seen map[string]sighting
}

const lateBy = 3 * time.Second

// sighting is the pods of a node at a time.
type sighting struct {
	pods []*corev1.Pod
	at   time.Time
}

// On implements index.Pods.
func (l *latePods) On(ctx context.Context, node string) ([]*corev1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.seen[node]; ok && time.Since(s.at) < lateBy {
		return s.pods, nil
	}
	pods, err := l.Pods.On(ctx, node)
	if err == nil {
		l.seen[node] = sighting{pods, time.Now()}
	}
	return pods, err
}

// TestNothingGoesWithoutItsRoom checks, with random schedulers, pods, budgets and launches, and a cache that is late, that a node is deleted only if
// it is cordoned, each of its pods has a reservation on an initialized node, and nothing protects it. A move that was called
// off leaves nothing behind.
func TestNothingGoesWithoutItsRoom(t *testing.T) {
	ended := 0
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { ended += gamble(t, seed) })
	}
	if ended < 8 {
		t.Errorf("only %d nodes were ended in all runs: nothing was tried", ended)
	}
}

// gamble runs one random sequence, and returns how many nodes were deleted.
func gamble(t *testing.T, seed uint64) int {
	t.Helper()
	f := newFlow(t)
	f.stop()
	c := &chance{flow: f, rand: rand.New(rand.NewPCG(seed, 1)), room: map[string]map[string]bool{}, launched: map[string][]string{}}
	f.asker, f.gamble, f.cached = c, &witness{f.ender, c}, &latePods{Pods: index.ListPods(f.api), seen: map[string]sighting{}}
	f.run()
	defer func() { f.stop() }()
	ctx := t.Context()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "60%"}}
	f.create(ctx, pool)
	for i := range 5 {
		node := fmt.Sprintf("node%d", i)
		f.addNode(ctx, node)
		for j := range c.pick(3) {
			f.bindPod(ctx, fmt.Sprintf("%s-pod%d", node, j), node)
		}
	}
	for range 40 {
		// No event falls on a moment in which the executor looks.
		time.Sleep(time.Duration(c.pick(1500))*time.Millisecond + time.Microsecond)
		synctest.Wait()
		c.happens(ctx, fmt.Sprintf("node%d", c.pick(5)))
	}
	f.lead.lost.Store(false)
	for range 45 {
		time.Sleep(time.Second + time.Microsecond)
		synctest.Wait()
		if name := c.boots(); name != "" {
			c.joins(ctx, name)
		}
	}
	for i := range 5 {
		c.leftover(ctx, fmt.Sprintf("node%d", i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wrong {
		t.Errorf("seed %d: %s", seed, w)
	}
	return c.ended
}

// happens makes one random change, or starts a move.
func (c *chance) happens(ctx context.Context, node string) {
	claim := &karpv1.NodeClaim{}
	if err := c.api.Get(ctx, client.ObjectKey{Name: "claim-" + node}, claim); err != nil {
		c.t.Fatal(err)
	}
	switch n := c.pick(20); {
	case n < 8:
		m := disrupt.Move{Reason: karpv1.DisruptionReasonUnderutilized, Claims: []*karpv1.NodeClaim{claim}}
		if other := c.claim(ctx, fmt.Sprintf("node%d", c.pick(5))); c.pick(2) == 0 && other.Name != claim.Name {
			m.Claims = append(m.Claims, other)
		}
		_ = c.subject.Start(ctx, m) // The budget may not let it.
	case n < 13:
		c.boot(ctx)
	case n == 14 && claim.DeletionTimestamp == nil:
		c.bindPod(ctx, fmt.Sprintf("late-%d", time.Now().UnixNano()), node)
	case n == 15:
		c.annotate(ctx)
	case n == 16:
		c.stop()
		c.run()
	case n == 17:
		c.lead.lost.Store(!c.lead.lost.Load())
	case n == 18 && c.pick(3) == 0:
		_ = c.api.Delete(ctx, claim) // An interruption.
	}
}

// boot makes a booting node join, or never appear.
func (c *chance) boot(ctx context.Context) {
	name := c.boots()
	if name == "" {
		return
	}
	if c.pick(6) == 0 {
		_ = c.api.Delete(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	} else {
		c.joins(ctx, name)
	}
}

// annotate sets or removes the protection of a pod.
func (c *chance) annotate(ctx context.Context) {
	pods := &corev1.PodList{}
	if err := c.api.List(ctx, pods); err != nil || len(pods.Items) == 0 {
		return
	}
	pod := &pods.Items[c.pick(len(pods.Items))]
	pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: fmt.Sprint(c.pick(2) == 0)}
	_ = c.api.Update(ctx, pod)
}

// leftover records what a move left on a node that stays.
func (c *chance) leftover(ctx context.Context, node string) {
	claim, n := c.claim(ctx, node), &corev1.Node{}
	if err := c.api.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		c.t.Fatal(err)
	}
	if claim.DeletionTimestamp != nil {
		return
	}
	if terminate.Cordoned(n) || c.ledger.Held(claim.UID) || c.subject.Moving(claim.UID) || claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason) != nil {
		c.note(fmt.Sprintf("of a move of node %s is left: cordoned %t, held %t, moving %t, %v", node, terminate.Cordoned(n),
			c.ledger.Held(claim.UID), c.subject.Moving(claim.UID), claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason)))
	}
}

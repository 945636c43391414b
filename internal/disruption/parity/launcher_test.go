package parity_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	launcher "github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/reclaim"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// launched runs the launcher's controllers on a fleet for one decision, and notes which nodes they give up.
type launched struct {
	t         *testing.T
	fleet     *fleet
	api       client.Client
	ledger    *budget.Ledger
	reclaimer *reclaim.Reclaimer
	goes      []string
}

// launcherGives returns the names of the nodes that the launcher gives up.
func launcherGives(t *testing.T, f *fleet) (goes []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(noon()))
		l := &launched{t: t, fleet: f}
		b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{})
		index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
		for _, o := range f.objects() {
			if copied, ok := o.DeepCopyObject().(client.Object); ok {
				b.WithObjects(copied)
			}
		}
		l.api = b.Build()
		l.run()
		slices.Sort(l.goes)
		goes = l.goes
	})
	return goes
}

func (l *launched) run() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(klog.NewContext(l.t.Context(), klog.Logger{}), 5*time.Second)
	defer cancel()
	must := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	var err error
	l.ledger, err = budget.New(voluntary.Observe(l.api, index.ListClaims(l.api), index.ListNodes(l.api)))
	must(err)
	metrics, err := voluntary.NewMetrics(prometheus.NewRegistry(), l.ledger, func() bool { return true })
	must(err)
	events := record.NewFakeRecorder(1000)
	l.reclaimer, err = reclaim.New(reclaim.Config{
		Client: l.api, Pods: index.ListPods(l.api), Reader: l.api, Guard: leadershiptest.Always{}, Asker: l, Ender: l, Events: events, Ledger: l.ledger, Metrics: metrics,
	})
	must(err)
	c, err := launcher.New(launcher.Config{
		Client: l.api, Cache: index.List(l.api), Guard: leadershiptest.Always{}, Asker: l, Mover: l, Ledger: l.ledger, Metrics: metrics, Events: events,
		Before: func(context.Context) ([]view.Decision, error) { return nil, nil },
		Settings: launcher.Settings{
			Period: time.Minute, Payback: 2 * time.Hour, MinSaving: 0.005,
			DisruptBare: l.fleet.disruptBare,
		},
	})
	must(err)
	must(c.Run(ctx))
}

// Consolidate is the scheduler's: it finds room for every pod. Empty nodes go before it answers, as in a simulation.
func (l *launched) Consolidate(ctx context.Context, q *api.Consolidate) (*api.ConsolidateAnswer, error) {
	o := consolidate.DefaultOptions()
	o.Allowed = map[string]consolidate.Allowance{}
	for _, a := range q.GetAllowances() {
		o.Allowed[a.GetNodePool()] = consolidate.Allowance{Empty: int(a.GetEmpty()), Underutilized: int(a.GetUnderutilized())}
	}
	var nodes []consolidate.Node
	answer := consolidate.Answer{Existing: map[string]string{}}
	for _, m := range l.fleet.members() {
		i := slices.IndexFunc(q.GetNodes(), func(n *api.FleetNode) bool { return n.GetName() == m.node.Name })
		if i < 0 {
			continue
		}
		n := consolidate.Node{
			Name: m.node.Name, Policy: consolidate.Policy(q.GetNodes()[i].GetPolicy()), Blocked: q.GetNodes()[i].GetBlocked(),
			Used:  consolidate.Used(m.node, m.pods),
			Offer: consolidate.Offer{NodePool: m.node.Labels[karpv1.NodePoolLabelKey], InstanceType: "m5.large", Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.096},
		}
		for _, p := range m.pods {
			if occupies(p) {
				n.Pods = append(n.Pods, consolidate.Pod{Name: p.Namespace + "/" + p.Name, Weight: 1})
				answer.Existing[p.Namespace+"/"+p.Name] = "room"
			}
		}
		nodes = append(nodes, n)
	}
	d, err := consolidate.Decide(ctx, nodes, o, func(context.Context, []string, []string) (consolidate.Answer, error) { return answer, nil })
	if err != nil {
		return nil, err
	}
	// The queue has any order. Where a budget does not let all of them go, that of the simulation is one of them.
	byName := slices.SortedFunc(slices.Values(l.fleet.members()), func(a, b *member) int { return strings.Compare(a.node.Name, b.node.Name) })
	for _, m := range byName {
		if _, err := l.reclaimer.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.claim)}); err != nil {
			return nil, err
		}
	}
	out := &api.ConsolidateAnswer{}
	for i := range d.Moves {
		if len(d.Moves[i].Targets) == 0 {
			continue
		}
		for _, n := range d.Moves[i].Nodes {
			out.Moves = append(out.Moves, &api.PlannedMove{NodeNames: []string{n.Name}, Saving: n.Price})
		}
	}
	return out, nil
}

// Start takes a move on within the budgets, as disrupt.Executor does.
func (l *launched) Start(ctx context.Context, m disrupt.Move) error {
	if err := l.ledger.Reserve(ctx, m.Reason, m.Claims...); err != nil {
		return err
	}
	for _, c := range m.Claims {
		l.goes = append(l.goes, c.Status.NodeName)
	}
	return nil
}

// Moving implements launcher.Mover: nothing moves yet.
func (l *launched) Moving(types.UID) bool { return false }

// NotBefore implements launcher.Mover: no move was called off.
func (l *launched) NotBefore(types.UID) time.Time { return time.Time{} }

// Settling implements launcher.Mover.
func (l *launched) Settling() bool { return false }

// Busy implements reclaim.Asker: the scheduler has nothing for any node.
func (l *launched) Busy(context.Context, *api.NodeBusy) (bool, string, error) { return false, "", nil }

// Cordon implements reclaim.Ender.
func (l *launched) Cordon(context.Context, string, string) error { return nil }

// Uncordon implements reclaim.Ender.
func (l *launched) Uncordon(context.Context, string, string) error { return nil }

// Begin notes that an empty node is given back.
func (l *launched) Begin(_ context.Context, claim *karpv1.NodeClaim, _ string) error {
	l.goes = append(l.goes, claim.Status.NodeName)
	return nil
}

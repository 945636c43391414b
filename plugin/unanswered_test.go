package plugin

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/provision"
)

// released is a pod that was released, and when.
type released struct {
	Pod   string
	After time.Duration
}

// While the launcher does not answer a launch, its updates are read: pods of other nodes that fail come back at once. What they report
// of the request's own claims counts when the answer has come, and a full state that lacks them releases no pod.
func TestUpdatesAreReadBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var got []released
		p := newIdlePlanner(t, func(refs []catalog.PodRef) {
			for _, ref := range refs {
				got = append(got, released{ref.UID, time.Since(start)})
			}
		})
		table := p.promises
		for _, name := range []string{"failing", "gone", "own", "joined"} {
			ref := catalog.PodRef{Name: name, UID: name}
			table.Hold(promise.Promise{Pod: ref, NodeClaim: name, Since: start})
		}
		got = nil // The pods that were held are gated.
		end := func(name string, outcome api.Outcome) link.Update {
			return link.Update{Ended: []link.End{{Node: catalog.InFlightNode{NodeClaim: name}, Outcome: outcome}}}
		}
		send := func(after time.Duration, u link.Update) {
			time.AfterFunc(after, func() { p.inbox.update(u) })
		}
		send(time.Second, end("failing", api.Outcome_OUTCOME_FAILED))
		send(2*time.Second, end("own", api.Outcome_OUTCOME_FAILED))
		send(3*time.Second, end("joined", api.Outcome_OUTCOME_INITIALIZED))
		send(4*time.Second, link.Update{Full: true, Opened: start.Add(4 * time.Second)})

		p.updates.expect(&api.LaunchRequest{
			Claims: []*api.Claim{{Name: "own"}}, Placements: []*api.InFlightPlacement{{NodeClaim: "joined"}},
		})
		p.provisioner.sender.beside(t.Context(), func() { time.Sleep(20 * time.Second) })
		if p.view.Settling() > 0 {
			t.Error("a node that pods are being promised to was taken for joined before the launcher answered")
		}
		p.updates.answered(t.Context())
		slices.SortFunc(got, func(a, b released) int { return int(a.After - b.After) })
		want := []released{{"failing", time.Second}, {"gone", 4 * time.Second}, {"own", 20 * time.Second}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pods that were released (-want +got):\n%s", diff)
		}
		if _, held := table.Get(types.UID("joined")); !held || p.view.Settling() != 1 {
			t.Error("the pod of the node that joined is not held until the scheduler sees the node")
		}
		select {
		case <-p.collected.Wake():
		default:
			t.Error("the planner is not called again for what came meanwhile")
		}
	})
}

// The launcher gives nodes more time than their deadline after an outage. A deadline that is past releases no pod: the launcher reports the end of the node.
func TestDeadlineThatIsPast(t *testing.T) {
	p, now := newIdlePlanner(t, func([]catalog.PodRef) {}), time.Now()
	for name, c := range map[string]struct {
		deadline time.Time
		released int
	}{
		"past":    {deadline: now.Add(-time.Minute)},
		"to come": {deadline: now.Add(time.Minute), released: 1},
	} {
		p.promises.Hold(promise.Promise{Pod: catalog.PodRef{Name: name, UID: name}, NodeClaim: name, Since: now, Deadline: now.Add(time.Hour)})
		p.updates.onInFlight(catalog.InFlightNode{}, catalog.InFlightNode{NodeClaim: name, Deadline: c.deadline}, now)
		if out := p.promises.ReleaseExpired(now.Add(2 * time.Minute)); len(out) != c.released {
			t.Errorf("%s: %d promises were released, want %d", name, len(out), c.released)
		}
	}
}

// A launch that is not answered is about the pods that it promises nodes. The others of its batch are held or sent to their nodes, as after an answer.
func TestUnansweredLaunchKeepsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIdlePlanner(t, func([]catalog.PodRef) {})
		sender := p.provisioner.sender
		sender.queue.objects.pods = corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
		w := &work{purpose: pendingPods(), byUID: map[types.UID]intake.Entry{}}
		refs := map[string][]catalog.PodRef{}
		for _, name := range []string{"promised", "placed", "unplaced"} {
			e := intake.Entry{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}}
			w.entries, w.byUID[e.Pod.UID] = append(w.entries, e), e
			refs[name] = []catalog.PodRef{catalog.PodRefOf(e.Pod)}
		}
		w.result = provision.Result{Plan: plan.Plan{
			Placements: []plan.Placement{{Node: "ip-1", Members: []plan.Member{{Pods: refs["placed"]}}}},
			Unplaced:   []plan.Unplaced{{Pods: refs["unplaced"]}},
		}}
		p.promises.Hold(promise.Promise{Pod: refs["promised"][0], NodeClaim: "claim", Since: time.Now()})
		for range 2 { // A pod that is sent to nodes that exist for the second time counts as returned.
			sender.unsent(t.Context(), w, context.DeadlineExceeded)
		}
		now := time.Now()
		if p.unplaced.Held() != 1 || !p.unplaced.Knows("unplaced") {
			t.Errorf("%d pods are held, want the one without a place", p.unplaced.Held())
		}
		if returned, _ := p.unplaced.DivideReturned(w.entries, now); len(returned) != 1 || returned[0].Pod.Name != "placed" {
			t.Errorf("%v were sent to nodes that exist", returned)
		}
		if p.unplaced.Due(now.Add(unsentAgain-1)) != nil || p.unplaced.Due(now.Add(unsentAgain)) == nil {
			t.Errorf("the pod without a place is not planned again after %s", unsentAgain)
		}
		if _, held := p.promises.Get("promised"); !held {
			t.Error("the pod whose claim may be recorded is not promised any more")
		}
	})
}

// A panic of the call is that of its caller.
func TestMeanwhilePanics(t *testing.T) {
	defer func() {
		if cause := recover(); cause != "broken" {
			t.Errorf("recovered %v", cause)
		}
	}()
	meanwhile(func() { panic("broken") }, nil, nil)
}

// slowLauncher answers after a time.
type slowLauncher struct {
	takes time.Duration
	asked int
}

func (l *slowLauncher) Launch(ctx context.Context, _ *api.LaunchRequest) (*api.LaunchResponse, error) {
	l.asked++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(l.takes):
		return &api.LaunchResponse{}, nil
	}
}

// A request with many nodes is given more time than one with a few, and is sent once; what is never answered ends.
func TestLargeLaunchHasMoreTime(t *testing.T) {
	for _, c := range []struct {
		nodes    int
		takes    time.Duration
		asked    int
		answered bool
	}{
		{nodes: 1, takes: 4 * time.Second, asked: 1, answered: true},
		{nodes: 300, takes: 30 * time.Second, asked: 1, answered: true},
		{nodes: 1, takes: 30 * time.Second, asked: launchTries},
		{nodes: 300, takes: time.Hour, asked: launchTries},
	} {
		synctest.Test(t, func(t *testing.T) {
			to := &slowLauncher{takes: c.takes}
			_, err := send(t.Context(), to, &api.LaunchRequest{Claims: make([]*api.Claim, c.nodes)})
			if to.asked != c.asked || (err == nil) != c.answered {
				t.Errorf("%d nodes, answered after %s: sent %d times, %v; want %d times", c.nodes, c.takes, to.asked, err, c.asked)
			}
		})
	}
}

package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	rounds  = 50
	perCall = 10
	// settle lets the last round's machines and messages end: the question is how quick an idle cluster answers.
	settle = 500 * time.Millisecond
)

// From the last pod of a complete Deployment to the CreateFleet request, in a cluster that is idle otherwise. The clock starts
// when the last pod is created, which is before it turns unschedulable: no figure is better than it looks.
func BenchmarkPodToCreateFleet(b *testing.B) {
	b.Log(machine())
	l := newLab(b, sandbox.Config{Speed: 30, ManagedNodes: 1})
	l.pool("bench")
	for b.Loop() {
		var total, toPlan, toCall []float64
		for round := range rounds {
			time.Sleep(settle)
			s := l.oneDeployment(fmt.Sprintf("d%d", round))
			total, toPlan, toCall = append(total, s.total), append(toPlan, s.toPlan), append(toCall, s.toCall)
			b.Logf("round %2d: pod created to NodeClaim %6.1f ms, to CreateFleet %6.1f ms, all %6.1f ms", round, s.toPlan*1000, s.toCall*1000, s.total*1000)
		}
		all := observe.Distribute(total)
		b.ReportMetric(all.P50*1000, "p50-ms")
		b.ReportMetric(all.P99*1000, "p99-ms")
		b.Logf("last pod created to CreateFleet: %s", millis(all))
		b.Logf("of which last pod to NodeClaim:  %s", millis(observe.Distribute(toPlan)))
		b.Logf("and NodeClaim to CreateFleet:    %s", millis(observe.Distribute(toCall)))
	}
}

// split is one measurement in seconds.
type split struct{ toPlan, toCall, total float64 }

// oneDeployment measures one Deployment and removes it with its nodes.
func (l *lab) oneDeployment(name string) split {
	l.b.Helper()
	d := l.deployment(name, "bench", perCall, podSpec("1", "2Gi"))
	var calls []time.Time
	l.Await("the CreateFleet calls for "+name, func() bool {
		pods := l.pods(name)
		calls = l.calls(pods)
		return len(pods) == perCall && calls != nil
	})
	pods := l.pods(name)
	created := last(pods, func(p observe.Pod) observe.Moment { return p.Created })
	claimed := last(l.claims(pods), func(c observe.Claim) observe.Moment { return c.Created })
	called := calls[len(calls)-1]
	l.remove(d)
	return split{
		toPlan: claimed.Sub(created).Seconds(), toCall: called.Sub(claimed).Seconds(), total: called.Sub(created).Seconds(),
	}
}

// calls are the arrivals of the CreateFleet calls for all the pods, in order; nil while a pod has none.
func (l *lab) calls(pods []observe.Pod) []time.Time {
	promised := 0
	var out []time.Time
	fleet := l.FleetCalls()
	seen := map[string]bool{}
	for _, c := range l.claims(pods) {
		id := c.Object.Annotations[catalog.LaunchAnnotation]
		at, called := fleet[id]
		if !called {
			return nil
		}
		promised += len(observe.PromisedTo(c))
		if !seen[id] {
			seen[id] = true
			out = append(out, at)
		}
	}
	if promised == 0 || promised < len(pods) {
		return nil
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// remove deletes a Deployment and every NodeClaim, and waits until nothing is left of them.
func (l *lab) remove(d client.Object) {
	l.b.Helper()
	ctx := l.b.Context()
	if err := l.API.Delete(ctx, d, client.PropagationPolicy("Background")); err != nil {
		l.b.Fatal(err)
	}
	l.Await("the pods to go", func() bool { return len(l.pods(d.GetName())) == 0 })
	for _, c := range l.Recorder.Claims() {
		if !c.Deleted.Seen() {
			if err := client.IgnoreNotFound(l.API.Delete(ctx, c.Object)); err != nil {
				l.b.Fatal(err)
			}
		}
	}
	l.Await("the nodes to go", func() bool {
		for _, c := range l.Recorder.Claims() {
			if !c.Deleted.Seen() {
				return false
			}
		}
		return true
	})
}

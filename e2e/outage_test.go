package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/webapi"
)

// AWS throttles, then answers nothing but errors: launches wait and say so, the bill has no node that was not launched, and nothing is lost
// or bought twice.
func TestThrottledAWSAlone(t *testing.T) {
	w := newWorld(t, "throttled")
	w.pool("throttled", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	w.await(t, "the NodePool to be Ready", func() bool {
		var pool karpv1.NodePool
		return w.client.Get(t.Context(), keyOf("throttled"), &pool) == nil && pool.StatusConditions().Root().IsTrue()
	})
	const forever = time.Hour // Until what waits says so.
	for i, outage := range []struct {
		fail  func(time.Duration)
		codes []ec2error.Code
	}{
		{shared.AWS().Throttle, []ec2error.Code{ec2error.RequestLimitExceeded}},
		{shared.AWS().Down, []ec2error.Code{"Unavailable", ec2error.NoAnswer}}, // Each second connection is closed.
	} {
		t.Cleanup(func() { outage.fail(0) })
		outage.fail(forever)
		w.deployment(fmt.Sprintf("web-%d", i), 4, w.podSpec("1", "1Gi", nil))
		waiting := w.awaitLaunchPending("throttled", outage.codes)
		text := w.slipway("status")
		if !strings.Contains(text, "Waiting for EC2: "+waiting) || !hasCode(text, outage.codes) ||
			!strings.Contains(text, []string{"0 nodes, ", "1 node, "}[i]) || !strings.Contains(text, "1 more not launched yet") {
			t.Errorf("status while AWS fails:\n%s", text)
		}
		w.logHas("Launch did not succeed", string(outage.codes[0]))
		if got := w.waiting(); got != 1 {
			t.Errorf("slipway_launches_waiting is %v", got)
		}
		outage.fail(0)
		w.awaitRunning(4 * (i + 1))
		w.awaitLaunchEvents(waiting, outage.codes)
		w.await(t, "no launch to wait", func() bool { return w.waiting() == 0 })
	}
	checkOneInstanceEach(t, w, "throttled")
	if n := len(w.everClaimed("throttled")); n > 2 {
		t.Errorf("%d NodeClaims for 8 pods that fit two nodes", n)
	}
}

// hasCode reports whether a text names one of the codes and what gave it.
func hasCode(text string, codes []ec2error.Code) bool {
	return slices.ContainsFunc(codes, func(c ec2error.Code) bool { return strings.Contains(text, string(c)+" from ") })
}

// waiting is the number of NodeClaims whose launch is pending, by the launcher's metric.
func (w *world) waiting() float64 {
	sum := 0.0
	for _, m := range w.launcherMetrics()["slipway_launches_waiting"].GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	return sum
}

// awaitLaunchPending waits until a NodeClaim of the pool says that its launch is pending, with one of the codes, and returns its name.
func (w *world) awaitLaunchPending(pool string, codes []ec2error.Code) string {
	w.t.Helper()
	name := ""
	w.await(w.t, fmt.Sprintf("a NodeClaim that waits for EC2 because of %s", codes), func() bool {
		for _, c := range w.claimsOf(pool) {
			launched := c.Object.StatusConditions().Get(karpv1.ConditionTypeLaunched)
			if launched.IsUnknown() && launched.Reason == ec2error.ReasonLaunchPending && hasCode(launched.Message, codes) {
				name = c.Object.Name
				return true
			}
		}
		return false
	})
	return name
}

// awaitLaunchEvents waits for an Event that a NodeClaim's launch is pending, with one of the codes, and checks that there are few.
func (w *world) awaitLaunchEvents(claim string, codes []ec2error.Code) {
	w.t.Helper()
	var found []corev1.Event
	w.await(w.t, "an Event that the launch of "+claim+" is pending", func() bool {
		var list corev1.EventList
		if err := w.client.List(w.t.Context(), &list, client.MatchingFields{"reason": "LaunchPending", "involvedObject.name": claim}); err != nil {
			return false
		}
		found = list.Items
		return slices.ContainsFunc(found, func(e corev1.Event) bool { return hasCode(e.Message, codes) })
	})
	if len(found) > 5 {
		w.t.Errorf("%d Events that the launch of %s is pending", len(found), claim)
	}
}

// The launcher is gone for a while: pods still go to nodes that have room, and what needs a node is planned when it is back.
func TestLauncherAwayAlone(t *testing.T) {
	w := newWorld(t, "away")
	w.pool("away", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	d := w.deployment("web", 2, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(2)
	for range 3 {
		w.kill("launcher")
	}
	w.scale(d, 4)
	w.awaitRunning(4)
	w.scale(d, 10)
	w.awaitRunning(10)
	checkOneInstanceEach(t, w, "away")
}

// gauge is the value of one of the launcher's metrics without labels.
func (w *world) gauge(name string) float64 {
	for _, m := range w.launcherMetrics()[name].GetMetric() {
		return m.GetGauge().GetValue()
	}
	return -1
}

// SQS and the Price List API refuse the launcher: metrics and log say so, nodes are launched at the built-in prices, and both are used again
// when they answer.
func TestQueueAndPricesDeniedAlone(t *testing.T) {
	w := newWorld(t, "denied")
	w.pool("denied", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	shipped, err := sandbox.LauncherPolicy()
	if err != nil {
		t.Fatal(err)
	}
	lacking, err := policy.Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":["sqs:*","pricing:*"],"Resource":"*"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	restart := func() {
		t.Helper()
		w.kill(sandbox.Launcher)
		awaitReady(t)
	}
	restore := func() { shared.AWS().SetPolicy(sandbox.LauncherAccessKey, &shipped) }
	t.Cleanup(restore)
	shared.AWS().SetPolicy(sandbox.LauncherAccessKey, &lacking)
	restart()
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	w.await(t, "the metrics to say that both are denied", func() bool {
		return w.gauge("slipway_interruption_queue_up") == 0 && w.gauge("slipway_aws_builtin_prices") == 1
	})
	w.logHas("does it exist, and may the launcher read it?")
	restore()
	restart() // Prices are asked for again within minutes, the queue within one.
	w.await(t, "the metrics to say that both answer", func() bool {
		return w.gauge("slipway_interruption_queue_up") == 1 && w.gauge("slipway_aws_builtin_prices") == 0
	})
	checkOneInstanceEach(t, w, "denied")
}

// A zone has no capacity for an hour: nodes are launched in the other zones, and a pod that may run nowhere else says what it waits for.
func TestZoneWithoutCapacity(t *testing.T) {
	t.Parallel()
	const instanceType = "r6a.xlarge" // No other test has it.
	w := newWorld(t, "zone-out")
	w.pool("zone-out", func(p *karpv1.NodePool) {
		onlyTypes(p, instanceType)
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	zone := w.AWSRegion() + "a"
	shared.AWS().ICE(instanceType, zone, "all", time.Hour)
	t.Cleanup(func() { shared.AWS().ICE(instanceType, zone, "all", 0) })
	pinned := w.podSpec("3", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[corev1.LabelTopologyZone] = zone })
	w.deployment("pinned", 1, pinned)
	w.await(t, "the pod of the zone to say what it waits for", func() bool {
		return slices.ContainsFunc(w.pods(), func(p observe.Pod) bool {
			c := conditions.Pod(p.Object, corev1.PodScheduled)
			return c != nil && strings.Contains(c.Message, "EC2 has no capacity") && strings.Contains(c.Message, zone)
		})
	})
	admin := w.admin()
	w.await(t, "the API to show what EC2 refuses", func() bool {
		var faults webapi.Faults
		return w.asked(admin, "", "/api/v1/faults", &faults) == http.StatusOK && slices.ContainsFunc(faults.Offerings, func(f view.Fault) bool {
			return f.Code == ec2error.InsufficientInstanceCapacity && f.Zone == zone && slices.Contains(f.InstanceTypes, instanceType) && f.Until.After(time.Now())
		})
	})
	w.deployment("web", 4, w.podSpec("3", "1Gi", nil))
	w.awaitRunning(4)
	for _, c := range w.everClaimed("zone-out") {
		if got := c.Object.Labels[corev1.LabelTopologyZone]; c.Object.Status.ProviderID != "" && got == zone {
			t.Errorf("NodeClaim %s was launched in %s, which has no capacity", c.Object.Name, zone)
		}
	}
}

package e2e_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/manifests"
)

// interruptionsConfigMap is what the launcher learned.
func (w *world) interruptionsConfigMap() *corev1.ConfigMap {
	w.t.Helper()
	out := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "slipway-interruptions"}
	if err := client.IgnoreNotFound(w.client.Get(w.t.Context(), key, out)); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// seen is what the launcher learned of an instance type in a zone.
func (w *world) seen(instanceType, zone string) interruption.Seen {
	w.t.Helper()
	record, err := interruption.Decode(w.interruptionsConfigMap().Data[interruption.LearnedKey])
	if err != nil {
		w.t.Fatal(err)
	}
	return record.Seen[interruption.Offering{InstanceType: instanceType, Zone: zone}]
}

// remembers writes into the ConfigMap, which the launcher reads when it starts.
func (w *world) remembers(change func(data map[string]string)) {
	w.t.Helper()
	object := w.interruptionsConfigMap()
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	change(object.Data)
	if object.ResourceVersion == "" {
		object.Namespace, object.Name = metav1.NamespaceSystem, "slipway-interruptions"
		w.create(object)
	} else if err := w.client.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// forgets deletes the ConfigMap when the test has ended, before the launcher is restarted.
func (w *world) forgets() {
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "slipway-interruptions"}}
		if err := client.IgnoreNotFound(w.client.Delete(ctx, object)); err != nil {
			w.t.Error(err)
		}
	})
}

// only returns the test's only node that stays, once its four pods run on it.
func (w *world) only(what string, wanted func(c observe.Claim) bool) observe.Claim {
	w.t.Helper()
	var out observe.Claim
	w.await(w.t, what, func() bool {
		claims := slices.DeleteFunc(w.claimsOf(w.name), func(c observe.Claim) bool { return c.Object.DeletionTimestamp != nil })
		if len(claims) != 1 || w.ready() != 4 {
			return false
		}
		out = claims[0]
		return wanted(out)
	})
	return out
}

func zoneOf(c observe.Claim) string         { return c.Object.Labels[corev1.LabelTopologyZone] }
func capacityTypeOf(c observe.Claim) string { return c.Object.Labels[karpv1.CapacityTypeLabelKey] }

// EC2 takes a spot node back, and then the one that came for it: each time the pod goes where EC2 took nothing back, in the end to an on-demand node, which stays
// though spot nodes cost less. What was learned is in the ConfigMap. Ten minutes later, by the ConfigMap, the pod goes back to spot: to the zone with fewer interruptions,
// whose expected cost the NodeClaim shows.
func TestInterruptionsAreLearnedAlone(t *testing.T) {
	const name = "m6a.4xlarge"
	awaitReady(t)
	w := newWorld(t, "learned-spot")
	w.shrinking(func(p *karpv1.NodePool) {
		onlyTypes(p, name)
		require(p, karpv1.CapacityTypeLabelKey, "spot", "on-demand")
		require(p, corev1.LabelTopologyZone, "us-east-1a", "us-east-1b")
	})
	w.budget()
	w.deployment("web", 4, w.podSpec("300m", "512Mi", nil))
	spot := func(c observe.Claim) bool { return capacityTypeOf(c) == karpv1.CapacityTypeSpot }
	first := w.only("a spot node", spot)
	w.interrupt(first)
	second := w.only("a spot node in the other zone", func(c observe.Claim) bool { return spot(c) && zoneOf(c) != zoneOf(first) })
	w.interrupt(second)
	third := w.only("an on-demand node", func(c observe.Claim) bool { return !spot(c) })
	w.await(t, "both interruptions to be recorded", func() bool {
		a, b := w.seen(name, zoneOf(first)), w.seen(name, zoneOf(second))
		return a.Interruptions > 0.9 && b.Interruptions > 0.9 && a.Lasted > 0 && b.Lasted > 0
	})
	w.kill(sandbox.Launcher) // The next one reads what was learned. Events about the node while its neighbour terminates would hide others for a while.
	w.await(t, "the on-demand node to be told how long it stays", func() bool {
		return slices.ContainsFunc(w.toldOf("Unconsolidatable"), func(m string) bool { return strings.Contains(m, "they are planned again from ") })
	})

	rough, quiet := zoneOf(first), zoneOf(second)
	w.remembers(func(data map[string]string) {
		record, err := interruption.Decode(data[interruption.LearnedKey])
		if err != nil {
			t.Fatal(err)
		}
		for o, s := range record.Seen {
			s.Last = s.Last.Add(-interruption.SettleAfter)
			if o == (interruption.Offering{InstanceType: name, Zone: rough}) {
				s.Interruptions = 500
			}
			record.Seen[o] = s
		}
		if data[interruption.LearnedKey], err = record.Encode(); err != nil {
			t.Fatal(err)
		}
	})
	w.restartWith(launcherSettings(featureGates))
	w.kill(sandbox.Scheduler) // For ten minutes it remembers a launch that was refused, should it have planned one before it knew of the interruption.
	w.forgets()
	last := w.only("a spot node in the quieter zone", func(c observe.Claim) bool { return spot(c) && c.Object.UID != third.Object.UID })
	cost, ok := catalog.ParseCost(last.Object.Annotations[catalog.CostAnnotation])
	// One interruption in 100 hours, 0.005 USD for each of 4 pods.
	if zoneOf(last) != quiet || !ok || cost.Interruptions < 0.00015 || cost.Interruptions > 0.00025 {
		t.Errorf("the spot node is in %s and costs %+v, want it in %s with about 0.0002 USD per hour for interruptions", zoneOf(last), cost, quiet)
	}
}

// interrupt has EC2 take the node of a claim back.
func (w *world) interrupt(c observe.Claim) {
	w.t.Helper()
	if err := shared.AWS().Interrupt(instanceID(c)); err != nil {
		w.t.Fatal(err)
	}
	w.await(w.t, "the interrupted node to be gone", func() bool { return claimGone(w.cluster, c) })
}

// EC2 is asked for placement scores with the right of the shipped policy: a zone with a low score is not used any more, and the ConfigMap has the scores.
// Without the right, nodes are bought all the same.
func TestPlacementScoresAlone(t *testing.T) {
	awaitReady(t)
	w := newWorld(t, "scores")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6a.4xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "spot")
	})
	settings := append(launcherSettings(featureGates), "spotPlacementScores: true\n"...)
	// With so high a prior, each point of the score outweighs what zones differ by.
	w.remembers(func(data map[string]string) { data[interruption.PriorsKey] = "m6a.4xlarge: 90%" })
	w.restartWith(settings)
	w.deployment("first", 1, w.podSpec("12", "1Gi", nil))
	w.awaitRunning(1)
	cheapest := zoneOf(w.claimsOf(w.name)[0])
	w.logHas("EC2 gives no spot placement scores")

	shared.AWS().Scores.Set("m6a", cheapest, 1)
	defer shared.AWS().Scores.Set("m6a", cheapest, 0)
	w.allow(manifests.PlacementScoresPolicy)
	w.restartWith(settings)
	w.forgets()
	w.await(t, "the ConfigMap to have the scores", func() bool {
		known, _ := interruption.Read(w.interruptionsConfigMap().Data)
		return known.Priors.Scores["m6a"].Zones[cheapest] == 1
	})
	// The scheduler has the offerings with the scores a moment later.
	elsewhere := func() int {
		return len(slices.DeleteFunc(w.claimsOf(w.name), func(c observe.Claim) bool { return zoneOf(c) == cheapest }))
	}
	d, pods := w.deployment("second", 1, w.podSpec("12", "1Gi", nil)), 1
	for w.awaitRunning(1 + pods); elsewhere() == 0 && pods < 10; w.awaitRunning(1 + pods) {
		pods++
		w.scale(d, pods)
	}
	before := elsewhere()
	w.scale(d, pods+2)
	w.awaitRunning(3 + pods)
	if before == 0 || elsewhere() != before+2 {
		t.Errorf("%d, then %d of %d NodeClaims are outside of %s, which has the lowest score", before, elsewhere(), 3+pods, cheapest)
	}
	asked := slices.DeleteFunc(shared.AWS().Calls(), func(c aws.Call) bool { return c.Action != "GetSpotPlacementScores" })
	if len(asked) > 20 {
		t.Errorf("EC2 was asked %d times for placement scores", len(asked))
	}
}

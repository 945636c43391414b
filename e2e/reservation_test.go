package e2e_test

import (
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/block"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// reserve reserves capacity for nodes of a class and a NodePool of the given name, which also launches on demand, and returns its ID.
func (w *world) reserve(name string, r aws.CapacityReservation) string {
	w.t.Helper()
	r.InstanceType, r.Zone, r.Tags = "m6i.large", "us-east-1b", map[string]string{"team": name}
	id := shared.AWS().AddCapacityReservation(r)
	w.t.Cleanup(func() { shared.AWS().CancelCapacityReservation(id) })
	w.classOf(name, func(s *awsv1.EC2NodeClassSpec) {
		s.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: r.Tags}}
	})
	w.pool(name, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = name
		onlyTypes(p, r.InstanceType)
		require(p, karpv1.CapacityTypeLabelKey, "reserved", "on-demand")
	})
	return id
}

// wantReserved checks that a claim, its node and its instance are in the reservation, with the labels of its kind.
func (w *world) wantReserved(c observe.Claim, id, kind, interruptible string) {
	w.t.Helper()
	node := w.node(c.Object.Status.NodeName).Object
	for key, want := range map[string]string{
		karpv1.CapacityTypeLabelKey: "reserved", catalog.LabelReservationID: id, catalog.LabelReservationType: kind,
		catalog.LabelReservationInterruptible: interruptible,
	} {
		if c.Object.Labels[key] != want || node.Labels[key] != want {
			w.t.Errorf("NodeClaim %s: %s is %q, on its node %q, want %q", c.Object.Name, key, c.Object.Labels[key], node.Labels[key], want)
		}
	}
	for _, i := range instancesOf(w.t, c.Object.Labels[karpv1.NodePoolLabelKey]) {
		if awssdk.ToString(i.InstanceId) == instanceID(c) && awssdk.ToString(i.CapacityReservationId) != id {
			w.t.Errorf("instance %s is in reservation %q, want %s", instanceID(c), awssdk.ToString(i.CapacityReservationId), id)
		}
	}
}

// replaced checks that the pod of an ended node runs on an on-demand node that was launched before the pod was evicted.
func (w *world) replaced(old observe.Claim, reason, event string) {
	w.t.Helper()
	if got := w.reasonOf(old); got != reason {
		w.t.Errorf("NodeClaim %s was ended for %q, want %q", old.Object.Name, got, reason)
	}
	if got := w.eventsAbout(old.Object.Name, event); len(got) == 0 {
		w.t.Errorf("NodeClaim %s has no Event %s", old.Object.Name, event)
	}
	if w.evictedForLackOfTime(old) {
		return
	}
	// One that was refused does not count: its plan may be older than the news that the owner takes instances back.
	made := slices.DeleteFunc(w.replacements(w.name, old.Object.Status.NodeName), func(c observe.Claim) bool { return !c.Launched.Seen() })
	if len(made) != 1 || made[0].Object.Labels[karpv1.CapacityTypeLabelKey] != "on-demand" {
		w.t.Errorf("%d NodeClaims were launched for the pod of node %s, want one on demand", len(made), old.Object.Status.NodeName)
		for _, c := range made {
			w.t.Logf("%s: %v, launched at %s", c.Object.Name, c.Object.Labels, c.Launched.At)
		}
		return
	}
	evicted, _ := w.podsOn(old.Object.Status.NodeName, made)
	if evicted.Object == nil || !made[0].Launched.Before(evicted.Terminating) {
		w.t.Errorf("NodeClaim %s was not launched before the pod was evicted", made[0].Object.Name)
	}
}

// Nodes are launched into a capacity reservation as long as it has instances, the next ones on demand.
func TestCapacityReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "reservation")
	id := w.reserve("reservation", aws.CapacityReservation{Total: 2})
	w.deployment("web", 3, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(3)
	var kinds []string
	for _, c := range w.claimsOf("reservation") {
		kinds = append(kinds, c.Object.Labels[karpv1.CapacityTypeLabelKey])
		if c.Object.Labels[karpv1.CapacityTypeLabelKey] == "reserved" {
			w.wantReserved(c, id, "default", "false")
		} else if _, has := c.Object.Labels[catalog.LabelReservationType]; has {
			t.Errorf("NodeClaim %s is on demand: %v", c.Object.Name, c.Object.Labels)
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, []string{"on-demand", "reserved", "reserved"}) {
		t.Errorf("launched as %v", kinds)
	}
}

// The owner of an interruptible reservation takes an instance back: its node is cordoned, a node is launched elsewhere, and then the pod is
// evicted. A pod that must not be interrupted is not launched there.
func TestInterruptibleReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lent")
	id := w.reserve("lent", aws.CapacityReservation{Total: 2, Interruptible: true})
	w.deployment("steady", 1, w.podSpec("1500m", "1Gi", func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: catalog.LabelReservationInterruptible, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"true"}},
			}}},
		}}}
	}))
	w.awaitRunning(1)
	if c := w.claimsOf("lent"); len(c) != 1 || c[0].Object.Labels[karpv1.CapacityTypeLabelKey] != "on-demand" {
		t.Errorf("a pod that must not be interrupted has %+v", c)
	}
	w.deployment("web", 1, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(2)
	claims := w.claimsOf("lent")
	at := slices.IndexFunc(claims, func(c observe.Claim) bool { return c.Object.Labels[karpv1.CapacityTypeLabelKey] == "reserved" })
	if at < 0 {
		t.Fatalf("no node of %d is in the reservation", len(claims))
	}
	old := claims[at]
	w.wantReserved(old, id, "default", "true")
	if err := shared.AWS().Interrupt(instanceID(old)); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the node to be gone and its pod to run elsewhere", func() bool { return claimGone(w.cluster, old) && w.running() == 2 })
	w.replaced(old, string(cloud.CapacityReservation), "CapacityReservationInstanceInterrupted")
}

// The node of a Capacity Block drains 40 minutes before the block's end, after a node was launched for its pod; nothing is launched into the
// block then, although it has a free instance.
func TestCapacityBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "block")
	drains := time.Now().Add(2 * time.Minute).Truncate(time.Second)
	id := w.reserve("block", aws.CapacityReservation{Total: 2, Type: "capacity-block", Ends: drains.Add(catalog.BlockDrains)})
	w.deployment("web", 1, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(1)
	old := w.claimsOf("block")[0]
	w.wantReserved(old, id, "capacity-block", "false")
	w.await(t, "the node to be gone and its pod to run elsewhere", func() bool { return claimGone(w.cluster, old) && w.running() == 1 })
	w.replaced(old, block.Reason, "CapacityBlockExpiring")
	for _, c := range w.everClaimed("block") {
		if c.Object.Name == old.Object.Name && c.Terminating.At.Before(drains) {
			t.Errorf("NodeClaim %s was ended at %s, before the drain of %s", c.Object.Name, c.Terminating.At, drains)
		}
	}
}

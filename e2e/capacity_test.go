package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// soldOutTypes are types that no other test has, all cheaper than those of the NodePool that are not among them.
func soldOutTypes() []string {
	return []string{
		"c5.large", "c5.xlarge", "c5.2xlarge", "c5.4xlarge", "c5.9xlarge", "c6a.large", "c6a.xlarge", "c6a.2xlarge", "c6a.4xlarge",
		"c6i.xlarge", "c6i.2xlarge", "c6i.4xlarge",
	}
}

// shortage is a NodePool most of whose types have no capacity, a namespace whose pods name these, and another one.
type shortage struct {
	*world
	other   *world
	soldOut []string
}

// ofSoldOut lists the NodeClaims that there ever were of types without capacity.
func (s *shortage) ofSoldOut() []observe.Claim {
	return slices.DeleteFunc(s.everClaimed("sold-out"), func(c observe.Claim) bool {
		return !slices.Contains(s.soldOut, c.Expected.InstanceType)
	})
}

// retried says that each type has been tried again, and in vain, by NodeClaims that are not among the first: they are gone, or EC2 gave those of
// the other namespace's pods an instance of another type.
func (s *shortage) retried(first int) bool {
	again := map[string]bool{}
	for _, c := range s.ofSoldOut()[first:] {
		if launched := c.Object.Labels[corev1.LabelInstanceTypeStable]; c.Deleted.Seen() || launched != "" && launched != c.Expected.InstanceType {
			again[c.Expected.InstanceType] = true
		}
	}
	return len(again) == len(s.soldOut)
}

// toldToWait counts the pods of the types without capacity that say what they wait for.
func (s *shortage) toldToWait() int {
	n := 0
	for _, p := range s.pods() {
		for _, c := range p.Object.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "EC2 has no capacity") && strings.Contains(c.Message, "tried again at") {
				n++
			}
		}
	}
	return n
}

// Pods that name sold-out types wait alone. Pods of another namespace run on nodes of their own at once, before any of the sold-out
// types is tried again; they are promised no node that may never come, not even while those are tried again; and nothing is said
// against the NodePool. When the capacity returns, the others run too.
func TestSoldOutTypesHoldUpNoOtherPodsAlone(t *testing.T) {
	s := &shortage{world: newWorld(t, "sold-out"), soldOut: soldOutTypes()}
	s.pool("sold-out", func(p *karpv1.NodePool) {
		onlyTypes(p, append(soldOutTypes(), "m5.xlarge", "m5.2xlarge")...)
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	s.other = newTenant(t, "sold-out-other")
	stock := func(without time.Duration) {
		for _, instanceType := range s.soldOut {
			shared.AWS().ICE(instanceType, "all", "all", without)
		}
	}
	stock(time.Hour)
	t.Cleanup(func() { stock(0) })
	for i, instanceType := range s.soldOut {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sold-out", Name: fmt.Sprintf("named-%d", i)}}
		pod.Spec = s.podSpec("500m", "500Mi", func(spec *corev1.PodSpec) { spec.NodeSelector[corev1.LabelInstanceTypeStable] = instanceType })
		s.create(pod)
	}
	s.await(t, "the pods that name sold-out types to say so", func() bool { return s.toldToWait() == len(s.soldOut) })
	first := len(s.ofSoldOut())
	if first < len(s.soldOut) {
		t.Errorf("%d NodeClaims of sold-out types, want one of each at least", first)
	}

	begin := time.Now()
	web := s.other.deployment("web", 20, s.podSpec("1500m", "500Mi", nil))
	s.other.awaitRunning(20)
	shared.measured(t, "%d sold-out types; 20 pods of another namespace ran after %.1f s", len(s.soldOut), time.Since(begin).Seconds())
	if n := len(s.ofSoldOut()); n != first {
		t.Errorf("%d NodeClaims of sold-out types came before the pods of others ran", n-first)
	}

	// A launcher that has just started does not know what is sold out: all types are tried again while other pods come.
	s.kill(sandbox.Launcher)
	for n, begin := 21, time.Now(); !s.retried(first) && time.Since(begin) < mostPatience; n++ {
		s.other.scale(web, n)
		s.other.awaitRunning(n)
	}
	if !s.retried(first) {
		t.Error("not all of the sold-out types were tried again")
	}
	s.promisedNoOther()

	stock(0)
	s.kill(sandbox.Launcher)
	s.awaitRunning(len(s.soldOut))
	s.promisedNoOther()
	for _, e := range append(s.events("FailedScheduling"), s.other.events("FailedScheduling")...) {
		if strings.Contains(e.Message, "launches in a row failed") {
			t.Errorf("pod %s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
}

// soldOutClaims says when there was which NodeClaim of a type without capacity.
func (s *shortage) soldOutClaims() string {
	var b strings.Builder
	for _, c := range s.ofSoldOut() {
		fmt.Fprintf(&b, "%s, a %s in %s, created %s, deleted %s\n", c.Object.Name, c.Expected.InstanceType, c.Expected.Zone, c.Created.At, c.Deleted.At)
	}
	return b.String()
}

// promisedNoOther holds that no pod of the other namespace was ever promised a NodeClaim of a sold-out type.
func (s *shortage) promisedNoOther() {
	s.t.Helper()
	for _, c := range s.ofSoldOut() {
		for _, uid := range observe.PromisedTo(c) {
			if pod := s.other.history(types.UID(uid)).Object; pod.Namespace == s.other.name {
				s.t.Errorf("NodeClaim %s, expected %+v, was promised to %s, created %s; the NodeClaims of sold-out types were\n%s",
					c.Object.Name, c.Expected, pod.Name, s.other.history(types.UID(uid)).Created.At, s.soldOutClaims())
			}
		}
	}
}

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// The two releases of the sandbox's AMIs.
const (
	olderImages = "al2023@v20260605"
	newerImages = "al2023@v20260709"
)

// ownClass creates an EC2NodeClass of the test's own, with the AMIs of an alias.
func (w *world) ownClass(alias string) *awsv1.EC2NodeClass {
	w.t.Helper()
	shared := &awsv1.EC2NodeClass{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "default"}, shared); err != nil {
		w.t.Fatal(err)
	}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: shared.Spec}
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias}}
	w.create(class)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, class)); err != nil {
			w.t.Errorf("deleting EC2NodeClass %s: %v", class.Name, err)
		}
	})
	return class
}

// apart keeps the pods of a Deployment on nodes of their own.
func apart(app string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			}},
		}}
	}
}

// ready counts the test's pods that are Ready and stay.
func (w *world) ready() int {
	n := 0
	for _, p := range w.pods() {
		if p.Deleted.Seen() || p.Terminating.Seen() {
			continue
		}
		for _, c := range p.Object.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

// disrupted counts the initialized nodes of a pool that are cordoned or being deleted, as budgets count them. The Nodes are read
// before the NodeClaims: a node that has made room for the next one shows as gone when that one shows as cordoned.
func (w *world) disrupted(pool string) int {
	w.t.Helper()
	nodes, claims := &corev1.NodeList{}, &karpv1.NodeClaimList{}
	of := client.MatchingLabels{karpv1.NodePoolLabelKey: pool}
	if err := errors.Join(w.client.List(w.t.Context(), nodes, of), w.client.List(w.t.Context(), claims, of)); err != nil {
		w.t.Fatal(err)
	}
	cordoned := map[string]bool{}
	for _, n := range nodes.Items {
		for _, taint := range n.Spec.Taints {
			cordoned[n.Name] = cordoned[n.Name] || taint.Key == karpv1.DisruptedTaintKey
		}
	}
	out := 0
	for i := range claims.Items {
		c := &claims.Items[i]
		set := c.StatusConditions()
		counts := set.Get(karpv1.ConditionTypeInitialized).IsTrue() && !set.Get(karpv1.ConditionTypeInstanceTerminating).IsTrue()
		if counts && (cordoned[c.Status.NodeName] || c.DeletionTimestamp != nil) {
			out++
		}
	}
	return out
}

// reasonOf is why a NodeClaim was ended.
func (w *world) reasonOf(claim observe.Claim) string {
	for _, c := range w.recorder.Claims() {
		if c.Object.UID == claim.Object.UID {
			if why := c.Object.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); why.IsTrue() {
				return why.Reason
			}
		}
	}
	return ""
}

// releaseImages has the class's nodes drift.
func (w *world) releaseImages(class *awsv1.EC2NodeClass) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"amiSelectorTerms":[{"alias":%q}]}}`, newerImages)
	if err := w.client.Patch(w.t.Context(), class, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		w.t.Fatal(err)
	}
}

// namesOf returns the names of NodeClaims.
func namesOf(claims []observe.Claim) map[string]bool {
	out := map[string]bool{}
	for _, c := range claims {
		out[c.Object.Name] = true
	}
	return out
}

// anyOf reports whether any of the NodeClaims has one of the names.
func anyOf(claims []observe.Claim, names map[string]bool) bool {
	return slices.ContainsFunc(claims, func(c observe.Claim) bool { return names[c.Object.Name] })
}

// New AMIs: the fleet is replaced in parallel, never more nodes at a time than the budget allows, while the Deployment keeps the
// availability that its PodDisruptionBudget asks for.
func TestDriftedImageRollsWithinItsBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "drift")
	class := w.ownClass(olderImages)
	w.pool("drift", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "2", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}
	})
	const n = 4
	w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{IntVal: 2}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
	w.deployment("web", n, w.podSpec("300m", "512Mi", apart("web")))
	w.awaitRunning(n)
	w.await(t, "all pods to be ready", func() bool { return w.ready() == n })
	old := namesOf(w.claimsOf("drift"))
	w.releaseImages(class)
	most := 0
	w.await(t, "every node to be one with the new AMI", func() bool {
		most = max(most, w.disrupted("drift"))
		claims := w.claimsOf("drift")
		return !anyOf(claims, old) && len(claims) == n && w.ready() == n
	})
	if fewest := observe.FewestReady(w.web(), n); fewest < n-2 {
		t.Errorf("%d pods were Ready at the worst moment, the PodDisruptionBudget lets two be away", fewest)
	}
	if most < 1 || most > 2 {
		t.Errorf("at most %d nodes were disrupted at one time, the budget allows 2", most)
	}
	for _, c := range w.everClaimed("drift") {
		if old[c.Object.Name] && w.reasonOf(c) != "drifted" {
			t.Errorf("NodeClaim %s was ended for %q", c.Object.Name, w.reasonOf(c))
		}
	}
}

// All nodes of a NodePool that is at its limits drift: each is replaced, and once they have terminated the NodePool is within its limits.
func TestDriftAtTheLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "drift-limits")
	class := w.ownClass(olderImages)
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("4"), "nodes": resource.MustParse("2")}
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	})
	const n = 2
	w.deployment("web", n, w.podSpec("300m", "512Mi", apart("web")))
	w.awaitRunning(n)
	w.await(t, "all pods to be ready", func() bool { return w.ready() == n })
	old := namesOf(w.claimsOf(w.name))
	w.releaseImages(class)
	w.await(t, "every node to be one with the new AMI", func() bool {
		claims := w.claimsOf(w.name)
		return !anyOf(claims, old) && len(claims) == n && w.ready() == n
	})
	if ever := len(w.everClaimed(w.name)); ever != 2*n {
		t.Errorf("%d nodes were launched, want %d", ever, 2*n)
	}
}

// All nodes drift at once, each has two pods of one Deployment, and no PodDisruptionBudget says anything: the pods leave one at a time, each when the one before
// it is Ready again.
func TestDriftLeavesADeploymentServing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "drift-serving")
	class := w.ownClass(olderImages)
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}
	})
	const n = 6
	w.deployment("web", n, w.podSpec("800m", "512Mi", nil))
	w.awaitRunning(n)
	w.await(t, "all pods to be ready", func() bool { return w.ready() == n })
	old := namesOf(w.claimsOf(w.name))
	w.releaseImages(class)
	most := 0
	w.await(t, "every node to be one with the new AMI", func() bool {
		most = max(most, w.disrupted(w.name))
		return !anyOf(w.claimsOf(w.name), old) && w.ready() == n
	})
	if most < 2 {
		t.Errorf("at most %d of %d nodes were disrupted at one time: nothing is shown", most, len(old))
	}
	if fewest := observe.FewestReady(w.web(), n); fewest < n-1 {
		t.Errorf("%d of %d pods were Ready at the worst moment, one may be away", fewest, n)
	}
	const waits = "pods of ReplicaSet drift-serving/web"
	if !slices.ContainsFunc(w.toldOf("DisruptionWaitingReadiness"), func(m string) bool { return strings.Contains(m, waits) }) {
		t.Errorf("no Event says that %s wait", waits)
	}
}

package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// smallSpot are nodes that take one pod of 1500m and no second.
func smallSpot(p *karpv1.NodePool) {
	require(p, karpv1.CapacityTypeLabelKey, "spot")
	require(p, awsv1.LabelInstanceCPU, "2")
}

// spotWarning is the event that EventBridge puts into the queue.
func spotWarning(instanceID string) string {
	return fmt.Sprintf(`{"version":"0","id":"1e5527d7-bb36-4607-3370-4164db56a40e","detail-type":"EC2 Spot Instance Interruption Warning",
"source":"aws.ec2","account":"123456789012","time":%q,"region":"us-east-1","resources":["arn:aws:ec2:us-east-1b:instance/%s"],
"detail":{"instance-id":%q,"instance-action":"terminate"}}`, time.Now().UTC().Format(time.RFC3339), instanceID, instanceID)
}

// replacements are the claims of the pool that were launched for the pods of a node.
func (w *world) replacements(pool, node string) []observe.Claim {
	var out []observe.Claim
	for _, c := range w.everClaimed(pool) {
		if c.Object.Annotations[catalog.ReplacesAnnotation] == node {
			out = append(out, c)
		}
	}
	return out
}

// Two spot nodes are interrupted at the same time: each is cordoned, a node is launched for each one's pod, and only when it takes pods is the
// pod evicted, within its budget; the new pod runs on the node that was launched for it.
func TestReplacementComesBeforeEviction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ahead")
	w.pool("ahead", smallSpot)
	w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "quorum"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{IntVal: 2}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
	w.deployment("web", 3, w.podSpec("1500m", "1Gi", nil))
	w.await(t, "all pods to be ready", func() bool { return w.ready() == 3 })
	// A machine too busy for the scheduler's five seconds ("unanswered"), EC2's ten ("launching"), or the node's minute and a half ("launched"),
	// shows nothing.
	const attempts = 4
	for attempt := 1; ; attempt++ {
		victims := w.interruptTwo()
		if attempt < attempts && slices.ContainsFunc(victims, func(v observe.Claim) bool {
			outcome, _ := w.evictedAfter(v)
			return outcome == "launched" || w.evictedForLackOfTime(v)
		}) {
			continue
		}
		for _, v := range victims {
			w.checkReplaced(v)
		}
		return
	}
}

// interruptTwo announces the end of two nodes and waits until the pods run elsewhere.
func (w *world) interruptTwo() []observe.Claim {
	w.t.Helper()
	victims := w.claimsOf("ahead")[:2]
	for _, v := range victims {
		// The warning alone: how long a busy machine takes for what follows is another question.
		if err := shared.AWS().SendRaw(spotWarning(instanceID(v))); err != nil {
			w.t.Fatal(err)
		}
	}
	w.await(w.t, "the interrupted nodes to be gone and all pods to run elsewhere", func() bool {
		return w.ready() == 3 && claimGone(w.cluster, victims[0]) && claimGone(w.cluster, victims[1])
	})
	return victims
}

// evictedForLackOfTime reports whether the pods of a node were evicted before scheduler or EC2 had answered.
func (w *world) evictedForLackOfTime(victim observe.Claim) bool {
	outcome, line := w.evictedAfter(victim)
	if outcome != "unanswered" && outcome != "launching" {
		return false
	}
	w.t.Logf("node %s: the machine is too busy to tell: %s", victim.Object.Status.NodeName, line)
	return true
}

// checkReplaced checks the order of what happened to an interrupted node, by the API server's own count.
func (w *world) checkReplaced(victim observe.Claim) {
	t, name := w.t, victim.Object.Status.NodeName
	made := w.replacements("ahead", name)
	var node observe.Node
	for _, n := range w.recorder.Nodes() {
		if n.Object.Name == name {
			node = n
		}
	}
	old, next := w.podsOn(name, made)
	held := old.Terminating.At.Sub(node.Cordoned.At).Round(time.Millisecond)
	if !node.Cordoned.Before(old.Terminating) {
		t.Errorf("node %s: its pod was evicted before the node was cordoned", name)
	}
	if outcome, line := w.evictedAfter(victim); outcome != "ready" {
		t.Errorf("node %s: its pod was evicted after %q, want \"ready\": %s", name, outcome, line)
		return
	}
	if len(made) != 1 || !node.Cordoned.Before(made[0].Created) || !made[0].Initialized.Before(old.Terminating) {
		t.Errorf("node %s: %d NodeClaims were launched for its pod; cordon, their recording, their initialization, and the eviction %s after the cordon did not come in this order",
			name, len(made), held)
		return
	}
	if old.Object == nil || next.Object == nil {
		t.Errorf("node %s had a pod: %t; node %s, launched for it, has one: %t", name, old.Object != nil, made[0].Object.Status.NodeName, next.Object != nil)
		return
	}
	if old.Failed.Seen() {
		t.Errorf("pod %s died with its node instead of being evicted", old.Object.Name)
	}
	t.Logf("node %s: %s from the warning to the eviction, %s from the eviction to the new pod's running; the machines' delays are divided by %d",
		name, held, next.Running.At.Sub(old.Terminating.At).Round(time.Millisecond), speed)
}

// podsOn are the pod of a node and that of the node of the first claim that was made for it.
func (w *world) podsOn(name string, made []observe.Claim) (old, next observe.Pod) {
	for _, p := range w.pods() {
		switch {
		case p.Object.Spec.NodeName == name:
			old = p
		case len(made) > 0 && p.Object.Spec.NodeName == made[0].Object.Status.NodeName:
			next = p
		}
	}
	return old, next
}

// evictedAfter is how the launcher says that the wait for room ended before it evicted the claim's pods, and the line in its log.
func (w *world) evictedAfter(claim observe.Claim) (outcome, line string) {
	text, err := os.ReadFile(w.LogFile(sandbox.Launcher))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `"Pods may be evicted"`) || !strings.Contains(line, ` nodeClaim="`+claim.Object.Name+`"`) {
			continue
		}
		_, after, _ := strings.Cut(line, ` replacement="`)
		outcome, _, _ = strings.Cut(after, `"`)
		return outcome, strings.TrimSpace(line)
	}
	return "", "the launcher's log does not tell"
}

// EC2 takes an instance back that is still booting: what was promised to it runs elsewhere.
func TestInterruptedWhileItBoots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "booting")
	boot := w.hold("booting")
	w.pool("booting", smallSpot)
	w.deployment("web", 1, w.podSpec("1500m", "1Gi", nil))
	var victim observe.Claim
	w.await(t, "an instance that boots", func() bool {
		claims := w.claimsOf("booting")
		if len(claims) == 0 || claims[0].Object.Status.ProviderID == "" {
			return false
		}
		victim = claims[0]
		return true
	})
	if err := shared.AWS().Interrupt(instanceID(victim)); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the launcher to know", func() bool { return len(w.leaving("booting")) > 0 })
	boot()
	w.await(t, "the pod to run elsewhere", func() bool { return w.running() == 1 && claimGone(w.cluster, victim) })
	for _, p := range w.pods() {
		if p.Object.Status.Phase == corev1.PodRunning && p.Object.Spec.NodeName == victim.Object.Status.NodeName {
			t.Errorf("pod %s runs on the instance that was taken", p.Object.Name)
		}
	}
}

// protected has pods say that they are not to be disrupted.
func protected(d *appsv1.Deployment) {
	d.Spec.Template.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
}

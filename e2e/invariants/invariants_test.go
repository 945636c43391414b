package invariants_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/tap"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func seen() observe.Moment { return observe.Moment{At: time.Unix(1, 0), Revision: 1} }

// good is a cluster of one running pod on one node; nothing is wrong with it.
func good() *invariants.Evidence {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{catalog.LaunchAnnotation: "l"}}}
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///a/i-1", "n"
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodePoolLabelKey: "p"}}}
	instance := aws.Instance{ID: "i-1", State: aws.StateRunning, PrivateDNSName: "n", Tags: map[string]string{
		karpv1.NodePoolLabelKey: "p", catalog.LaunchAnnotation: "l",
	}}
	return &invariants.Evidence{
		Pods:      []observe.Pod{pod("web-1", "u-1")},
		Nodes:     []observe.Node{{Object: node, Created: seen(), Ready: seen()}},
		Claims:    []observe.Claim{{Object: claim, Created: seen(), Launched: seen()}},
		Instances: []aws.Instance{instance},
		Effects: []tap.Effect{
			{Number: 1, Process: "scheduler", Name: "update leases", Holder: "a", Status: 200, Arrived: at(1), Answered: at(2)},
			{Number: 2, Process: "launcher", Name: "create nodes", Object: "n", Status: 201, Arrived: at(3), Answered: at(4)},
		},
		Logs: map[string]string{"launcher": "launched nodeclaim"}, Secrets: []string{"hush"},
	}
}

func at(second int64) time.Time { return time.Unix(second, 0) }

func pod(name string, uid types.UID) observe.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: uid, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs"}},
	}}
	p.Spec.NodeName, p.Status.Phase = "n", corev1.PodRunning
	return observe.Pod{Object: p, Created: seen(), Bound: seen(), Running: seen()}
}

func effect(name, process string) tap.Effect {
	const second = 5
	return tap.Effect{Number: 9, Process: process, Name: name, Object: "ns/web-1", Status: 201, Arrived: at(second), Answered: at(second)}
}

func refused(name string, uid types.UID) observe.Pod {
	p := pod(name, uid)
	p.Object.Status.Phase, p.Object.Status.Reason = corev1.PodFailed, "OutOfcpu"
	p.Deleted = seen()
	return p
}

// A pod that never ran leaves a node that never came, whatever it says; not one whose kubelet was there, nor one that stays, and not
// once it ran.
func TestGivenBack(t *testing.T) {
	for _, c := range []struct {
		name                   string
		ran, joined, then, out bool
	}{
		{name: "the kubelet never came", out: true},
		{name: "the kubelet came while its node was leaving", then: true, out: true},
		{name: "the kubelet was there", joined: true},
		{name: "it ran", ran: true},
	} {
		e := good()
		e.Pods[0].Object.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		e.Claims[0].Terminating = observe.Moment{At: at(2), Revision: 2}
		switch {
		case c.joined:
			e.Nodes[0].Joined = seen()
		case c.then:
			e.Nodes[0].Joined = observe.Moment{At: at(3), Revision: 3}
		}
		if !c.ran {
			e.Pods[0].Running = observe.Moment{}
		}
		e.Effects = append(e.Effects, effect("create pods/eviction", "launcher"))
		if broken := invariants.Always(*e); (len(broken) == 0) != c.out {
			t.Errorf("%s: %q", c.name, broken)
		}
		e.Claims[0].Terminating = observe.Moment{}
		if broken := invariants.Always(*e); len(broken) == 0 {
			t.Errorf("%s: a pod of a node that stays is evicted, and nothing says so", c.name)
		}
	}
}

// Each rule finds what contradicts it, and a good cluster contradicts none.
func TestRules(t *testing.T) {
	if broken := invariants.Settled(*good()); len(broken) > 0 {
		t.Fatalf("the good cluster: %q", broken)
	}
	second := func(e *invariants.Evidence) *karpv1.NodeClaim {
		other := e.Claims[0].Object.DeepCopy()
		other.Name, other.Status.ProviderID, other.Status.NodeName = "d", "aws:///a/i-2", "m"
		e.Claims = append(e.Claims, observe.Claim{Object: other, Created: seen(), Launched: seen()})
		e.Instances = append(e.Instances, aws.Instance{ID: "i-2", State: aws.StateRunning})
		return other
	}
	for _, c := range []struct {
		want string
		when func(*invariants.Evidence)
	}{
		{"2 instances for 1", func(e *invariants.Evidence) { e.Instances = append(e.Instances, e.Instances[0]) }},
		{"belongs to NodeClaims c and d", func(e *invariants.Evidence) { second(e).Status.ProviderID = "aws:///a/i-1" }},
		{"pod u-1 is promised to", func(e *invariants.Evidence) {
			second(e).Annotations[catalog.PodsAnnotation] = `[{"uids":["u-1"]}]`
			e.Claims[0].Object.Annotations[catalog.PodsAnnotation] = `[{"uids":["u-1"]}]`
		}},
		{"pod u-2 is promised to", func(e *invariants.Evidence) { // Neither an initialized node nor one that is not launched is left out.
			second(e).Annotations[catalog.PodsAnnotation] = `[{"uids":["u-2"]}]`
			e.Claims[0].Object.Annotations[catalog.PodsAnnotation] = `[{"uids":["u-1","u-2"]}]`
			e.Claims[0].Initialized, e.Claims[1].Launched = seen(), observe.Moment{}
		}},
		{"was rejected after", func(e *invariants.Evidence) {
			e.Pods = append(e.Pods, refused("web-2", "u-2"), refused("web-3", "u-3"))
		}},
		{"do-not-disrupt", func(e *invariants.Evidence) {
			e.Pods[0].Object.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			e.Effects = append(e.Effects, effect("create pods/eviction", "launcher"))
		}},
		{"because it was empty", func(e *invariants.Evidence) {
			e.Claims[0].Object.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, "empty", "empty")
			e.Effects = append(e.Effects, effect("create pods/eviction", "launcher"))
		}},
		{"its node exists", func(e *invariants.Evidence) { e.Effects = append(e.Effects, effect("delete pods", "launcher")) }},
		{`3s after pair "" had`, func(e *invariants.Evidence) { e.Effects = append(e.Effects, effect("patch nodes", "launcher-2")) }},
		{"secret 1 is in the log", func(e *invariants.Evidence) { e.Logs["launcher"] = "hush" }},
		{`instance i-1 of NodePool "p" belongs to no`, func(e *invariants.Evidence) { e.Claims[0].Deleted = seen() }},
		{`instance i-1 of NodePool "" belongs to no`, func(e *invariants.Evidence) { // Of a NodeClaim that a user created.
			delete(e.Instances[0].Tags, karpv1.NodePoolLabelKey)
			e.Claims[0].Deleted = seen()
		}},
		{"instance i-1 is there while its NodeClaim c is gone", func(e *invariants.Evidence) { e.Claims[0].Deleted = seen() }},
		{"instance i-1 is there while its NodeClaim c has no termination finalizer", func(e *invariants.Evidence) {
			e.Claims[0].Terminating, e.Claims[0].Unguarded = seen(), seen()
		}},
		{`NodeClaim c named launch "l" and instance "i-1" without the termination finalizer`, func(e *invariants.Evidence) {
			e.Claims[0].Unguarded, e.Claims[0].Terminating = seen(), observe.Moment{At: at(2), Revision: 2}
			e.Instances[0].State = aws.StateTerminated
		}},
		{"still leaving", func(e *invariants.Evidence) { e.Claims[0].Terminating = seen() }},
		{"not initialized", func(e *invariants.Evidence) { e.Claims[0].Object.Status.Conditions = nil }},
		{"no living instance", func(e *invariants.Evidence) { e.Instances[0].State = aws.StateTerminated }},
		{"Node n has no NodeClaim", func(e *invariants.Evidence) { e.Claims[0].Object.Status.NodeName = "" }},
		{"still has taint", func(e *invariants.Evidence) {
			e.Nodes[0].Object.Spec.Taints = []corev1.Taint{{Key: catalog.StartingTaintKey}}
		}},
		{"which is not there", func(e *invariants.Evidence) { e.Nodes[0].Deleted = seen() }},
		{"is Pending", func(e *invariants.Evidence) { e.Pods[0].Object.Status.Phase = corev1.PodPending }},
	} {
		e := good()
		c.when(e)
		if broken := strings.Join(invariants.Settled(*e), "\n"); !strings.Contains(broken, c.want) {
			t.Errorf("want %q, got %q", c.want, broken)
		}
	}
}

// A claim that is deleted while its launch is under way leaves an instance that nobody took: whoever made the call ends it.
func TestClaimDeletedAmidItsLaunch(t *testing.T) {
	e := good()
	other := e.Claims[0]
	other.Object = other.Object.DeepCopy()
	other.Object.Name, other.Object.Status.ProviderID, other.Deleted = "deleted", "", seen()
	delete(other.Object.Annotations, catalog.PodsAnnotation)
	e.Claims = append(e.Claims, other)
	extra := e.Instances[0]
	extra.ID = "i-2"
	e.Instances = append(e.Instances, extra)
	if broken := invariants.Always(*e); len(broken) > 0 {
		t.Errorf("%v", broken)
	}
	if broken := invariants.Settled(*e); len(broken) != 1 {
		t.Errorf("at rest, the instance must be gone: %v", broken)
	}
}

// Once the instance has ended the finalizer goes, though another one may keep the claim, and then the claim goes.
func TestFinalizerGoesLast(t *testing.T) {
	e := good()
	e.Claims[0].Terminating, e.Claims[0].Unguarded = seen(), observe.Moment{At: at(2), Revision: 2}
	e.Instances[0].State = aws.StateShuttingDown
	if broken := invariants.Always(*e); len(broken) > 0 {
		t.Errorf("the claim waits for its Node: %q", broken)
	}
	e.Claims[0].Deleted = observe.Moment{At: at(3), Revision: 3}
	if broken := invariants.Always(*e); len(broken) > 0 {
		t.Errorf("the claim is gone: %q", broken)
	}
}

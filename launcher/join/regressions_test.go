package join

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// booting is a claim that was recorded recorded ago and launched launched ago, and its Node.
func booting(recorded, launched time.Duration, ready ...corev1.NodeCondition) Observed {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", CreationTimestamp: metav1.NewTime(now.Add(-recorded))}}
	claim.Annotations = map[string]string{catalog.ForPodsAnnotation: "true"}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-launched))
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Spec.Taints = []corev1.Taint{{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("10")}
	node.Status.Conditions = ready
	return Observed{
		Now: now, Claim: claim, Node: node,
		Settings: Settings{BindAt: bind.Auto, Patience: record.Patience{Promised: 5 * time.Minute, Empty: 15 * time.Minute}},
	}
}

func isController() *bool { yes := true; return &yes }

// host is a promised pod that is bound at launch, and that asks for more than the Node shows.
func host(resourceName corev1.ResourceName, quantity string) Slot {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "p", UID: "u", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: isController()}},
	}}
	pod.Spec.HostNetwork = true
	pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{resourceName: resource.MustParse(quantity)},
	}}}
	return Slot{Ref: catalog.PodRef{Namespace: "default", Name: "p", UID: "u"}, Pod: pod}
}

// A node has its whole time from the launch on: while AWS throttles, nothing boots.
func TestDeadlineBeginsWithTheLaunch(t *testing.T) {
	o := booting(8*time.Minute, 4*time.Minute)
	o.Slots = []Slot{host(corev1.ResourceCPU, "1")}
	if d := Decide(o); d.End != "" {
		t.Errorf("ended after 4 of 5 minutes: %s", d.End)
	}
	o = booting(8*time.Minute, 6*time.Minute)
	o.Slots = []Slot{host(corev1.ResourceCPU, "1")}
	if d := Decide(o); d.End != "registration_timeout" {
		t.Errorf("not ended after 6 of 5 minutes: %+v", d)
	}
}

// No deadline passes in the first minute in which a launcher leads, nor before a shorter deadline has passed once more. Later ones stay as they are.
func TestDeadlineAfterATimeWithoutLeader(t *testing.T) {
	for name, c := range map[string]struct {
		launched, led, patience time.Duration
		left                    time.Duration // Until it is ended.
	}{
		"it leads now":          {20 * time.Minute, 0, 5 * time.Minute, time.Minute},
		"it leads for a while":  {20 * time.Minute, 59 * time.Second, 5 * time.Minute, time.Second},
		"it leads for a minute": {20 * time.Minute, time.Minute, 5 * time.Minute, 0},
		"a short deadline":      {20 * time.Minute, 4 * time.Second, 10 * time.Second, 6 * time.Second},
		"a deadline to come":    {2 * time.Minute, 0, 5 * time.Minute, 3 * time.Minute},
	} {
		o := booting(30*time.Minute, c.launched, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse})
		o.Settings.Patience = record.Patience{Promised: c.patience, Empty: c.patience}
		o.LedSince = o.Now.Add(-c.led)
		if d := Decide(o); d.After != c.left || d.End != "" && c.left > 0 || d.End != "readiness_timeout" && c.left == 0 {
			t.Errorf("%s: end %q, again after %s, want %s", name, d.End, d.After, c.left)
		}
	}
}

// A node may become Ready while its deadline passes and no launcher leads: the next one removes the startup taint when it is time to.
func TestLooksAfterTheDeadline(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	o := booting(8*time.Minute, 6*time.Minute, ready)
	pod := host(corev1.ResourceCPU, "1")
	pod.Ref.Adopted, pod.Pod.Status.NominatedNodeName = true, "n"
	o.Slots, o.ReadySince = []Slot{pod}, o.Now
	o.Known = map[types.UID]time.Time{"u": o.Now}
	if d := Decide(o); d.Untaint || d.After != knownFor {
		t.Errorf("the startup taint is removed %t, again after %s, want %s", d.Untaint, d.After, knownFor)
	}
}

// The node lifecycle controller gives a Node without status a condition of its own: its kubelet has not joined for that.
func TestNobodyHasJoined(t *testing.T) {
	d := Decide(booting(time.Minute, time.Minute, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
	}))
	if d.Register || !d.RenewLease {
		t.Errorf("register %t, renew the Lease %t", d.Register, d.RenewLease)
	}
}

// What a booting Node does not show yet is no reason to leave a pod to the scheduler for good.
func TestNoRefusalBeforeReady(t *testing.T) {
	o := booting(time.Minute, time.Minute)
	o.Slots = []Slot{host("hugepages-2Mi", "4Mi")}
	if d := Decide(o); len(d.Refused) > 0 || len(d.Bind) > 0 {
		t.Errorf("refused %v, bound %v", d.Refused, d.Bind)
	}
	o = booting(time.Minute, time.Minute, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	o.Slots = []Slot{host("hugepages-2Mi", "4Mi")}
	if d := Decide(o); d.Refused["u"] == "" {
		t.Errorf("not refused: %+v", d)
	}
	o.Node.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("8Mi")
	if d := Decide(o); len(d.Bind) != 1 {
		t.Errorf("not bound: %+v", d)
	}
}

// A pod is bound once the cloud controller manager has removed its taint. Were the startup taint removed before that, the scheduler would bind the
// pod at the same moment: both tried it where the API server was slow, and the room of a pod that was refused went to others.
func TestStartupTaintStaysWhilePodsAwaitAnother(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	tolerant, bound := host(corev1.ResourceCPU, "1"), host(corev1.ResourceCPU, "1")
	tolerant.Pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	bound.Pod.Spec.NodeName = "n"
	for name, c := range map[string]struct {
		slots   []Slot
		taint   string
		waited  time.Duration
		untaint bool
		binds   int
	}{
		"the pod awaits it":                  {[]Slot{host(corev1.ResourceCPU, "1")}, uninitialized, 20 * time.Second, false, 0},
		"it does not go":                     {[]Slot{host(corev1.ResourceCPU, "1")}, uninitialized, time.Minute, true, 0},
		"it is gone":                         {[]Slot{host(corev1.ResourceCPU, "1")}, "", 20 * time.Second, true, 1},
		"the pod tolerates it":               {[]Slot{tolerant}, uninitialized, 20 * time.Second, true, 1},
		"the pod is bound":                   {[]Slot{bound}, uninitialized, 20 * time.Second, true, 0},
		"no pod is promised":                 {nil, uninitialized, 20 * time.Second, true, 0},
		"a taint that no controller removes": {[]Slot{host(corev1.ResourceCPU, "1")}, "example.com/for-others", 20 * time.Second, true, 0},
		"a readiness rule":                   {[]Slot{host(corev1.ResourceCPU, "1")}, "readiness.k8s.io/cni", 20 * time.Second, false, 0},
	} {
		o := booting(5*time.Minute, 4*time.Minute, ready)
		o.Slots, o.ReadySince = c.slots, o.Now.Add(-c.waited)
		if c.taint != "" {
			o.Node.Spec.Taints = append(o.Node.Spec.Taints, corev1.Taint{Key: c.taint, Effect: corev1.TaintEffectNoSchedule})
		}
		d := Decide(o)
		if d.Untaint != c.untaint || len(d.Bind) != c.binds || !d.Untaint && d.After > time.Minute-c.waited {
			t.Errorf("%s: the startup taint goes: %t, %d pods are bound, next look after %s", name, d.Untaint, len(d.Bind), d.After)
		}
	}
}

const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

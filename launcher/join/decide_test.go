package join_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// TestDecide runs the files of testdata. A file is the life of one NodeClaim that was launched at second 0:
//
//	claim [standby[=STATE/TIME]] [label=KEY=VALUE] [gpu] [taint=KEY:EFFECT] [startup-taint=KEY:EFFECT] [bind-at=SETTING] [registered] [initialized]
//	    [network-at-start] [switched-off=WHY]             the last two are the state of its NodePool
//	pod NAME [owner=KIND|none] [volumes=none] [host-network] [gpu] [cpu=Q] [unbound-volume=NAME] [claim-taken=WHY] [scheduler-only=WHY]
//	    [tolerates=KEY] [not-ready=SECONDS] [bound] [deleted] [gone] [adopted] [nominated=NODE] [spread]
//	                                                      a promised pod is created or changed; the node is launched for one before it exists
//	node [ready=true|false|none] [says=MESSAGE] [gpu=N] [cpu=Q] [add-taint=KEY:EFFECT] [remove-taint=KEY] [gone]
//	                                                      the kubelet, or a user, changes the Node
//	instance STATE                                        EC2's answer for the instance
//	twin joined|placeholder                               there is a second Node with the same providerID
//	neighbor NAME zone=ZONE [newcomer]                    another pod is bound in a zone; with newcomer, since the claim was created
//	daemon [none]                                         only the launcher's taint blocks a DaemonSet
//	restart                                               the process loses its state
//	decide at=DURATION                                    decide and do nothing
//	plan                                                  when each promised pod is bound, as on the NodeClaim
//	step at=DURATION [only=create|bind|lease|register|untaint|condition]
//	                                                      decide and do it, or a part of it, as before a crash
//
// Each decision is taken twice: the same observation gives the same decision, and changes nothing.
func TestDecide(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		s := newScenario()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			return s.run(t, d)
		})
	})
}

// start is second 0.
func start() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

type scenario struct {
	join.Observed

	neighbors []bind.Neighbor
}

func newScenario() *scenario {
	native := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("6Gi"), corev1.ResourcePods: resource.MustParse("29"),
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "default-1", UID: "claim", CreationTimestamp: metav1.NewTime(start()), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
	}}
	claim.Status = karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/i-1", NodeName: "node-1", Capacity: native, Allocatable: native}
	launchedAt(claim, start())
	return &scenario{Observed: join.Observed{
		Claim: claim, Answered: map[types.UID]bool{},
		Settings: join.Settings{BindAt: bind.Auto, Patience: record.Patience{Promised: 5 * time.Minute, Empty: 15 * time.Minute}},
	}}
}

func launchedAt(claim *karpv1.NodeClaim, at time.Time) {
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(at)
	}
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	args := map[string]string{}
	for _, a := range d.CmdArgs {
		args[a.Key] = strings.Join(a.Vals, " ")
	}
	switch d.Cmd {
	case "claim":
		s.claim(args)
	case "pod":
		s.pod(d.CmdArgs[0].Key, args)
	case "node":
		s.node(args)
	case "daemon":
		s.DaemonKeptOff = "kube-system/cni"
		if _, none := args["none"]; none {
			s.DaemonKeptOff = ""
		}
	case "instance":
		s.Instance, s.StateReason = cloud.InstanceState(d.CmdArgs[0].Key), cloud.StateReason{Code: args["code"], Message: args["says"]}
	case "twin":
		s.twin(d.CmdArgs[0].Key)
	case "neighbor":
		s.neighbor(d.CmdArgs[0].Key, args)
	case "plan":
		return s.plan()
	case "restart":
		s.ReadySince, s.Answered, s.Known = time.Time{}, map[types.UID]bool{}, nil
	case "decide", "step":
		decision := s.decide(t, args["at"])
		if d.Cmd == "step" {
			s.apply(decision, args["only"])
		}
		return s.render(decision)
	default:
		t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
	}
	return ""
}

func (s *scenario) twin(state string) {
	if state == "joined" {
		s.Duplicate = "node-2"
	} else {
		s.Placeholder = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	}
}

func (s *scenario) plan() string {
	var out strings.Builder
	for _, b := range join.Decide(s.Observed).Plan {
		fmt.Fprintf(&out, "%s %s: %s: %s\n", b.At, b.Rule, strings.Join(b.UIDs, ", "), b.Why)
	}
	return out.String()
}

func parseTaint(text string) corev1.Taint {
	key, effect, _ := strings.Cut(text, ":")
	return corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)}
}

func (s *scenario) claim(args map[string]string) {
	for key, value := range args {
		switch key {
		case "gpu":
			one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
			s.Claim.Spec.Resources.Requests = one
			s.Claim.Status.Allocatable = s.Claim.Status.Allocatable.DeepCopy()
			maps.Copy(s.Claim.Status.Allocatable, one)
		case "taint":
			s.Claim.Spec.Taints = append(s.Claim.Spec.Taints, parseTaint(value))
		case "startup-taint":
			s.Claim.Spec.StartupTaints = append(s.Claim.Spec.StartupTaints, parseTaint(value))
		case "bind-at":
			s.Settings.BindAt = bind.Setting(value)
		case "network-at-start":
			s.NetworkAtStart = true
		case "switched-off":
			s.SwitchedOff = value
		case "label":
			key, value, _ := strings.Cut(value, "=")
			metav1.SetMetaDataLabel(&s.Claim.ObjectMeta, key, value)
		case "standby":
			s.Claim.Annotations = map[string]string{catalog.StandbyAnnotation: "buffer"}
			if value != "" {
				s.Claim.Annotations[catalog.StandbyStateAnnotation] = value
			}
		case "registered":
			s.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
		case "initialized":
			s.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		}
	}
}

func (s *scenario) pod(name string, args map[string]string) {
	if s.Node == nil { // The node was launched for it.
		metav1.SetMetaDataAnnotation(&s.Claim.ObjectMeta, catalog.ForPodsAnnotation, "true")
	}
	slot := s.slot(name)
	for key, value := range args {
		switch key {
		case "owner":
			slot.Pod.OwnerReferences[0].Kind = value
		case "no-owner":
			slot.Pod.OwnerReferences = nil
		case "volumes":
			slot.Pod.Spec.Volumes = nil
		case "host-network":
			slot.Pod.Spec.HostNetwork = true
		case "gpu":
			slot.Pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
		case "cpu":
			slot.Pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(value)
		case "unbound-volume", "claim-taken":
			volume(slot, key, value)
		case "scheduler-only":
			slot.Ref.SchedulerOnly = value
		case "tolerates", "not-ready":
			tolerate(&slot.Pod.Spec, key, value)
		case "adopted":
			slot.Ref.Adopted = true
		case "nominated":
			slot.Pod.Status.NominatedNodeName = value
		default:
			fate(slot, key)
		}
	}
}

// volume is what is known of the pod's volume claims.
func volume(slot *join.Slot, what, value string) {
	if what == "claim-taken" {
		slot.ClaimTaken = value
		return
	}
	slot.UnboundVolume = value
}

// tolerate adds a toleration, or sets for how long the pod tolerates a node that is not Ready.
func tolerate(spec *corev1.PodSpec, how, value string) {
	if how == "not-ready" {
		seconds := resource.MustParse(value)
		spec.Tolerations[0].TolerationSeconds = new(seconds.Value())
		return
	}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: value, Operator: corev1.TolerationOpExists})
}

// fate is what became of a promised pod.
func fate(slot *join.Slot, what string) {
	switch what {
	case "bound":
		slot.Pod.Spec.NodeName = "elsewhere"
	case "deleted":
		slot.Pod.DeletionTimestamp = &metav1.Time{Time: start()}
	case "gone":
		slot.Pod = nil
	case "spread":
		overZones(slot.Pod)
	}
}

// slot is the pod's; it is promised first, if it is new.
func (s *scenario) slot(name string) *join.Slot {
	i := slices.IndexFunc(s.Slots, func(slot join.Slot) bool { return slot.Ref.Name == name })
	if i < 0 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: new(true)}},
		}}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
		// Admission adds it (DefaultTolerationSeconds).
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
		}}
		s.Slots = append(s.Slots, join.Slot{Ref: catalog.PodRef{Namespace: "default", Name: name, UID: string(pod.UID)}, Pod: pod})
		i = len(s.Slots) - 1
	}
	return &s.Slots[i]
}

func (s *scenario) node(args map[string]string) {
	for key, value := range args {
		switch key {
		case "ready":
			s.Node.Status.Conditions = nil
			if value != "none" {
				status := map[string]corev1.ConditionStatus{"true": corev1.ConditionTrue, "false": corev1.ConditionFalse}[value]
				s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Kubelet", Message: args["says"], LastTransitionTime: metav1.NewTime(s.Now)}}
			}
		case "gpu":
			s.Node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(value)
		case "cpu":
			s.Node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(value)
		case "add-taint":
			s.Node.Spec.Taints = append(s.Node.Spec.Taints, parseTaint(value))
		case "remove-taint":
			s.Node.Spec.Taints = slices.DeleteFunc(s.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == value })
		case "gone":
			s.Node, s.OnNode, s.ReadySince = nil, nil, time.Time{}
		}
	}
}

func (s *scenario) ready() bool {
	return s.Node != nil && slices.ContainsFunc(s.Node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Status == corev1.ConditionTrue })
}

func (s *scenario) decide(t *testing.T, at string) join.Decision {
	t.Helper()
	age, err := time.ParseDuration(at)
	if err != nil {
		t.Fatal(err)
	}
	s.Now = start().Add(age)
	switch {
	case !s.ready():
		s.ReadySince = time.Time{}
	case s.ReadySince.IsZero():
		s.ReadySince = s.Now
	}
	if s.Node != nil {
		s.Known = join.Known(s.Known, s.Node.Name, s.Slots, s.Now)
	}
	s.around()
	claim, seen := s.Claim.DeepCopy(), s.Node.DeepCopy()
	decision := join.Decide(s.Observed)
	if diff := cmp.Diff(decision, join.Decide(s.Observed)); diff != "" {
		t.Errorf("the same observation gives another decision:\n%s", diff)
	}
	if diff := cmp.Diff(claim.Spec, s.Claim.Spec) + cmp.Diff(seen, s.Node); diff != "" {
		t.Errorf("deciding changed what was observed:\n%s", diff)
	}
	return decision
}

// apply does to the scenario what the controller does to the API server.
func (s *scenario) apply(d join.Decision, only string) {
	part := func(name string) bool { return only == "" || only == name }
	if d.CreateNode && part("create") {
		s.Node = node.New(s.Claim, cloud.Instance{ID: "i-1", Zone: "us-east-1a", InstanceType: "m7g.large", PrivateDNSName: "node-1"})
	}
	if part("bind") {
		for uid := range d.Refused {
			s.Answered[uid] = true
		}
		for _, b := range d.Bind {
			b.Pod.Spec.NodeName = b.Node
			s.Answered[b.Pod.UID] = true
			s.OnNode = append(s.OnNode, b.Pod)
		}
	}
	if d.Register && part("register") {
		metav1.SetMetaDataLabel(&s.Node.ObjectMeta, karpv1.NodeRegisteredLabelKey, "true")
	}
	if d.Untaint && part("untaint") {
		s.Node, _ = node.Started(s.Node, catalog.StartingTaintKey)
	}
	s.uncordon(d)
	if d.Register && part("condition") {
		s.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	}
	if d.Initialize && part("condition") {
		s.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	}
}

func (s *scenario) uncordon(d join.Decision) {
	if d.Uncordon {
		s.Node.Spec.Unschedulable = false
	}
}

func (s *scenario) render(d join.Decision) string {
	var out strings.Builder
	line := func(cond bool, format string, args ...any) {
		if cond {
			fmt.Fprintf(&out, format+"\n", args...)
		}
	}
	line(d.End != "", "end: %s: %s", d.End, d.EndMessage)
	line(d.CreateNode, "create the Node")
	line(d.RemovePlaceholder, "remove the placeholder")
	for _, b := range d.Bind {
		line(true, "bind %s to %s at %s: %s", b.Pod.Name, b.Node, b.Moment, b.Reason)
	}
	for _, uid := range slices.Sorted(maps.Keys(d.Refused)) {
		line(true, "leave %s to the scheduler: %s", strings.TrimPrefix(string(uid), "uid-"), d.Refused[uid])
	}
	line(d.RenewLease, "renew the Lease")
	line(d.Register, "register")
	line(d.Untaint, "lift the startup taint")
	line(d.Uncordon, "uncordon")
	line(d.Initialize, "initialize")
	line(d.Unregistered != "" && d.Unregistered != "NodeNotFound", "not registered: %s: %s", d.Unregistered, d.Message)
	line(d.Waiting != "", "waiting: %s: %s", d.Waiting, d.Message)
	line(d.After > 0, "look again after %s", d.After)
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

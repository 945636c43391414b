package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/view"
)

func claim(name, node string, conditions ...string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	c.Annotations = map[string]string{
		catalog.ExpectedAnnotation: "m7g.large/us-east-1a/spot/0.0300",
		catalog.CostAnnotation:     `{"instance":0.028,"volumes":0.002}`,
		catalog.PodsAnnotation:     `[{"uids":["u1","u2"]}]`,
	}
	c.Status.NodeName = node
	for _, t := range conditions {
		c.StatusConditions().SetTrue(t)
	}
	return c
}

// created is when pods were.
func created() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func pod(name, uid, node string, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created())}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi"),
	}}}}
	p.Spec.NodeName, p.Status.Phase = node, phase
	return p
}

func TestOverview(t *testing.T) {
	daemon := pod("cni", "d1", "n1", corev1.PodRunning)
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	malformed := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
	malformed.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, "Malformed", "spec.limits")
	in := view.Objects{
		NodeClaims: []*karpv1.NodeClaim{
			claim("default-b", "n1", karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized),
			claim("default-a", ""),
		},
		Nodes: []*corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("6Gi"),
			}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "managed"}},
		},
		Now: created().Add(time.Minute),
		Why: func(p *corev1.Pod) string {
			return "no node can be launched: NodePool default: limit cpu of 4 reached"
		},
		NodePools: []*karpv1.NodePool{&malformed, {ObjectMeta: metav1.ObjectMeta{Name: "new"}}},
		Pods: []*corev1.Pod{
			pod("web-1", "u1", "", corev1.PodPending),
			pod("web-3", "u3", "", corev1.PodPending),
			pod("web-4", "u4", "n1", corev1.PodPending),
			pod("web-5", "u5", "n1", corev1.PodRunning),
			pod("done", "u6", "n1", corev1.PodSucceeded),
			daemon,
		},
	}
	in.NodeClaims[0].Annotations[catalog.PodsAnnotation] = ""
	got := view.New(in)
	cost := catalog.Cost{Instance: 0.028, Volumes: 0.002}
	half, quarter := 0.5, 0.25
	want := view.Overview{
		Cost: cost,
		Nodes: []view.NodeRow{
			{
				Cost: cost, NodeClaim: "default-a", NodePool: "default", InstanceType: "m7g.large", Zone: "us-east-1a",
				CapacityType: "spot", Price: 0.03, Promised: 1, State: view.StateRecorded,
			},
			{
				Cost: cost, NodeClaim: "default-b", Node: "n1", NodePool: "default", InstanceType: "m7g.large", Zone: "us-east-1a",
				CapacityType: "spot", Price: 0.03, Pods: 2, State: view.StateReady, Launched: true, CPU: &half, Memory: &quarter,
			},
		},
		Pods: view.PodCounts{Pending: 1, Promised: 1, Bound: 1, Running: 1},
		Pending: []view.PendingPods{{
			Namespace: "default", Owner: "Pod web-3", Pod: "web-3", Count: 1, Since: created(), Why: "no node can be launched: NodePool default: limit cpu of 4 reached",
		}},
		NotReady: []view.NotReady{
			{NodePool: "broken", Message: "ValidationSucceeded: Malformed: spec.limits"},
			{NodePool: "new", Message: "ValidationSucceeded=Unknown, NodeClassReady=Unknown"},
		},
		CostPerHour: 0.03,
		SpotShare:   1,
		CPU:         &half,
		Memory:      &quarter,
		Launched:    1,
		Others:      1,
		Now:         created().Add(time.Minute),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overview (-want +got):\n%s", diff)
	}
	var table, wide, text bytes.Buffer
	if err := errors.Join(got.Write(&table, view.FormatTable), got.Write(&wide, view.FormatWide), got.Write(&text, view.FormatJSON)); err != nil {
		t.Fatal(err)
	}
	const wantTable = `NODECLAIM  TYPE       ZONE  CAPACITY  USD/H     CPU  MEM  PODS  STATE
default-a  m7g.large  1a    spot      (0.0300)  -    -    0+1   recorded
default-b  m7g.large  1a    spot      0.0300    50%  25%  2     ready
1 node, 0.0300 USD per hour (22 per month), 100% of it spot; 1 more not launched yet; 1 node that slipway does not manage
Pods: 1 pending, 1 promised to a node that boots, 1 bound, 1 running
Pending:
  1 of default/Pod web-3 for 1m0s: no node can be launched: NodePool default: limit cpu of 4 reached
NodePool broken is not ready: ValidationSucceeded: Malformed: spec.limits
NodePool new is not ready: ValidationSucceeded=Unknown, NodeClassReady=Unknown
`
	if diff := cmp.Diff(wantTable, table.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	for _, want := range []string{"us-east-1a", "NODEPOOL", "n1", "instance 0.0280 + volumes 0.0020", "of it: instance"} {
		if !strings.Contains(wide.String(), want) {
			t.Errorf("the wide table lacks %q:\n%s", want, wide.String())
		}
	}
	var again view.Overview
	if err := json.Unmarshal(text.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("JSON loses something (-want +got):\n%s", diff)
	}
	if err := got.Write(&text, "yaml"); err == nil {
		t.Error("a format that there is not was written")
	}
}

// With names, types and states as long as they usually are, a row fits a terminal of 80 columns.
func TestTableFits80Columns(t *testing.T) {
	half := 0.5
	row := view.NodeRow{
		NodeClaim: "default-pxv6f", Node: "ip-192-168-128-6.ec2.internal", InstanceType: "c6gd.4xlarge", Zone: "us-east-1b", CapacityType: "on-demand",
		Price: 0.1479, CPU: &half, Memory: &half, Pods: 110, State: view.StateReady, Launched: true,
	}
	var out bytes.Buffer
	if err := (view.Overview{Nodes: []view.NodeRow{row}}).Write(&out, view.FormatTable); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := len(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// What launches wait for and what EC2 refused is listed once for each code, with the latest message; what is old is not.
func TestTroubles(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	waits := func(name string) *karpv1.NodeClaim {
		c := claim(name, "")
		c.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, ec2error.ReasonLaunchPending, "InternalError from CreateFleet since 11:58:00 UTC, attempt 7: no")
		return c
	}
	event := func(claim, reason, message string, ago time.Duration) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: claim}, Type: corev1.EventTypeWarning,
			Reason: reason, Message: message, LastTimestamp: metav1.NewTime(now.Add(-ago)),
		}
	}
	quota := ec2error.NoInstance + "VcpuLimitExceeded in 2 of 2 offerings, attempt "
	var out bytes.Buffer
	err := view.New(view.Objects{
		NodeClaims: []*karpv1.NodeClaim{waits("w-1"), waits("w-2"), claim("default-a", "")},
		Events: []corev1.Event{
			event("q-1", ec2error.EventInsufficientCapacity, quota+"1", 10*time.Minute),
			event("q-2", ec2error.EventInsufficientCapacity, quota+"2", time.Minute),
			event("old", "Unauthorized", "CreateFleet", time.Hour),
			event("d-1", "FailedDraining", "a PodDisruptionBudget", time.Minute),
		},
		Now: now,
	}).Write(&out, view.FormatTable)
	if err != nil {
		t.Fatal(err)
	}
	const want = `0 nodes, 0.0000 USD per hour; 3 more not launched yet
Pods: 0 pending, 0 promised to a node that boots, 0 bound, 0 running
Waiting for EC2: w-1, w-2
  InternalError from CreateFleet since 11:58:00 UTC, attempt 7: no
Not launched (InsufficientCapacityError, last 1m0s ago): q-1, q-2
  EC2 launched no instance: VcpuLimitExceeded in 2 of 2 offerings, attempt 2
`
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s", out.String())
	}
}

func TestExplainPod(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	waiting := pod("web-1", "u1", "", corev1.PodPending)
	waiting.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "launching m7g.large", LastTransitionTime: metav1.NewTime(now.Add(-5 * time.Second)),
	}}
	events := []corev1.Event{
		{Reason: "PreBound", Message: "second", LastTimestamp: metav1.NewTime(now.Add(-time.Second))},
		{Reason: "Nominated", Message: "first", LastTimestamp: metav1.NewTime(now.Add(-4 * time.Second))},
	}
	told := claim("default-a", "")
	told.Annotations[catalog.BindingsAnnotation] = `[{"at":"ready","rule":"NetworkNotReady","why":"volume kube-api-access","uids":["u1"]}]`
	broken := claim("default-a", "")
	broken.Annotations[catalog.BindingsAnnotation] = "{"
	tests := []struct {
		name   string
		pod    *corev1.Pod
		claims []*karpv1.NodeClaim
		want   []string
	}{
		{"promised", waiting, []*karpv1.NodeClaim{claim("default-a", "")}, []string{
			"default/web-1: pending", "Unschedulable, for 5s:", "launching m7g.large", "NodeClaim default-a: recorded",
			"m7g.large, spot in us-east-1a, 0.0300 USD per hour", "its price: instance 0.0280 + volumes 0.0020", "Nominated        first\n        1s ago  PreBound",
		}},
		{"bound when", waiting, []*karpv1.NodeClaim{told}, []string{
			"the pod is bound the moment the node is ready: volume kube-api-access (NetworkNotReady)",
		}},
		{"nobody can read when", waiting, []*karpv1.NodeClaim{broken}, []string{"cannot be read: NodeClaim default-a: annotation slipway.dev/bindings"}},
		{"nothing on its way", pod("x", "u9", "", corev1.PodPending), nil, []string{"No node is on its way"}},
		{"bound", pod("x", "u9", "n1", corev1.PodPending), []*karpv1.NodeClaim{claim("default-a", "n1")}, []string{
			"bound to node n1, not running yet", "NodeClaim default-a",
		}},
		{"running", pod("x", "u9", "n2", corev1.PodRunning), nil, []string{"Running on node n2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			view.ExplainPod(&out, tt.pod, view.Objects{NodeClaims: tt.claims}, events, now)
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}

// A stopped standby instance costs its volumes.
func TestAsleepCostsItsVolumes(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{
		catalog.ExpectedAnnotation: "m5.large/us-east-1a/on-demand/0.0982", catalog.CostAnnotation: `{"instance":0.096,"volumes":0.0022}`,
		catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: "asleep/2026-03-04T12:00:00Z",
	}}}
	claim.Status.ProviderID = "aws:///us-east-1a/i-1"
	if got := view.New(view.Objects{NodeClaims: []*karpv1.NodeClaim{claim}}); got.CostPerHour != 0.0022 || got.Cost != (catalog.Cost{Volumes: 0.0022}) {
		t.Errorf("asleep it costs %v, %v", got.CostPerHour, got.Cost)
	}
	claim.Annotations[catalog.StandbyStateAnnotation] = "awake/2026-03-04T12:00:00Z"
	if got := view.New(view.Objects{NodeClaims: []*karpv1.NodeClaim{claim}}); got.CostPerHour != 0.0982 || got.Cost.Instance != 0.096 {
		t.Errorf("awake it costs %v, %v", got.CostPerHour, got.Cost)
	}
}

func TestParseExpected(t *testing.T) {
	if got := view.ParseExpected("m7g.large/us-east-1a/spot/cheap"); got != (view.Expected{}) {
		t.Errorf("a price that is no number was read as %+v", got)
	}
}

// A node's pods are those on it and those that wait for it; finished ones and those of other nodes are not among them.
func TestPodsOf(t *testing.T) {
	daemon := pod("a-cni", "d1", "n1", corev1.PodRunning)
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	leaving := pod("leaving", "u7", "n1", corev1.PodRunning)
	leaving.DeletionTimestamp = &metav1.Time{Time: created()}
	in := view.Objects{
		NodeClaims: []*karpv1.NodeClaim{claim("default-a", "n1")},
		Pods: []*corev1.Pod{
			daemon, leaving, pod("web-2", "u2", "", corev1.PodPending), pod("web-1", "u1", "n1", corev1.PodPending), pod("web-0", "u0", "n1", corev1.PodRunning),
			pod("other", "u3", "n2", corev1.PodRunning), pod("pending", "u4", "", corev1.PodPending), pod("done", "u5", "n1", corev1.PodSucceeded),
		},
	}
	row := func(name, state string) view.PodRow {
		return view.PodRow{Namespace: "default", Name: name, State: state, MilliCPU: 500, Bytes: 512 << 20, Created: created()}
	}
	want := []view.PodRow{row("leaving", "terminating"), row("web-0", "running"), row("web-1", "bound"), row("web-2", "promised"), row("a-cni", "daemon")}
	if diff := cmp.Diff(want, view.PodsOf(in, view.New(in).Nodes[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The use of commitments is shown with the cluster's share.
func TestWriteCommitments(t *testing.T) {
	out := &bytes.Buffer{}
	view.WriteCommitments(out, []catalog.CommitmentUse{
		{ID: "sp-1", Kind: commitment.ComputeSavingsPlan, Amount: 4, Left: 1, Share: 0.4, Unit: catalog.USDPerHour},
		{ID: "ri-1", Kind: commitment.ReservedInstances, Amount: 3, Unit: "instances"},
	}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	want := `
Commitments at 2026-11-23T12:00:00Z:
  ID    KIND                SHARE  AMOUNT       USED
  sp-1  ComputeSavingsPlan  40%    4 USD/h      75%
  ri-1  ReservedInstances   100%   3 instances  100%
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if view.WriteCommitments(out, nil, time.Now()); out.Len() > 0 {
		t.Errorf("%q without commitments", out)
	}
}

// NodePools whose disruption is paused are named in one sentence.
func TestPausedPools(t *testing.T) {
	pools := []*karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
	for i, want := range []string{
		"", "Disruption is paused for NodePool b: annotation slipway.dev/disruption-paused\n", "Disruption is paused for NodePools a, b: annotation slipway.dev/disruption-paused\n",
	} {
		if i > 0 {
			pools[i-1].Annotations = map[string]string{catalog.PausedAnnotation: "true"}
		}
		var out strings.Builder
		if err := view.New(view.Objects{NodePools: pools}).Write(&out, view.FormatTable); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || want == "" && strings.Contains(got, "paused") {
			t.Errorf("%d paused:\n%s", i, got)
		}
	}
}

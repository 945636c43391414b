package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/server"
)

func TestSocketIsForOneUserAlone(t *testing.T) {
	w := newWorld(t)
	found, err := os.Stat(w.socket)
	if err != nil {
		t.Fatal(err)
	}
	if got := found.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the socket is %o, want 600", got)
	}
}

// TestFullStateFirst: a new client receives everything once, then changes, in generations without gaps.
func TestFullStateFirst(t *testing.T) {
	w := newWorld(t, append(ready("default", nil), pending("u1"))...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})
	updates := w.watch(w.client)
	first := w.await(updates, "a first message", func(*api.CatalogUpdate) bool { return true })
	if !first.GetFull() || first.GetGeneration() != 1 {
		t.Errorf("first message: full %t, generation %d", first.GetFull(), first.GetGeneration())
	}
	if len(first.GetNodePools()) != 1 || !first.GetNodePools()[0].GetReady() || first.GetNodePools()[0].GetUsage()["cpu"] != "2" {
		t.Errorf("NodePools: %v", first.GetNodePools())
	}
	if len(first.GetInstanceTypes()) != 1 || len(first.GetInstanceTypes()[0].GetTypes()) != 2 {
		t.Errorf("instance types: %v", first.GetInstanceTypes())
	}
	if len(first.GetInFlight()) != 1 {
		t.Fatalf("in flight: %v", first.GetInFlight())
	}
	node := first.GetInFlight()[0]
	got := []string{node.GetNodeClaim(), node.GetPhase().String(), node.GetPods()[0].GetUid(), node.GetAllocatable()["cpu"], node.GetAllocatable()["memory"]}
	// Until EC2 has chosen, no more is promised than the smallest alternative has of each resource.
	if diff := cmp.Diff([]string{"default-1", "PHASE_RECORDED", "u1", "1800m", "3Gi"}, got); diff != "" {
		t.Error(diff)
	}
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-2", "default", "u2")}})
	second := w.await(updates, "the second claim", func(u *api.CatalogUpdate) bool { return len(u.GetInFlight()) > 0 })
	if second.GetFull() || second.GetInFlight()[0].GetNodeClaim() != "default-2" || len(second.GetInstanceTypes()) > 0 {
		t.Errorf("second message holds more than what changed: %v", second)
	}
}

// The scheduler learns that a node has drifted on its way.
func TestDriftedOnItsWay(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})
	updates := w.watch(w.client)
	if first := w.await(updates, "the full state", (*api.CatalogUpdate).GetFull); first.GetInFlight()[0].GetOutdated() {
		t.Error("a node that has not drifted is outdated")
	}
	claim := w.claim("default-1")
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeDrifted)
	if err := w.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.await(updates, "the drift", func(u *api.CatalogUpdate) bool { return len(u.GetInFlight()) > 0 && u.GetInFlight()[0].GetOutdated() })
}

// The scheduler gets a promised pod by its name as soon as the cache shows the pod: the NodeClaim has its UID alone.
func TestPromisedPodsByName(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})
	updates := w.watch(w.client)
	first := w.await(updates, "a first message", func(*api.CatalogUpdate) bool { return true })
	if got := first.GetInFlight()[0].GetPods(); len(got) != 0 {
		t.Errorf("a pod that the cache does not show: %v", got)
	}
	if err := w.api.Create(t.Context(), pending("u1")); err != nil {
		t.Fatal(err)
	}
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-2", "default", "u2")}})
	w.await(updates, "the promised pod", func(u *api.CatalogUpdate) bool {
		for _, n := range u.GetInFlight() {
			if p := n.GetPods(); n.GetNodeClaim() == "default-1" && len(p) == 1 {
				return p[0].GetNamespace() == "default" && p[0].GetName() == "pod-u1" && p[0].GetUid() == "u1"
			}
		}
		return false
	})
}

func TestLaunchRecords(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	got := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})
	if !got["default-1"].GetRecorded() {
		t.Fatalf("not recorded: %v", got)
	}
	claim := w.claim("default-1")
	pods, err := record.Pods(claim)
	if err != nil || len(pods) != 1 || pods[0].UID != "u1" {
		t.Errorf("promised pods: %v, %v", pods, err)
	}
	owner := claim.OwnerReferences[0]
	if owner.Kind != "NodePool" || owner.UID != "uid-of-pool" || !*owner.BlockOwnerDeletion || claim.Finalizers[0] != karpv1.TerminationFinalizer {
		t.Errorf("owner %v, finalizers %v", owner, claim.Finalizers)
	}
	if name := <-w.handed; name != "default-1" {
		t.Errorf("handed on: %s", name)
	}
	// A retry gets the same answer and launches nothing twice.
	if again := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}}); !again["default-1"].GetRecorded() {
		t.Errorf("retry: %v", again)
	}
	select {
	case name := <-w.handed:
		t.Errorf("handed on again: %s", name)
	default:
	}
}

func TestLaunchRefuses(t *testing.T) {
	tooMany := planned("default-many", "default")
	for i := range 61 {
		tooMany.InstanceTypes = append(tooMany.InstanceTypes, fmt.Sprintf("x%d.large", i))
	}
	unnamed := planned("Default_1", "default")
	noUID := planned("default-pod", "default", "")
	quantity := planned("default-requests", "default")
	quantity.Requests = map[string]string{"cpu": "much"}
	objects := append(ready("default", nil), ready("small", karpv1.Limits{corev1.ResourceCPU: resource.MustParse("5")})...)
	w := newWorld(t, append(objects, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "classless"}})...)
	got := w.launch(&api.LaunchRequest{Claims: []*api.Claim{
		planned("gone-1", "gone"), planned("classless-1", "classless"), tooMany, unnamed, noUID, quantity,
		planned("small-1", "small"), planned("small-2", "small"), planned("small-3", "small"), planned("default-1", "default"),
	}})
	for name, want := range map[string]struct{ reason, message string }{
		"gone-1":           {"NodePoolNotFound", "claim gone-1: NodePool gone does not exist"},
		"classless-1":      {"NodeClassNotFound", "claim classless-1: NodePool classless: EC2NodeClass "},
		"default-many":     {"InvalidInstanceTypes", "claim default-many: instance_types: 1 to 60 instance types, got 63"},
		"Default_1":        {"InvalidName", "claim Default_1: name: "},
		"default-pod":      {"InvalidPod", "claim default-pod: pods[0].uid: "},
		"default-requests": {"InvalidQuantity", "claim default-requests: requests: cpu: "},
		"small-3":          {"LimitsExceeded", "claim small-3: NodePool small: spec.limits.cpu: 6 would be more than 5"},
	} {
		r := got[name]
		if r.GetRecorded() || r.GetReason() != want.reason || !strings.HasPrefix(r.GetMessage(), want.message) {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, name := range []string{"small-1", "small-2", "default-1"} {
		if !got[name].GetRecorded() {
			t.Errorf("one refused claim stops another: %v", got[name])
		}
	}
	if again := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("small-2", "small")}}); !again["small-2"].GetRecorded() {
		t.Errorf("a claim that is sent again counts twice: %v", again)
	}
}

// TestNameOfAClaimThatLeaves: a retry must not be answered as recorded if the claim is being deleted.
func TestNameOfAClaimThatLeaves(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})
	if err := w.api.Delete(t.Context(), w.claim("default-1")); err != nil {
		t.Fatal(err)
	}
	got := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})["default-1"]
	if got.GetRecorded() || got.GetReason() != "NodeClaimLeaving" {
		t.Errorf("got %v", got)
	}
}

func TestPlacements(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1"), planned("default-2", "default")}})
	done := w.claim("default-2")
	done.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if err := w.api.Status().Update(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	more := []*api.PodRef{{Namespace: "default", Name: "pod-u1", Uid: "u1"}, {Namespace: "default", Name: "pod-u2", Uid: "u2", SchedulerOnly: "gpu", Adopted: true}}
	got := w.launch(&api.LaunchRequest{Placements: []*api.InFlightPlacement{
		{NodeClaim: "default-1", Pods: more}, {NodeClaim: "default-2", Pods: more}, {NodeClaim: "default-3", Pods: more},
	}})
	if !got["default-1"].GetRecorded() || got["default-2"].GetReason() != "NodeInitialized" || got["default-3"].GetReason() != "NodeClaimNotFound" {
		t.Errorf("got %v", got)
	}
	pods, err := record.Pods(w.claim("default-1"))
	want := []catalog.PodRef{{UID: "u1"}, {UID: "u2", SchedulerOnly: "gpu", Adopted: true}}
	if diff := cmp.Diff(want, pods); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestOnlyTheLeaderLaunches(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.standby.Store(true)
	_, err := w.client.Launch(t.Context(), &api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v", err)
	}
	if _, err := w.client.Lead(t.Context(), &api.LeadRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an empty identity: %v", err)
	}
}

// The stream reports which promised pods the launcher has bound, though the cache does not show it, and that the node's startup taint is gone.
func TestBoundPodsAreReported(t *testing.T) {
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-u1", UID: "u1"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-u2", UID: "u2"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	node.Spec.Taints = []corev1.Taint{{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w := newWorld(t, append(ready("default", nil), waiting, other, node)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1", "u2")}})
	claim := w.claim("default-1")
	claim.Status.NodeName = "n"
	if err := w.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	updates := w.watch(w.client)
	first := w.await(updates, "the full state", (*api.CatalogUpdate).GetFull).GetInFlight()[0]
	if first.GetPhase() != api.Phase_PHASE_READY || first.GetStarted() || len(first.GetBoundPods()) > 0 {
		t.Errorf("before the taint goes: %v", first)
	}
	w.bound.Store(new("u1"))
	node = node.DeepCopy()
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = nil
	if err := w.api.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	started := func(u *api.CatalogUpdate) bool { return len(u.GetInFlight()) > 0 && u.GetInFlight()[0].GetStarted() }
	if got := w.await(updates, "the taint to go", started).GetInFlight()[0].GetBoundPods(); !cmp.Equal(got, []string{"u1"}) {
		t.Errorf("bound pods %v", got)
	}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if err := w.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	end := w.await(updates, "the end", func(u *api.CatalogUpdate) bool { return len(u.GetEnded()) > 0 }).GetEnded()[0]
	if !cmp.Equal(end.GetUnboundPods(), []string{"u2"}) {
		t.Errorf("unbound pods %v", end.GetUnboundPods())
	}
}

// TestEndings: the ending of an in-flight node is sent with its reason and with the pods that are not bound.
func TestEndings(t *testing.T) {
	bound := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-u1", UID: "u1"}, Spec: corev1.PodSpec{NodeName: "n"}}
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-u2", UID: "u2"}}
	w := newWorld(t, append(ready("default", nil), bound, waiting)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{
		planned("default-1", "default", "u1", "u2"), planned("default-2", "default", "u2"), planned("default-3", "default"),
	}})
	updates := w.watch(w.client)
	w.await(updates, "the full state", (*api.CatalogUpdate).GetFull)
	ended := func(name string) *api.InFlightEnd {
		t.Helper()
		for _, e := range w.await(updates, "the end of "+name, func(u *api.CatalogUpdate) bool { return len(u.GetEnded()) > 0 }).GetEnded() {
			if e.GetNodeClaim() == name {
				return e
			}
		}
		t.Fatalf("another claim ended than %s", name)
		return nil
	}
	done := w.claim("default-1")
	done.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if err := w.api.Status().Update(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if e := ended("default-1"); e.GetOutcome() != api.Outcome_OUTCOME_INITIALIZED || !cmp.Equal(e.GetUnboundPods(), []string{"u2"}) {
		t.Errorf("got %v", e)
	}
	w.subject.Failed(w.claim("default-2"), "InsufficientCapacity", "nothing left")
	if err := w.api.Delete(t.Context(), w.claim("default-2")); err != nil {
		t.Fatal(err)
	}
	if e := ended("default-2"); e.GetOutcome() != api.Outcome_OUTCOME_FAILED || e.GetReason() != "InsufficientCapacity" || len(e.GetUnboundPods()) != 1 {
		t.Errorf("got %v", e)
	}
	if err := w.api.Delete(t.Context(), w.claim("default-3")); err != nil {
		t.Fatal(err)
	}
	if e := ended("default-3"); e.GetOutcome() != api.Outcome_OUTCOME_DELETED {
		t.Errorf("got %v", e)
	}
}

// TestSlowClient: a client that does not read does not delay others.
func TestSlowClient(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	if _, err := w.dial().WatchCatalog(t.Context(), &api.WatchCatalogRequest{}); err != nil {
		t.Fatal(err)
	}
	updates := w.watch(w.client)
	for i := range 50 {
		name := fmt.Sprintf("default-%d", i)
		w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned(name, "default")}})
		w.await(updates, name, func(u *api.CatalogUpdate) bool {
			return len(u.GetInFlight()) > 0 && u.GetInFlight()[0].GetNodeClaim() == name
		})
	}
}

// TestTypes: changed offerings are sent again; if the cloud does not answer, the pool is not ready and has the reason, and the previous
// types stay.
func TestTypes(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	updates := w.watch(w.client)
	w.await(updates, "the full state", (*api.CatalogUpdate).GetFull)
	w.cloud.BreakClass("default", "SubnetsNotFound", "no subnet matches")
	w.cloud.ClearCapacity(memory.Offering{})
	u := w.await(updates, "a pool that is not ready", func(u *api.CatalogUpdate) bool { return len(u.GetNodePools()) > 0 })
	if p := u.GetNodePools()[0]; p.GetReady() || !strings.Contains(p.GetNotReadyMessage(), "no subnet matches") {
		t.Errorf("got %v", p)
	}
	if len(u.GetInstanceTypes()) > 0 {
		t.Errorf("the types were forgotten: %v", u.GetInstanceTypes())
	}
}

func TestAsk(t *testing.T) {
	w := newWorld(t)
	if _, _, err := w.subject.Busy(t.Context(), &api.NodeBusy{NodeName: "n"}); !errors.Is(err, server.ErrNoAnswer) {
		t.Errorf("nobody listens: %v", err)
	}
	stream, err := w.client.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = stream.Send(&api.Answer{})
		for {
			q, err := stream.Recv()
			if err != nil {
				return
			}
			answer := &api.Answer{Id: q.GetId()}
			switch {
			case q.GetNodeBusy() != nil:
				answer.Kind = &api.Answer_NodeBusy{NodeBusy: &api.NodeBusyAnswer{Busy: true, Reason: q.GetNodeBusy().GetNodeName() + " has pods"}}
			default:
				answer.Kind = &api.Answer_MakeRoom{MakeRoom: &api.MakeRoomAnswer{NodeClaims: []string{"default-9"}}}
			}
			_ = stream.Send(answer)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for errors.Is(err, server.ErrNoAnswer) || err == nil { // The stream opens a moment after the call.
		var busy bool
		var reason string
		if busy, reason, err = w.subject.Busy(ctx, &api.NodeBusy{NodeName: "n"}); err == nil {
			if !busy || reason != "n has pods" {
				t.Errorf("got %t %q", busy, reason)
			}
			break
		}
	}
	room, err := w.subject.MakeRoom(ctx, &api.MakeRoom{NodeNames: []string{"n"}})
	if err != nil || !cmp.Equal(room.GetNodeClaims(), []string{"default-9"}) {
		t.Errorf("got %v, %v", room, err)
	}
}

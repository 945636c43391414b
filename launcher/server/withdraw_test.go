package server_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Promises are taken back: a NodeClaim that keeps none is deleted, one with other pods stays with these, and doing it again changes nothing.
func TestWithdraw(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{
		planned("default-1", "default", "u1", "u2"), planned("default-2", "default", "u3", "u4"), planned("default-3", "default", "u5"),
	}})
	<-w.handed
	request := &api.WithdrawRequest{Version: api.OwnVersion(), Message: "the rest of the gang gets no node", Promises: []*api.InFlightPlacement{
		{NodeClaim: "default-1", Pods: podsNamed("u1", "u2")}, {NodeClaim: "default-2", Pods: podsNamed("u3")}, {NodeClaim: "default-gone", Pods: podsNamed("u9")},
	}}
	for _, when := range []string{"once", "again"} {
		got, err := w.client.Withdraw(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"default-1", "default-gone"}; !slices.Equal(got.GetDeleted(), want) {
			t.Errorf("%s: deleted %v, want %v", when, got.GetDeleted(), want)
		}
	}
	var list karpv1.NodeClaimList
	if err := w.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	stay := map[string][]string{}
	for i := range list.Items {
		if c := &list.Items[i]; c.DeletionTimestamp.IsZero() {
			pods, err := record.Pods(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range pods {
				stay[c.Name] = append(stay[c.Name], pod.UID)
			}
		}
	}
	if diff := cmp.Diff(map[string][]string{"default-2": {"u4"}, "default-3": {"u5"}}, stay); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A NodeClaim that was launched for no pods stays, though it promises nothing any more: a CapacityBuffer, a static NodePool or a user wants it.
func TestWithdrawLeavesWhatWasNotLaunchedForPods(t *testing.T) {
	users := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "users"}}
	w := newWorld(t, append(ready("default", nil), users)...)
	w.launch(&api.LaunchRequest{Purpose: api.Purpose_PURPOSE_BUFFER, Claims: []*api.Claim{planned("default-buffer", "default")}})
	<-w.handed
	half := []*api.InFlightPlacement{{NodeClaim: "default-buffer", Pods: podsNamed("u1")}, {NodeClaim: "users", Pods: podsNamed("u2")}}
	w.launch(&api.LaunchRequest{Placements: half, Claims: []*api.Claim{planned("default-1", "default", "u3")}})
	<-w.handed
	got, err := w.client.Withdraw(t.Context(), &api.WithdrawRequest{
		Version: api.OwnVersion(), Promises: append(half, &api.InFlightPlacement{NodeClaim: "default-1", Pods: podsNamed("u3")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"default-1"}; !slices.Equal(got.GetDeleted(), want) {
		t.Errorf("deleted %v, want %v", got.GetDeleted(), want)
	}
	for _, p := range half {
		claim := &karpv1.NodeClaim{}
		if err := w.api.Get(t.Context(), apitypes.NamespacedName{Name: p.GetNodeClaim()}, claim); err != nil {
			t.Fatal(err)
		}
		if pods, err := record.Pods(claim); err != nil || len(pods) > 0 || !claim.DeletionTimestamp.IsZero() {
			t.Errorf("NodeClaim %s promises room to %v, deleted at %v, %v", claim.Name, pods, claim.DeletionTimestamp, err)
		}
	}
}

// podsNamed are pods as planned names them.
func podsNamed(uids ...string) []*api.PodRef { return planned("", "", uids...).GetPods() }

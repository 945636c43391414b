package server_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// podsNamed are pods as planned names them.
func podsNamed(uids ...string) []*api.PodRef { return planned("", "", uids...).GetPods() }

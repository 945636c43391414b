package server_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// Commitments are sent when they change, and nothing else with them; a list that has become empty is sent as well.
func TestCommitmentsAreSent(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.committed.Store(&[]commitment.Commitment{{ID: "sp-1", Kind: commitment.ComputeSavingsPlan, USDPerHour: 2, Discount: 0.25, Share: 0.5}})
	updates := w.watch(w.client)
	first := w.await(updates, "the first message", func(*api.CatalogUpdate) bool { return true })
	if list := first.GetCommitments().GetList(); len(list) != 1 || list[0].GetId() != "sp-1" || list[0].GetShare() != 0.5 || list[0].GetKind() != "ComputeSavingsPlan" {
		t.Errorf("first message: %v", list)
	}
	w.committed.Store(&[]commitment.Commitment{{ID: "ri-1", Kind: commitment.ReservedInstances, InstanceType: "m5.large", Count: 3, Zone: "a", Share: 1}})
	w.subject.Recheck()
	second := w.await(updates, "other commitments", func(u *api.CatalogUpdate) bool { return u.GetCommitments() != nil })
	if list := second.GetCommitments().GetList(); len(list) != 1 || list[0].GetCount() != 3 || len(second.GetInstanceTypes())+len(second.GetNodePools()) > 0 {
		t.Errorf("second message: %v", second)
	}
	w.committed.Store(nil)
	w.subject.Recheck()
	third := w.await(updates, "no commitments", func(u *api.CatalogUpdate) bool { return u.GetCommitments() != nil })
	if len(third.GetCommitments().GetList()) > 0 {
		t.Errorf("third message: %v", third)
	}
}

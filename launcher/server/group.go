package server

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// grouped is a claim or a placement.
type grouped interface{ GetGroup() string }

// broken maps the groups of a request of which a part was refused to the refusal: a group is recorded completely or not at all.
type broken map[string]string

// note adds a result.
func (b broken) note(in grouped, r *api.Result) {
	if group := in.GetGroup(); group != "" && !r.GetRecorded() && b[group] == "" {
		b[group] = fmt.Sprintf("%s of the same gang was not recorded: %s", r.GetName(), r.GetMessage())
	}
}

// refusal returns the refusal of a member of a broken group, nil for any other.
func (b broken) refusal(in grouped, name string) error {
	if why := b[in.GetGroup()]; why != "" && in.GetGroup() != "" {
		return &refusal{api.ReasonGangIncomplete, fmt.Sprintf("claim %s: %s", name, why)}
	}
	return nil
}

// spread refuses all claims of groups of which one is refused already, before anything is written.
func (s *Server) spread(claims []*api.Claim, over []error) {
	b := broken{}
	for i, c := range claims {
		if unwritten(over[i]) {
			b.note(c, result(c.GetName(), over[i]))
		}
	}
	for i, c := range claims {
		if err := b.refusal(c, c.GetName()); err != nil && !unwritten(over[i]) {
			over[i] = err
			s.ledger.withdraw(c.GetName())
		}
	}
}

// takeBack deletes the NodeClaims that were just written for broken groups. No client has received them: if this process ends first, the
// request was not answered, and the next full state shows what exists.
func (s *Server) takeBack(ctx context.Context, in *api.LaunchRequest, out *api.LaunchResponse, recorded []*karpv1.NodeClaim) {
	b := broken{}
	for i, c := range in.GetClaims() {
		b.note(c, out.GetClaims()[i])
	}
	for i, p := range in.GetPlacements() {
		if r := out.GetPlacements()[i]; r != nil {
			b.note(p, r)
		}
	}
	for i, c := range in.GetClaims() {
		err := b.refusal(c, c.GetName())
		if err == nil || recorded[i] == nil {
			continue
		}
		gone := recorded[i]
		if failed := s.config.Client.Delete(ctx, gone, client.Preconditions{UID: &gone.UID}); client.IgnoreNotFound(failed) != nil {
			klog.FromContext(ctx).Error(failed, "NodeClaim of an incomplete gang was not deleted and is launched", "nodeClaim", klog.KObj(gone))
			continue
		}
		recorded[i] = nil
		s.ledger.withdraw(c.GetName())
		out.Claims[i] = result(c.GetName(), err)
	}
	for i, p := range in.GetPlacements() {
		if err := b.refusal(p, p.GetNodeClaim()); err != nil && out.GetPlacements()[i] == nil {
			out.Placements[i] = result(p.GetNodeClaim(), err)
		}
	}
}

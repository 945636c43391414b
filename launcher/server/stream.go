package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

const (
	// coalesce is how long a stream waits after a change for related ones, coalescePerClaim how much longer for each NodeClaim of the cluster: twenty times
	// what a look at one takes, 4 µs, so that a wave of thousands of changes costs a twentieth of a core. It does not depend on how long looks take, as what
	// the scheduler does not know yet must not depend on how busy the machine is.
	coalesce, coalescePerClaim = 2 * time.Millisecond, 80 * time.Microsecond
	// coalesceMost is how long a stream waits at most.
	coalesceMost = 400 * time.Millisecond
)

// pause returns how long a stream waits after a change in a cluster of so many NodeClaims.
func pause(claims int) time.Duration {
	return min(coalesce+time.Duration(claims)*coalescePerClaim, coalesceMost)
}

// sentState is the state that a stream has sent to its client.
type sentState struct {
	pools    map[string]*api.NodePool
	types    map[string]*api.InstanceTypes
	inFlight map[string]*api.InFlightNode
	// claims is how many NodeClaims were looked at.
	claims int
	// committed are the commitments, commitments the message of them.
	committed   []commitment.Commitment
	commitments *api.Commitments
}

// commit sets the commitments; the message is that of the state before if they are the same list.
func (s *sentState) commit(before sentState, list []commitment.Commitment) {
	s.committed, s.commitments = list, before.commitments
	if len(list) != len(before.committed) || len(list) > 0 && &list[0] != &before.committed[0] {
		s.commitments = committed(list)
	}
}

// begin waits until a full state is complete: the current Launch has ended, whichever scheduler sent it, and the cache shows what it wrote.
func (s *Server) begin(ctx context.Context) error {
	done, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	done()
	if err := s.caughtUp(ctx); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// WatchCatalog implements api.LauncherServer.
func (s *Server) WatchCatalog(in *api.WatchCatalogRequest, stream api.Launcher_WatchCatalogServer) error {
	ctx := stream.Context()
	if err := s.config.Peer.check(ctx, in.GetVersion()); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	known, generation, remembered := sentState{}, uint64(0), memory{}
	ends := newEnds(&s.hub.ends)
	for {
		changed := s.hub.next()
		now, next, err := s.collect(ctx, remembered)
		if err != nil {
			return err
		}
		now.commit(known, s.config.Commitments())
		remembered = next
		update := diff(known, now)
		update.Ended = ends.with(update.GetEnded(), func(name string) bool { return known.inFlight[name] != nil || now.inFlight[name] != nil })
		if generation == 0 {
			update.Full, update.Version = true, api.OwnVersion()
		}
		if update.GetFull() || !empty(update) {
			generation++
			update.Generation = generation
			s.explainEnds(ctx, update.GetEnded(), known)
			if err := stream.Send(update); err != nil {
				return err
			}
			if update.GetFull() {
				s.config.Peer.receives(ctx)
			}
			known = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause(now.claims)):
		}
	}
}

// diff returns the message that updates a client from the known state to the current one; endings have no outcome yet.
func diff(known, now sentState) *api.CatalogUpdate {
	out := &api.CatalogUpdate{}
	out.NodePools, out.RemovedNodePools = changes(known.pools, now.pools)
	out.InstanceTypes, out.RemovedNodeClasses = changes(known.types, now.types)
	if now.commitments != known.commitments {
		out.Commitments = now.commitments
	}
	var gone []string
	out.InFlight, gone = changes(known.inFlight, now.inFlight)
	for _, name := range gone {
		out.Ended = append(out.Ended, &api.InFlightEnd{NodeClaim: name, NodeName: known.inFlight[name].GetNodeName()})
	}
	return out
}

// changes lists new and changed entries, and the names of deleted ones, both in the order of names. Messages are not changed once they are
// sent, so the same pointer means the same content.
func changes[M interface {
	proto.Message
	comparable
}](known, now map[string]M) (changed []M, gone []string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if before, ok := known[name]; !ok || before != now[name] && !proto.Equal(before, now[name]) {
			changed = append(changed, now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := now[name]; !ok {
			gone = append(gone, name)
		}
	}
	return changed, gone
}

func empty(u *api.CatalogUpdate) bool {
	return len(u.GetNodePools())+len(u.GetRemovedNodePools())+len(u.GetInstanceTypes())+len(u.GetRemovedNodeClasses())+
		len(u.GetInFlight())+len(u.GetEnded()) == 0 && u.GetCommitments() == nil
}

// explainEnds adds to the ends how the in-flight nodes ended.
func (s *Server) explainEnds(ctx context.Context, ends []*api.InFlightEnd, known sentState) {
	for _, e := range ends {
		s.explainEnd(ctx, e, known.inFlight[e.GetNodeClaim()])
	}
}

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
)

const (
	// coalesce is how long a stream waits after a change for those that come with it, coalesceMost how long it waits at most.
	coalesce, coalesceMost = 2 * time.Millisecond, 200 * time.Millisecond
	// idle is how much longer than it works a stream waits: a wave of thousands of changes costs a quarter of a core at most.
	idle = 3
)

// told is what a stream's client knows.
type told struct {
	pools    map[string]*api.NodePool
	types    map[string]*api.InstanceTypes
	inFlight map[string]*api.InFlightNode
}

// begin waits until a full state is the whole truth: a Launch under way is over, whoever sent it, and the cache shows what it wrote.
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
	known, generation, remembered := told{}, uint64(0), memory{}
	for {
		changed, began := s.hub.next(), time.Now()
		now, next, err := s.collect(ctx, remembered)
		if err != nil {
			return err
		}
		remembered = next
		update := diff(known, now)
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
			known = now
		}
		pause := min(max(coalesce, idle*time.Since(began)), coalesceMost)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// diff is the message that brings a client from what it knows to what is; endings have no outcome yet.
func diff(known, now told) *api.CatalogUpdate {
	out := &api.CatalogUpdate{}
	out.NodePools, out.RemovedNodePools = changes(known.pools, now.pools)
	out.InstanceTypes, out.RemovedNodeClasses = changes(known.types, now.types)
	var gone []string
	out.InFlight, gone = changes(known.inFlight, now.inFlight)
	for _, name := range gone {
		out.Ended = append(out.Ended, &api.InFlightEnd{NodeClaim: name, NodeName: known.inFlight[name].GetNodeName()})
	}
	return out
}

// changes lists what is new or changed, and the names that are gone, both in the order of names. Messages are never changed
// once they are told, so that the same pointer means the same content.
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
		len(u.GetInFlight())+len(u.GetEnded()) == 0
}

// explainEnds fills in how in-flight nodes ended.
func (s *Server) explainEnds(ctx context.Context, ends []*api.InFlightEnd, known told) {
	for _, e := range ends {
		s.explainEnd(ctx, e, known.inFlight[e.GetNodeClaim()])
	}
}

package plugin_test

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// testLauncher serves the real contract on a unix socket and records what it is asked; what becomes of a claim is the
// test's to say.
type testLauncher struct {
	api.UnimplementedLauncherServer
	socket string
	server *grpc.Server

	mu       sync.Mutex
	pools    []*api.NodePool
	types    []*api.InstanceTypes
	inFlight map[string]*api.InFlightNode
	watchers map[chan *api.CatalogUpdate]struct{}
	launches []*api.LaunchRequest
	// recorded are the answers by batch: what is sent again is recorded once.
	recorded map[string]*api.LaunchResponse
	leads    []*api.LeadRequest
	resigned bool
	refuse   func(*api.Claim) *api.Result
	// silent says that claims are recorded but not shown in the stream.
	silent bool
	// away makes Launch fail.
	away bool
	// unsaid makes Launch fail for requests that it has recorded, but for the claims that it refuses.
	unsaid bool
	// opens, where it is set, is received from before a catalog stream that is opened gets its full state.
	opens chan struct{}
	// before is called, if it is set, when a launch has come and before anything of it is recorded.
	before func()
	// streams counts the catalog streams that were opened.
	streams int
	// unanswered counts the launches that came while it was away.
	unanswered int
	questions  chan *api.Question
	answers    chan *api.Answer
	// version of the contract that it speaks.
	version *api.Version
}

func newTestLauncher(tb testing.TB) *testLauncher {
	tb.Helper()
	l := &testLauncher{
		socket: filepath.Join(tb.TempDir(), "l.sock"), version: api.OwnVersion(),
		inFlight: map[string]*api.InFlightNode{}, recorded: map[string]*api.LaunchResponse{}, watchers: map[chan *api.CatalogUpdate]struct{}{},
		questions: make(chan *api.Question, 10), answers: make(chan *api.Answer, 10),
		pools: []*api.NodePool{pool("default")},
		types: []*api.InstanceTypes{{NodeClass: "default", Types: instanceTypes()}},
	}
	return l
}

// serve starts to listen; a launcher that was stopped can serve again.
func (l *testLauncher) serve(tb testing.TB) {
	tb.Helper()
	lis, err := net.Listen("unix", l.socket)
	if err != nil {
		tb.Fatal(err)
	}
	l.server = grpc.NewServer()
	api.RegisterLauncherServer(l.server, l)
	server := l.server
	go func() { _ = server.Serve(lis) }()
	tb.Cleanup(server.Stop)
}

func pool(name string) *api.NodePool {
	return &api.NodePool{
		Name: name, NodeClass: "default", Ready: true, Labels: map[string]string{"karpenter.sh/nodepool": name},
		Requirements: []*api.Requirement{{Key: "karpenter.sh/capacity-type", Operator: "In", Values: []string{"spot", "on-demand"}}},
	}
}

func instanceTypes() []*api.InstanceType {
	var out []*api.InstanceType
	for _, t := range []struct {
		name, cpu, memory string
		price             float64
	}{{"m7g.large", "1930m", "7Gi", 0.08}, {"m7g.xlarge", "3920m", "14Gi", 0.16}, {"m7g.4xlarge", "15890m", "58Gi", 0.65}} {
		it := &api.InstanceType{
			Name: t.name,
			Labels: map[string]string{
				"node.kubernetes.io/instance-type": t.name, "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
			},
			Capacity:    map[string]string{"cpu": t.cpu, "memory": t.memory, "pods": "58", "ephemeral-storage": "20Gi"},
			Allocatable: map[string]string{"cpu": t.cpu, "memory": t.memory, "pods": "58", "ephemeral-storage": "17Gi"},
		}
		for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
			it.Offerings = append(it.Offerings,
				&api.Offering{Zone: zone, ZoneId: "use1-" + zone[9:], CapacityType: "spot", Price: t.price * 0.35, Available: true},
				&api.Offering{Zone: zone, ZoneId: "use1-" + zone[9:], CapacityType: "on-demand", Price: t.price, Available: true})
		}
		out = append(out, it)
	}
	return out
}

func (l *testLauncher) WatchCatalog(_ *api.WatchCatalogRequest, s grpc.ServerStreamingServer[api.CatalogUpdate]) error {
	updates := make(chan *api.CatalogUpdate, 1000)
	l.mu.Lock()
	opens := l.opens
	l.mu.Unlock()
	if opens != nil {
		select {
		case <-opens:
		case <-s.Context().Done():
			return nil
		}
	}
	l.mu.Lock()
	full := &api.CatalogUpdate{Generation: 1, Full: true, Version: l.version, NodePools: l.pools, InstanceTypes: l.types}
	for _, n := range l.inFlight {
		full.InFlight = append(full.InFlight, n)
	}
	l.watchers[updates] = struct{}{}
	l.streams++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.watchers, updates)
		l.mu.Unlock()
	}()
	if err := s.Send(full); err != nil {
		return err
	}
	for generation := uint64(2); ; generation++ {
		select {
		case <-s.Context().Done():
			return nil
		case u := <-updates:
			if u == nil {
				return status.Error(codes.Unavailable, "broken")
			}
			u.Generation = generation
			if err := s.Send(u); err != nil {
				return err
			}
		}
	}
}

// publish sends a change to all streams. Call it with the lock held.
func (l *testLauncher) publish(build func() *api.CatalogUpdate) {
	for w := range l.watchers {
		w <- build()
	}
}

// reconnect breaks the catalog streams and returns once another one has been opened.
func (l *testLauncher) reconnect() {
	l.mu.Lock()
	opened := l.streams
	l.publish(func() *api.CatalogUpdate { return nil })
	l.mu.Unlock()
	for again := false; !again; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		again = l.streams > opened
		l.mu.Unlock()
	}
}

func (l *testLauncher) Launch(_ context.Context, req *api.LaunchRequest) (*api.LaunchResponse, error) {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()
	if before != nil {
		before()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		l.unanswered++
		return nil, status.Error(codes.Unavailable, "away")
	}
	if resp := l.recorded[req.GetBatch()]; resp != nil {
		return l.answer(resp)
	}
	l.launches = append(l.launches, req)
	resp := &api.LaunchResponse{}
	l.recorded[req.GetBatch()] = resp
	for _, c := range req.GetClaims() {
		if l.refuse != nil {
			if r := l.refuse(c); r != nil {
				resp.Claims = append(resp.Claims, r)
				continue
			}
		}
		resp.Claims = append(resp.Claims, &api.Result{Name: c.GetName(), Recorded: true})
		if l.silent {
			continue
		}
		n := &api.InFlightNode{
			NodeClaim: c.GetName(), NodePool: c.GetNodePool(), Phase: api.Phase_PHASE_RECORDED, Pods: c.GetPods(),
			Replaces: c.GetReplaces(), InstanceType: c.GetExpected().GetInstanceType(), Zone: c.GetExpected().GetZone(),
			CapacityType: c.GetExpected().GetCapacityType(), Labels: l.labels(c), Allocatable: l.allocatable(c), Standby: c.GetStandby(),
		}
		l.inFlight[c.GetName()] = n
		l.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{InFlight: []*api.InFlightNode{n}} })
	}
	for _, p := range req.GetPlacements() {
		resp.Placements = append(resp.Placements, &api.Result{Name: p.GetNodeClaim(), Recorded: true})
		old := l.inFlight[p.GetNodeClaim()]
		n := &api.InFlightNode{
			NodeClaim: old.GetNodeClaim(), NodeName: old.GetNodeName(), NodePool: old.GetNodePool(), Phase: old.GetPhase(),
			Labels: old.GetLabels(), Allocatable: old.GetAllocatable(), Pods: slices.Concat(old.GetPods(), p.GetPods()), Replaces: old.GetReplaces(),
			InstanceType: old.GetInstanceType(), Zone: old.GetZone(), CapacityType: old.GetCapacityType(), Standby: old.GetStandby(),
		}
		l.inFlight[p.GetNodeClaim()] = n
		l.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{InFlight: []*api.InFlightNode{n}} })
	}
	return l.answer(resp)
}

// answer is resp, unless it remains unsaid.
func (l *testLauncher) answer(resp *api.LaunchResponse) (*api.LaunchResponse, error) {
	if l.unsaid {
		return nil, status.Error(codes.Unavailable, "unsaid")
	}
	return resp, nil
}

// offerAMD replaces what can be launched by the same for amd64.
func (l *testLauncher) offerAMD() {
	l.mu.Lock()
	defer l.mu.Unlock()
	types := instanceTypes()
	for _, it := range types {
		it.Name = strings.Replace(it.GetName(), "m7g", "m7i", 1)
		it.Labels["kubernetes.io/arch"], it.Labels["node.kubernetes.io/instance-type"] = "amd64", it.GetName()
	}
	l.types = []*api.InstanceTypes{{NodeClass: "default", Types: types}}
	l.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{InstanceTypes: l.types} })
}

func (l *testLauncher) labels(c *api.Claim) map[string]string {
	return map[string]string{
		"karpenter.sh/nodepool": c.GetNodePool(), "topology.kubernetes.io/zone": c.GetExpected().GetZone(),
		"karpenter.sh/capacity-type":       c.GetExpected().GetCapacityType(),
		"node.kubernetes.io/instance-type": c.GetExpected().GetInstanceType(),
		"kubernetes.io/arch":               "arm64", "kubernetes.io/os": "linux",
	}
}

func (l *testLauncher) allocatable(c *api.Claim) map[string]string {
	for _, t := range l.types[0].GetTypes() {
		if t.GetName() == c.GetExpected().GetInstanceType() {
			return t.GetAllocatable()
		}
	}
	return nil
}

// endUnseen ends an in-flight node between two catalog streams: no stream reports it.
func (l *testLauncher) endUnseen(name string) {
	l.mu.Lock()
	delete(l.inFlight, name)
	l.mu.Unlock()
	l.reconnect()
}

// end reports how an in-flight node ended.
func (l *testLauncher) end(name, nodeName string, outcome api.Outcome) {
	l.endFor(name, nodeName, outcome, ec2error.ReasonInsufficientCapacity)
}

// endFor ends a node for a reason.
func (l *testLauncher) endFor(name, nodeName string, outcome api.Outcome, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var unbound []string
	for _, p := range l.inFlight[name].GetPods() {
		if !slices.Contains(l.inFlight[name].GetBoundPods(), p.GetUid()) {
			unbound = append(unbound, p.GetUid())
		}
	}
	delete(l.inFlight, name)
	l.publish(func() *api.CatalogUpdate {
		return &api.CatalogUpdate{Ended: []*api.InFlightEnd{{
			NodeClaim: name, NodeName: nodeName, Outcome: outcome, Reason: reason, Message: "no capacity", UnboundPods: unbound,
		}}}
	})
}

func (l *testLauncher) Lead(_ context.Context, req *api.LeadRequest) (*api.LeadResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = append(l.leads, req)
	return &api.LeadResponse{}, nil
}

func (l *testLauncher) Resign(context.Context, *api.ResignRequest) (*api.ResignResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resigned = true
	return &api.ResignResponse{}, nil
}

func (l *testLauncher) Ask(s grpc.BidiStreamingServer[api.Answer, api.Question]) error {
	l.mu.Lock()
	version := l.version
	l.mu.Unlock()
	if err := s.Send(&api.Question{Version: version}); err != nil {
		return err
	}
	go func() {
		for {
			a, err := s.Recv()
			if err != nil {
				return
			}
			if a.GetId() != "" {
				l.answers <- a
			}
		}
	}()
	for {
		select {
		case <-s.Context().Done():
			return nil
		case q := <-l.questions:
			if err := s.Send(q); err != nil {
				return err
			}
		}
	}
}

// requests returns the batches so far.
func (l *testLauncher) requests() []*api.LaunchRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.launches)
}

// back makes Launch work again.
func (l *testLauncher) back() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

// missed counts the launches that failed because it was away.
func (l *testLauncher) missed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unanswered
}

// claims returns all claims so far.
func (l *testLauncher) claims() []*api.Claim {
	var out []*api.Claim
	for _, r := range l.requests() {
		out = append(out, r.GetClaims()...)
	}
	return out
}

// podNames counts how often each pod was sent.
func (l *testLauncher) podNames() map[string]int {
	out := map[string]int{}
	for _, r := range l.requests() {
		for _, c := range r.GetClaims() {
			for _, p := range c.GetPods() {
				out[p.GetName()]++
			}
		}
		for _, c := range r.GetPlacements() {
			for _, p := range c.GetPods() {
				out[p.GetName()]++
			}
		}
	}
	return out
}

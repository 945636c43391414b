package link_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// server sends what the test puts in, to each stream from the start.
type server struct {
	api.UnimplementedLauncherServer
	mu      sync.Mutex
	leads   int
	streams int
	// script is what each catalog stream sends before it waits or breaks.
	script [][]*api.CatalogUpdate
	// speaks returns the version that it sends. The same as the client's where it is not set.
	speaks func() *api.Version
	// refuses has it refuse all calls, as a launcher of that version does.
	refuses bool
	// heard are the versions that clients sent, by call.
	heard sync.Map
	asks  chan *api.Question
	got   chan *api.Answer
}

func (s *server) Lead(context.Context, *api.LeadRequest) (*api.LeadResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads++
	return &api.LeadResponse{}, nil
}

// version notes what a client sent with a call, and returns the server's version, or why it refuses the client.
func (s *server) version(call string, client *api.Version) (*api.Version, error) {
	s.heard.Store(call, client.Text())
	own := api.OwnVersion()
	if s.speaks != nil {
		own = s.speaks()
	}
	if !s.refuses {
		return own, nil
	}
	refused, err := status.New(codes.FailedPrecondition, "another version").WithDetails(own)
	if err != nil {
		return nil, err
	}
	return nil, refused.Err()
}

func (s *server) Launch(_ context.Context, in *api.LaunchRequest) (*api.LaunchResponse, error) {
	_, err := s.version("Launch", in.GetVersion())
	return &api.LaunchResponse{}, err
}

func (s *server) WatchCatalog(in *api.WatchCatalogRequest, stream grpc.ServerStreamingServer[api.CatalogUpdate]) error {
	version, err := s.version("WatchCatalog", in.GetVersion())
	if err != nil {
		return err
	}
	s.mu.Lock()
	turn := s.streams
	s.streams++
	s.mu.Unlock()
	if turn < len(s.script) {
		for i, m := range s.script[turn] {
			if i == 0 {
				m = proto.CloneOf(m)
				m.Version = version
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
	if turn < len(s.script)-1 {
		return errors.New("broken")
	}
	<-stream.Context().Done()
	return nil
}

func (s *server) Ask(stream grpc.BidiStreamingServer[api.Answer, api.Question]) error {
	first, err := stream.Recv()
	if err != nil || first.GetId() != "" {
		return errors.New("the stream must be opened with an empty answer")
	}
	version, err := s.version("Ask", first.GetVersion())
	if err != nil {
		return err
	}
	if err := stream.Send(&api.Question{Version: version}); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case q := <-s.asks:
			if err := stream.Send(q); err != nil {
				return err
			}
			a, err := stream.Recv()
			if err != nil {
				return err
			}
			s.got <- a
		}
	}
}

type client struct {
	*link.Link
	updates   chan link.Update
	connected chan link.Connection
	questions chan *api.Question
}

func connect(t *testing.T, s *server, late time.Duration) *client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	g := grpc.NewServer()
	api.RegisterLauncherServer(g, s)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		time.Sleep(late)
		lis, err := net.Listen("unix", socket)
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _ = g.Serve(lis) }()
	}()
	c := &client{updates: make(chan link.Update, 100), connected: make(chan link.Connection, 100), questions: make(chan *api.Question, 100)}
	var err error
	c.Link, err = link.New(link.Config{
		Socket: socket, Identity: "me",
		OnCatalog: func(u link.Update) { c.updates <- u }, OnConnection: func(now link.Connection) { c.connected <- now },
		OnQuestion: func(q *api.Question) { c.questions <- q },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { c.RunCatalog(ctx) })
	all.Go(func() { c.RunQuestions(ctx) })
	t.Cleanup(func() {
		cancel()
		all.Wait()
		<-listening
		g.Stop()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func receive[T any](t *testing.T, c chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// script is two streams: a full state with two changes, and another full state after the first has broken.
func script() [][]*api.CatalogUpdate {
	return [][]*api.CatalogUpdate{
		{
			{
				Generation: 1, Full: true,
				NodePools: []*api.NodePool{{Name: "a", Limits: map[string]string{"cpu": "10", "memory": "broken"}, NodeCost: 0.25, IdleCpu: 0.4}, {Name: "b"}},
				InstanceTypes: []*api.InstanceTypes{{NodeClass: "class", Types: []*api.InstanceType{{
					Name: "t3.small", Charges: &api.Charges{Volumes: 0.002, PublicIpv4: 0.005, BaselineCpu: 400, SurplusCpu: 0.05},
				}}}},
				InFlight: []*api.InFlightNode{{NodeClaim: "a-1", NodeName: "ip-1", Phase: api.Phase_PHASE_READY, Deadline: 1000}},
			},
			{Generation: 2, RemovedNodePools: []string{"b"}, InFlight: []*api.InFlightNode{{NodeClaim: "a-2"}}},
			{Generation: 3, Ended: []*api.InFlightEnd{{NodeClaim: "a-1", Outcome: api.Outcome_OUTCOME_INITIALIZED, UnboundPods: []string{"u"}}}},
		},
		{{Generation: 1, Full: true, NodePools: []*api.NodePool{{Name: "c"}}}},
	}
}

// A launcher that comes back after seconds is noticed at once: pods wait for it.
func TestLateLauncherIsNoticed(t *testing.T) {
	const late, within = 3400 * time.Millisecond, 1200 * time.Millisecond
	began := time.Now()
	c := connect(t, &server{script: [][]*api.CatalogUpdate{{{Full: true}}}}, late)
	if now := receive(t, c.connected); !now.Up {
		t.Errorf("connection %+v", now)
	}
	if took := time.Since(began); took > late+within {
		t.Errorf("noticed %s after it listened", took-late)
	}
}

func TestCatalogStream(t *testing.T) {
	c := connect(t, &server{script: script()}, 200*time.Millisecond)
	full := receive(t, c.updates)
	if !full.Full || !full.Offers || len(full.State.NodePools) != 2 || full.State.InFlight["a-1"].Phase != catalog.PhaseReady {
		t.Errorf("first update %+v", full)
	}
	if want := (corev1.ResourceList{"cpu": resource.MustParse("10")}); !cmp.Equal(full.State.NodePools["a"].Limits, want) {
		t.Errorf("limits %v: what is no quantity must be left out, and nothing else", full.State.NodePools["a"].Limits)
	}
	want := catalog.Charges{Volumes: 0.002, PublicIPv4: 0.005, BaselineCPU: 400, SurplusCPU: 0.05}
	if got := full.State.InstanceTypes["class"]; len(got) != 1 || got[0].Charges != want || full.State.NodePools["a"].Declared != (catalog.Declared{NodeCost: 0.25, IdleCPU: 0.4}) {
		t.Errorf("charges %+v, declared %+v", got, full.State.NodePools["a"].Declared)
	}
	second := receive(t, c.updates)
	if second.Full || !cmp.Equal(second.Changed, []string{"a-2"}) || len(second.State.NodePools) != 1 || len(second.State.InFlight) != 2 {
		t.Errorf("second update %+v", second)
	}
	third := receive(t, c.updates)
	if len(full.State.NodePools) != 2 || len(full.State.InFlight) != 1 {
		t.Error("a state that was handed out has changed")
	}
	checkThird(t, third)
}

func checkThird(t *testing.T, third link.Update) {
	t.Helper()
	if len(third.Ended) != 1 || third.Ended[0].Node.NodeName != "ip-1" || len(third.State.InFlight) != 1 || third.Offers {
		t.Errorf("third update %+v", third)
	}
}

func TestReconnection(t *testing.T) {
	s := &server{script: script()}
	c := connect(t, s, 0)
	first := receive(t, c.updates)
	up := link.Connection{Up: true, Launcher: api.OwnVersion().Text(), Skew: api.SkewNone}
	for _, want := range []link.Connection{up, {}, up} {
		if got := receive(t, c.connected); got != want {
			t.Errorf("connection %v, want %v", got, want)
		}
	}
	var again link.Update
	for range 3 {
		again = receive(t, c.updates)
	}
	if !again.Full || len(again.State.NodePools) != 1 || len(again.State.InFlight) != 0 || !again.Opened.After(first.Opened) {
		t.Errorf("after the reconnection %+v", again)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leads != 2 {
		t.Errorf("Lead was called %d times, want once for each connection", s.leads)
	}
}

func TestResync(t *testing.T) {
	s := &server{script: [][]*api.CatalogUpdate{{{Full: true}}}}
	c := connect(t, s, 0)
	receive(t, c.updates)
	// From the second stream on the script is over: no message comes, but the stream must have been opened.
	c.Resync()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		s.mu.Lock()
		n := s.streams
		s.mu.Unlock()
		if n >= 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the stream was not opened again")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestQuestions(t *testing.T) {
	s := &server{script: [][]*api.CatalogUpdate{{{Full: true}}}, asks: make(chan *api.Question, 1), got: make(chan *api.Answer, 1)}
	c := connect(t, s, 0)
	s.asks <- &api.Question{Id: "7"}
	q := receive(t, c.questions)
	if err := c.Reply(&api.Answer{Id: q.GetId()}); err != nil {
		t.Fatal(err)
	}
	if a := receive(t, s.got); a.GetId() != "7" {
		t.Errorf("answer %v", a)
	}
}

func TestRequest(t *testing.T) {
	pods := []plan.Member{{Pods: []catalog.PodRef{{Namespace: "n", Name: "p", UID: "u", SchedulerOnly: "why", Adopted: true}}}}
	req := link.Request("b", api.Purpose_PURPOSE_MOVE, plan.Plan{
		Claims: []plan.Claim{{
			Name: "default-1", NodePool: "default", Alternatives: []string{"x", "y"}, Members: pods, Replaces: []string{"old", "older"},
			Requirements: []catalog.Requirement{{Key: "k", Operator: corev1.NodeSelectorOpIn, Values: []string{"v"}, MinValues: 2}},
			Expected:     plan.Offer{InstanceType: "x", Zone: "z", CapacityType: "spot", Price: 0.5},
			Requests:     corev1.ResourceList{"cpu": resource.MustParse("1500m")},
		}},
		Placements: []plan.Placement{{Node: "default-0", InFlight: true, Members: pods}, {Node: "exists", Members: pods}},
	}, []plan.Class{{Pod: &corev1.Pod{}}})
	c := req.GetClaims()[0]
	if c.GetName() != "default-1" || c.GetRequests()["cpu"] != "1500m" || c.GetRequirements()[0].GetMinValues() != 2 ||
		c.GetExpected().GetPrice() != 0.5 || c.GetPods()[0].GetSchedulerOnly() != "why" || !c.GetPods()[0].GetAdopted() || !slices.Equal(c.GetReplaces(), []string{"old", "older"}) {
		t.Errorf("claim %v", c)
	}
	if req.GetPurpose() != api.Purpose_PURPOSE_MOVE {
		t.Errorf("purpose %s", req.GetPurpose())
	}
	if len(req.GetPlacements()) != 1 || req.GetPlacements()[0].GetNodeClaim() != "default-0" {
		t.Errorf("placements %v: those on nodes that exist are none of the launcher's business", req.GetPlacements())
	}
}

// Nodes that hold pods of one gang are recorded together, and so are those of a gang that shares a node with it.
func TestRequestGroups(t *testing.T) {
	var classes []plan.Class
	for _, gang := range []string{"", "a", "b", "c"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
		if gang != "" {
			pod.Labels = map[string]string{plan.LabelGang: gang}
		}
		classes = append(classes, plan.Class{Pod: pod})
	}
	claim := func(classes ...int) plan.Claim {
		var c plan.Claim
		for _, ci := range classes {
			c.Members = append(c.Members, plan.Member{Class: ci})
		}
		return c
	}
	req := link.Request("b", api.Purpose_PURPOSE_MOVE, plan.Plan{
		Claims:     []plan.Claim{claim(0), claim(2, 0), claim(1, 2), claim(3)},
		Placements: []plan.Placement{{Node: "exists", Members: claim(3).Members}, {Node: "f", InFlight: true, Members: claim(0, 1).Members}},
	}, classes)
	var got []string
	for _, c := range req.GetClaims() {
		got = append(got, c.GetGroup())
	}
	got = append(got, req.GetPlacements()[0].GetGroup())
	if want := []string{"", "n/a", "n/a", "n/c", "n/a"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

func TestNewChecksItsConfig(t *testing.T) {
	if _, err := link.New(link.Config{}); err == nil {
		t.Error("a link without a socket")
	}
	if _, err := link.New(link.Config{Socket: "/s"}); err == nil {
		t.Error("a link that tells nobody")
	}
}

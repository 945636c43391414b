package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/server"
)

// speaking has a client send a version of the contract with whatever has one.
func speaking(version *api.Version) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return call(ctx, method, signed(req, version), reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, cc, method, opts...)
			return signedStream{stream, version}, err
		}),
	}
}

type signedStream struct {
	grpc.ClientStream
	version *api.Version
}

func (s signedStream) SendMsg(m any) error { return s.ClientStream.SendMsg(signed(m, s.version)) }

func signed(message any, version *api.Version) any {
	switch m := message.(type) {
	case *api.LaunchRequest:
		m.Version = version
	case *api.WatchCatalogRequest:
		m.Version = version
	case *api.Answer:
		m.Version = version
	}
	return message
}

// others are the versions of schedulers with which the launcher does not go on: one before versions were sent, and one of later.
func others() []*api.Version {
	return []*api.Version{nil, {Major: api.ProtocolMajor + 1}}
}

// A scheduler of another major version is refused whatever it asks for, with the reason: nothing is recorded, no catalog is sent, which it
// might take for complete, and its stream has no questions. It can still lead and resign.
func TestAnotherVersionIsRefused(t *testing.T) {
	for _, version := range others() {
		t.Run(version.Text(), func(t *testing.T) {
			w := newWorld(t, ready("default", nil)...)
			c := w.dialAs(version)
			for what, err := range w.callAll(c) {
				var refused *api.IncompatibleError
				if !errors.As(api.RefusedBy(api.SideLauncher, err), &refused) || api.SkewOf(refused.Version) != api.SkewNone {
					t.Errorf("%s: the launcher's version is not in %v", what, err)
				}
				if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "slipway-scheduler speaks "+version.Text()+", this side "+api.OwnVersion().Text()) {
					t.Errorf("%s: %v", what, err)
				}
			}
			var recorded karpv1.NodeClaimList
			if err := w.api.List(t.Context(), &recorded); err != nil || len(recorded.Items) != 0 {
				t.Errorf("recorded %v, error %v", recorded.Items, err)
			}
			if err := w.peer.Ready(nil); err == nil {
				t.Error("the launcher is ready with a scheduler that it refuses")
			}
			w.wantSkew(version, api.SkewMajor)
			if _, _, err := w.subject.Busy(t.Context(), &api.NodeBusy{NodeName: "n"}); !errors.Is(err, server.ErrNoAnswer) {
				t.Errorf("asked, the scheduler that was refused answers: %v", err)
			}
			_, lead := c.Lead(t.Context(), &api.LeadRequest{Identity: "me", LeaseNamespace: "n", LeaseName: "l"})
			_, resign := c.Resign(t.Context(), &api.ResignRequest{})
			if err := errors.Join(lead, resign); err != nil {
				t.Error(err)
			}
			// The scheduler is replaced by one of the right version.
			if r := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})["default-1"]; !r.GetRecorded() || w.peer.Ready(nil) != nil {
				t.Errorf("result %v, ready: %v", r, w.peer.Ready(nil))
			}
			w.wantSkew(api.OwnVersion(), api.SkewNone)
		})
	}
}

// callAll makes every call that has a version, and returns what each ended with.
func (w *world) callAll(c api.LauncherClient) map[string]error {
	w.t.Helper()
	_, launch := c.Launch(w.t.Context(), &api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})
	catalog, err := c.WatchCatalog(w.t.Context(), &api.WatchCatalogRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	_, watch := catalog.Recv()
	questions, err := c.Ask(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := questions.Send(&api.Answer{}); err != nil {
		w.t.Fatal(err)
	}
	_, ask := questions.Recv()
	return map[string]error{"Launch": launch, "WatchCatalog": watch, "Ask": ask}
}

// With another minor version both go on.
func TestAnotherMinorVersion(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	if err := w.peer.Ready(nil); err != nil {
		t.Errorf("before any scheduler has called: %v", err)
	}
	version := &api.Version{Major: api.ProtocolMajor, Minor: api.ProtocolMinor + 1}
	w.client = w.dialAs(version)
	if r := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})["default-1"]; !r.GetRecorded() {
		t.Errorf("result %v", r)
	}
	full := w.await(w.watch(w.client), "the full state", (*api.CatalogUpdate).GetFull)
	if api.SkewOf(full.GetVersion()) != api.SkewNone || len(full.GetInFlight()) != 1 {
		t.Errorf("full state %v", full)
	}
	w.scheduler(func(q *api.Question) *api.Answer {
		return &api.Answer{Kind: &api.Answer_NodeBusy{NodeBusy: &api.NodeBusyAnswer{Busy: true, Reason: q.GetNodeBusy().GetNodeName()}}}
	})
	if busy, reason, err := w.busy(t.Context()); !busy || reason != "node-1" || err != nil {
		t.Errorf("busy %t, %q, %v", busy, reason, err)
	}
	w.wantSkew(version, api.SkewMinor)
	if err := w.peer.Ready(nil); err != nil {
		t.Error(err)
	}
}

// wantSkew checks the metric: one series, with both versions.
func (w *world) wantSkew(scheduler *api.Version, skew api.Skew) {
	w.t.Helper()
	want := `# HELP slipway_protocol_info 1 for the versions of the contract that the launcher and the scheduler speak. With skew major nothing is launched or moved.
# TYPE slipway_protocol_info gauge
slipway_protocol_info{launcher="` + api.OwnVersion().Text() + `",scheduler="` + scheduler.Text() + `",skew="` + string(skew) + `"} 1
`
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want), "slipway_protocol_info"); err != nil {
		w.t.Error(err)
	}
}

// A stream counts from its first state until it ends; one that is refused does not.
func TestCatalogStreamsAreCounted(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.wantStreams(0)
	refused, err := w.dialAs(&api.Version{Major: api.ProtocolMajor + 1}).WatchCatalog(t.Context(), &api.WatchCatalogRequest{})
	if err == nil {
		_, err = refused.Recv()
	}
	if err == nil {
		t.Error("another major version is served")
	}
	w.wantStreams(0)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := w.client.WatchCatalog(ctx, &api.WatchCatalogRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	w.wantStreams(1)
	cancel()
	w.wantStreams(0)
}

// The stream of a replica that does not lead is not counted: where no replica leads, no sample says that one does.
func TestStreamsOfAStandbyHaveNoValue(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.standby.Store(true)
	stream, err := w.client.WatchCatalog(t.Context(), &api.WatchCatalogRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(w.metrics, "slipway_catalog_streams"); n != 0 || err != nil {
		t.Errorf("a standby has %d samples, error %v", n, err)
	}
	w.standby.Store(false)
	w.wantStreams(1)
}

// wantStreams waits until the metric counts so many streams.
func (w *world) wantStreams(n int) {
	w.t.Helper()
	want := fmt.Sprintf("# HELP slipway_catalog_streams Streams by which the scheduler receives the launcher's catalog. Without a value while another replica leads.\n"+
		"# TYPE slipway_catalog_streams gauge\nslipway_catalog_streams %d\n", n)
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err = testutil.GatherAndCompare(w.metrics, strings.NewReader(want), "slipway_catalog_streams"); err == nil {
			return
		}
	}
	w.t.Error(err)
}

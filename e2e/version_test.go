package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// otherLauncher is a launcher of the next major version, whose state this scheduler might take for an empty catalog. It leads as
// the real one does.
type otherLauncher struct {
	api.UnimplementedLauncherServer
	real api.LauncherClient
}

func nextMajor() *api.Version { return &api.Version{Major: api.ProtocolMajor + 1} }

func (l *otherLauncher) Lead(ctx context.Context, in *api.LeadRequest) (*api.LeadResponse, error) {
	return l.real.Lead(ctx, in)
}

func (l *otherLauncher) WatchCatalog(_ *api.WatchCatalogRequest, stream grpc.ServerStreamingServer[api.CatalogUpdate]) error {
	if err := stream.Send(&api.CatalogUpdate{Generation: 1, Full: true, Version: nextMajor()}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (l *otherLauncher) Ask(stream grpc.BidiStreamingServer[api.Answer, api.Question]) error {
	if err := stream.Send(&api.Question{Version: nextMajor()}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// inPlaceOfLauncher serves another launcher where the scheduler finds the real one, until restore is called, or the test has ended.
// The returned client is the real one's.
func inPlaceOfLauncher(t *testing.T) (client api.LauncherClient, restore func()) {
	t.Helper()
	socket := shared.Socket()
	away := socket + ".away"
	conn, err := grpc.NewClient("unix:"+away, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client = api.NewLauncherClient(conn)
	if err := os.Rename(socket, away); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterLauncherServer(server, &otherLauncher{real: client})
	done := false
	restore = func() {
		if done {
			return
		}
		done = true
		server.Stop() // It removes its socket.
		if err := errors.Join(os.Rename(away, socket), conn.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	return client, restore
}

// Scheduler and launcher are of releases that do not go together, in both directions: pods say so, nothing is launched, pods whose
// node is on its way get it, and everything goes on once both are of one release.
func TestOtherVersionAlone(t *testing.T) {
	w := newWorld(t, "version")
	w.pool("version", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	release := w.hold("version")
	d := w.deployment("web", 2, w.podSpec("1", "1Gi", nil))
	w.await(t, "a node on its way", func() bool {
		claims := w.claimsOf("version")
		return len(claims) == 1 && claims[0].Object.Status.ProviderID != ""
	})
	launcher, restore := inPlaceOfLauncher(t)
	w.kill("scheduler")
	release()
	w.awaitRunning(2)
	w.scale(d, 12)
	want := fmt.Sprintf("slipway-launcher speaks version %s of the contract between slipway's containers, slipway-scheduler version %s",
		nextMajor().Text(), api.OwnVersion().Text())
	w.await(t, "pods to have the room that there is, and the others to say why they wait", func() bool {
		return w.running() > 2 && w.running()+w.waitingFor(want) == 12
	})
	w.await(t, "an Event of the pods that wait", func() bool {
		return slices.ContainsFunc(w.events("FailedScheduling"), func(e corev1.Event) bool { return strings.Contains(e.Message, want) })
	})
	if n := len(w.everClaimed("version")); n != 1 {
		t.Errorf("%d NodeClaims: something was launched", n)
	}
	refusesNextMajor(t, launcher)
	restore()
	w.awaitRunning(12)
	checkOneInstanceEach(t, w, "version")
	awaitReady(t)
}

// waitingFor counts the test's pods whose condition says the text.
func (w *world) waitingFor(text string) int {
	n := 0
	for _, p := range w.pods() {
		for _, c := range p.Object.Status.Conditions {
			if !p.Deleted.Seen() && c.Type == corev1.PodScheduled && strings.Contains(c.Message, text) {
				n++
			}
		}
	}
	return n
}

// refusesNextMajor has the real launcher refuse a scheduler of the next major version, and say so where its Pod is looked at.
func refusesNextMajor(t *testing.T, launcher api.LauncherClient) {
	t.Helper()
	var refused *api.IncompatibleError
	_, err := launcher.Launch(t.Context(), &api.LaunchRequest{Claims: []*api.Claim{{Name: "never"}}, Version: nextMajor()})
	if !errors.As(api.RefusedBy(api.SideLauncher, err), &refused) || refused.Version.Text() != api.OwnVersion().Text() {
		t.Errorf("a launch for a scheduler of the next major version: %v", err)
	}
	if status, text := probe(t, "/readyz"); status == http.StatusOK || !strings.Contains(text, "[-]scheduler") {
		t.Errorf("/readyz with a scheduler that is refused: %d %s", status, text)
	}
	stream, err := launcher.WatchCatalog(t.Context(), &api.WatchCatalogRequest{Version: nextMajor()})
	if err != nil {
		t.Fatal(err)
	}
	if update, err := stream.Recv(); !errors.As(api.RefusedBy(api.SideLauncher, err), &refused) {
		t.Errorf("the catalog for a scheduler of the next major version: %v, error %v", update, err)
	}
}

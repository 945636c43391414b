package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/server"
)

func TestFolderOfTheSocket(t *testing.T) {
	w := newWorld(t)
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	// serve serves until the socket is there, or until it fails.
	serve := func(socket string) error {
		c := w.config
		c.Socket = socket
		s, err := server.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(socket); err == nil {
					cancel()
				}
				time.Sleep(time.Millisecond)
			}
		}()
		return s.Run(ctx)
	}
	if err := serve(filepath.Join(open, "a.sock")); err == nil || !strings.Contains(err.Error(), open+" (mode 0777), expected 0700") {
		t.Errorf("in a folder for every user: %v", err)
	}
	if err := serve(filepath.Join(open, "below", "a.sock")); err != nil {
		t.Errorf("in a folder that it makes: %v", err)
	}
	if info, err := os.Stat(filepath.Join(open, "below")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder that it makes: %v, %v", info, err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t)
	open := func(ctx context.Context) (release func(), err error) {
		ctx, cancel := context.WithCancel(ctx)
		stream, err := w.client.WatchCatalog(ctx, &api.WatchCatalogRequest{Version: api.OwnVersion()})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, err
	}
	var first func()
	for i := range api.MaxStreams {
		release, err := open(t.Context())
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		defer release()
		if first == nil {
			first = release
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if release, err := open(short); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one stream more: %v", err)
		release()
	}
	first()
	release, err := open(t.Context())
	if err != nil {
		t.Errorf("after another has ended: %v", err)
	}
	release()
}

func TestRequestsAreBounded(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.Launch(t.Context(), &api.LaunchRequest{Version: api.OwnVersion(), Batch: strings.Repeat("a", api.MaxMessageBytes)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request beyond the limit: %v", status.Code(err))
	}
}

// Sizes of a cluster at Kubernetes' own limits: 5,000 nodes, all in flight at once, with 150,000 pods of long names, and 20 EC2NodeClasses
// that each offer 900 instance types in three zones. They take half of the limit at most, and a sixteenth at least: the limit is a bound.
func TestMessagesOfALargeCluster(t *testing.T) {
	const nodes, podsOfNode, classes = 5_000, 30, 20
	types := market(t, 900, []string{"us-east-1a", "us-east-1b", "us-east-1c"})
	w := newWorldOver(t, func(c client.WithWatch) client.Client { return c }, types, ready("default", nil)...)
	class := 0
	w.await(w.watch(w.client), "the types of the class", func(u *api.CatalogUpdate) bool {
		for _, c := range u.GetInstanceTypes() {
			if len(c.GetTypes()) == len(types) {
				class = proto.Size(c)
			}
		}
		return class > 0
	})
	labels, names := map[string]string{}, []string{}
	for i := range 30 {
		labels[fmt.Sprintf("label-%02d.example.com/%s", i, strings.Repeat("k", 20))] = strings.Repeat("v", 30)
	}
	for i := range 60 {
		names = append(names, fmt.Sprintf("family%d.24xlarge", i))
	}
	var pods []*api.PodRef
	for i := range podsOfNode {
		pods = append(pods, &api.PodRef{Namespace: strings.Repeat("n", 30), Name: fmt.Sprintf("%s-%d", strings.Repeat("p", 60), i), Uid: strings.Repeat("u", 36)})
	}
	flight := &api.InFlightNode{NodeClaim: strings.Repeat("c", 40), NodeName: strings.Repeat("i", 50), Labels: labels, Pods: pods, Allocatable: map[string]string{"cpu": "15890m", "memory": "60000Mi", "pods": "110", "ephemeral-storage": "100Gi"}}
	claim := &api.Claim{Name: strings.Repeat("c", 40), InstanceTypes: names, Pods: pods, Requests: map[string]string{"cpu": "1", "memory": "1Gi"}}
	claim.Requirements = []*api.Requirement{{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: names}, {Key: strings.Repeat("k", 60), Values: names}}
	for what, size := range map[string]int{"catalog": classes*class + nodes*proto.Size(flight), "launch": nodes * proto.Size(claim)} {
		t.Logf("%s: %.1f MiB of %d", what, float64(size)/(1<<20), api.MaxMessageBytes>>20)
		if size > api.MaxMessageBytes/2 || size < api.MaxMessageBytes/16 {
			t.Errorf("a message of a large cluster, %s, has %d bytes: the limit is %d", what, size, api.MaxMessageBytes)
		}
	}
}

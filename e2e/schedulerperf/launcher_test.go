package schedulerperf_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// launcher is a launcher with one NodePool of machines as large as the nodes of scheduler_perf: four processors. A pod that asks for more fits
// no machine, as it fits no node, and a pod that fits a machine is refused one: a workload of scheduler_perf says how many nodes it has.
type launcher struct {
	api.UnimplementedLauncherServer
}

// serve returns the socket on which the launcher listens while the benchmark runs.
func serve(tb testing.TB) string {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "l.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterLauncherServer(server, launcher{})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		<-done
	})
	return socket
}

func (launcher) WatchCatalog(_ *api.WatchCatalogRequest, stream grpc.ServerStreamingServer[api.CatalogUpdate]) error {
	room := map[string]string{"cpu": "4", "memory": "32Gi", "pods": "110", "ephemeral-storage": "20Gi"}
	update := &api.CatalogUpdate{
		Generation: 1, Full: true, Version: api.OwnVersion(),
		NodePools: []*api.NodePool{{
			Name: "default", NodeClass: "default", Ready: true, Labels: map[string]string{"karpenter.sh/nodepool": "default"},
			Requirements: []*api.Requirement{{Key: "karpenter.sh/capacity-type", Operator: "In", Values: []string{"on-demand"}}},
		}},
		InstanceTypes: []*api.InstanceTypes{{NodeClass: "default", Types: []*api.InstanceType{{
			Name: "m7i.xlarge", Capacity: room, Allocatable: room,
			Labels:    map[string]string{"node.kubernetes.io/instance-type": "m7i.xlarge", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
			Offerings: []*api.Offering{{Zone: "us-east-1a", ZoneId: "use1-az1", CapacityType: "on-demand", Price: 0.2, Available: true}},
		}}}},
	}
	if err := stream.Send(update); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (launcher) Launch(_ context.Context, request *api.LaunchRequest) (*api.LaunchResponse, error) {
	out := &api.LaunchResponse{}
	for _, claim := range request.GetClaims() {
		out.Claims = append(out.Claims, &api.Result{Name: claim.GetName(), Reason: "LimitExceeded", Message: "the nodes of the workload are all there are"})
	}
	return out, nil
}

func (launcher) Lead(context.Context, *api.LeadRequest) (*api.LeadResponse, error) {
	return &api.LeadResponse{}, nil
}

func (launcher) Resign(context.Context, *api.ResignRequest) (*api.ResignResponse, error) {
	return &api.ResignResponse{}, nil
}

func (launcher) Ask(stream grpc.BidiStreamingServer[api.Answer, api.Question]) error {
	if err := stream.Send(&api.Question{Version: api.OwnVersion()}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Command device-plugin offers devices that do not exist to the kubelet of its node, as vendors' device plugins offer real
// ones: it registers under a resource's name some time after its start, and gives containers an environment variable with
// the devices they got. It is one static file, for containers of any image.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// socketName is the plugin's socket in the kubelet's folder.
const socketName = "slipway-device-plugin.sock"

func main() {
	resource := flag.String("resource", "", "name of the extended resource")
	count := flag.Int("count", 1, "number of devices")
	after := flag.Duration("after", 0, "pause before the registration, as a driver's start takes")
	folder := flag.String("folder", strings.TrimSuffix(v1beta1.DevicePluginPath, "/"), "the kubelet's folder of device plugins")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *folder, *resource, *count, *after); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, folder, resource string, count int, after time.Duration) error {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return nil
	}
	socket := filepath.Join(folder, socketName)
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, plugin{count: count, stopped: ctx.Done()})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, folder, resource); err != nil {
		return fmt.Errorf("registering %s: %w", resource, err)
	}
	fmt.Println("registered", count, "of", resource)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func register(ctx context.Context, folder, resource string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(folder, filepath.Base(v1beta1.KubeletSocket)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: socketName, ResourceName: resource,
	}, grpc.WaitForReady(true))
	return err
}

// plugin answers the kubelet.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer

	count   int
	stopped <-chan struct{}
}

// GetDevicePluginOptions asks for nothing special.
func (plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch lists the devices once: they never change.
func (p plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	answer := &v1beta1.ListAndWatchResponse{}
	for i := range p.count {
		answer.Devices = append(answer.Devices, &v1beta1.Device{ID: fmt.Sprintf("device-%d", i), Health: v1beta1.Healthy})
	}
	if err := stream.Send(answer); err != nil {
		return err
	}
	select {
	case <-p.stopped:
	case <-stream.Context().Done():
	}
	return nil
}

// Allocate sets the variable DEVICES of each container to its devices.
func (plugin) Allocate(_ context.Context, in *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for _, c := range in.GetContainerRequests() {
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{"DEVICES": strings.Join(c.GetDevicesIds(), ",")},
		})
	}
	return out, nil
}

// PreStartContainer is not asked for.
func (plugin) PreStartContainer(context.Context, *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	return &v1beta1.PreStartContainerResponse{}, nil
}

// GetPreferredAllocation is not asked for.
func (plugin) GetPreferredAllocation(context.Context, *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	return &v1beta1.PreferredAllocationResponse{}, nil
}

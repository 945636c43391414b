package machines_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

type watched []aws.Instance

func (w watched) Watch(ctx context.Context) <-chan aws.Instance {
	out := make(chan aws.Instance)
	go func() {
		defer close(out)
		for _, i := range w {
			select {
			case out <- i:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func TestFromAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		launched := time.Now()
		in := aws.Instance{
			ID: "i-1", Type: "g5g.xlarge", Zone: "us-east-1a", ZoneID: "use1-az1", Architecture: "arm64", ImageID: "ami-1", Windows: true, CapacityType: aws.Spot,
			PrivateDNSName: "ip-10-0-0-1.ec2.internal", PrivateIP: "10.0.0.1", UserData: "x", VCPU: 4, MemoryMiB: 8192, GPUs: 1, GPUManufacturer: "NVIDIA",
			MaxENIs: 4, IPv4PerENI: 15, LocalStorageGiB: 100, RootVolumeGiB: 20, State: aws.StateRunning, FailJoin: true, LaunchTime: launched,
			Tags: map[string]string{"eks:nodegroup-name": "system"},
		}
		want := instance.Instance{
			ID: "i-1", Type: "g5g.xlarge", Arch: "arm64", CPUs: 4, MemoryMiB: 8192, GPUs: 1, GPUResource: "nvidia.com/gpu", PodLimit: 58,
			InterfaceAddresses: 15, RootVolumeGiB: 20, InstanceStoreGiB: 100, Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", PrivateIP: "10.0.0.1",
			PrivateDNSName: "ip-10-0-0-1.ec2.internal", ImageID: "ami-1", Launched: launched, State: instance.Running, UserData: "x",
			NodeGroup: "system", Spot: true, FailJoin: true, Windows: true,
		}
		pending, stopping, ending := in, in, in
		pending.State, stopping.State, ending.State = aws.StatePending, aws.StateStopping, aws.StateShuttingDown
		var got []instance.Instance
		for i := range machines.FromAWS(watched{pending, in, stopping, ending}).Watch(t.Context()) {
			got = append(got, i)
		}
		pendingWant, stoppingWant, endingWant := want, want, want
		pendingWant.State, stoppingWant.State, endingWant.State = instance.Pending, instance.Off, instance.Gone
		if diff := cmp.Diff([]instance.Instance{pendingWant, want, stoppingWant, endingWant}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

package machines

import (
	"cmp"
	"context"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// nodeGroupTag is EKS's tag of the instances of a managed node group.
const nodeGroupTag = "eks:nodegroup-name"

// FromAWS returns the instances of an AWS on the wire: *aws.Server has this method.
func FromAWS(server interface {
	Watch(ctx context.Context) <-chan aws.Instance
},
) Instances {
	return fromAWS{server}
}

type fromAWS struct {
	server interface {
		Watch(ctx context.Context) <-chan aws.Instance
	}
}

// Watch sends the instances until ctx ends.
func (f fromAWS) Watch(ctx context.Context) <-chan instance.Instance {
	out := make(chan instance.Instance)
	in := f.server.Watch(ctx)
	go func() {
		defer close(out)
		for {
			select {
			case i, open := <-in:
				if !open {
					return
				}
				select {
				case out <- convert(i):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// convert returns an EC2 instance as a machine sees it. Only the subnets of IPv6 clusters have IPv6 addresses, and nodes report these there.
func convert(i aws.Instance) instance.Instance {
	out := instance.Instance{
		ID:                 i.ID,
		Type:               i.Type,
		Arch:               "amd64",
		CPUs:               int64(i.VCPU),
		MemoryMiB:          i.MemoryMiB,
		GPUs:               int64(i.GPUs),
		EFAs:               int64(i.EFAs),
		PodLimit:           int64(i.MaxENIs*(i.IPv4PerENI-1) + 2),
		InterfaceAddresses: int64(i.IPv4PerENI),
		RootVolumeGiB:      i.RootVolumeGiB,
		InstanceStoreGiB:   i.LocalStorageGiB,
		Region:             strings.TrimRight(i.Zone, "abcdefghijklmnopqrstuvwxyz"),
		Zone:               i.Zone,
		ZoneID:             i.ZoneID,
		PrivateIP:          cmp.Or(i.IPv6, i.PrivateIP),
		PrivateDNSName:     i.PrivateDNSName,
		ImageID:            i.ImageID,
		Windows:            i.Windows,
		Launched:           i.LaunchTime,
		Starts:             i.Starts,
		Hibernated:         i.Hibernated,
		State:              instance.Gone,
		UserData:           i.UserData,
		NodeGroup:          i.Tags[nodeGroupTag],
		Spot:               i.CapacityType == aws.Spot,
		FailJoin:           i.FailJoin,
	}
	if i.Architecture == "arm64" {
		out.Arch = "arm64"
	}
	switch i.GPUManufacturer {
	case "NVIDIA":
		out.GPUResource = "nvidia.com/gpu"
	case "AMD":
		out.GPUResource = "amd.com/gpu"
	case "AWS":
		out.GPUResource = "aws.amazon.com/neuron"
	case "Habana":
		out.GPUResource = "habana.ai/gaudi"
	default:
		out.GPUs = 0
	}
	switch i.State {
	case aws.StatePending:
		out.State = instance.Pending
	case aws.StateRunning:
		out.State = instance.Running
	case aws.StateStopping, aws.StateStopped:
		out.State = instance.Off
	}
	return out
}

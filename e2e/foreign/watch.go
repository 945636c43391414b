package foreign

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// Watch sends each instance as it is first seen, and again when its state has changed, until ctx ends. One that EC2 no
// longer shows is off. A question that fails is asked again: nothing is switched off by it.
func (a *AWS) Watch(ctx context.Context) <-chan instance.Instance {
	out := make(chan instance.Instance)
	w := &watch{AWS: a, seen: map[string]instance.Instance{}, types: map[string]ec2types.InstanceTypeInfo{}}
	go func() {
		defer close(out)
		for {
			changed, err := w.poll(ctx)
			if err != nil && ctx.Err() == nil {
				a.cfg.Logger.Error(err, "Asking for instances failed; they are asked for again", "endpoint", a.cfg.Endpoint)
			}
			for _, i := range changed {
				select {
				case out <- i:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-time.After(a.cfg.Poll):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// watch is what one Watch knows.
type watch struct {
	*AWS
	seen  map[string]instance.Instance
	types map[string]ec2types.InstanceTypeInfo
}

// poll asks once, and returns the instances that have changed.
func (w *watch) poll(ctx context.Context) (changed []instance.Instance, err error) {
	found := map[string]bool{}
	pages := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(1000)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return changed, fmt.Errorf("describing instances: %w", err)
		}
		for _, reservation := range page.Reservations {
			for _, i := range reservation.Instances {
				found[awssdk.ToString(i.InstanceId)] = true
				now, ok, err := w.update(ctx, i)
				if err != nil {
					return changed, err
				}
				if ok {
					changed = append(changed, now)
				}
			}
		}
	}
	for id, i := range w.seen {
		if !found[id] && i.State != instance.Gone {
			i.State = instance.Gone
			w.seen[id] = i
			changed = append(changed, i)
		}
	}
	return changed, nil
}

// update records an instance; ok is true where Watch must send it. An instance that was never seen running is not sent.
func (w *watch) update(ctx context.Context, i ec2types.Instance) (_ instance.Instance, ok bool, err error) {
	id, state := awssdk.ToString(i.InstanceId), stateOf(i)
	known, seen := w.seen[id]
	switch {
	case !seen && state >= instance.Off, seen && known.State == state:
		return known, false, nil
	case !seen:
		if known, err = w.describe(ctx, i); err != nil {
			return known, false, fmt.Errorf("instance %s: %w", id, err)
		}
	}
	known.State = state
	w.seen[id] = known
	return known, true, nil
}

func stateOf(i ec2types.Instance) instance.State {
	if i.State == nil {
		return instance.Gone
	}
	switch i.State.Name {
	case ec2types.InstanceStateNamePending:
		return instance.Pending
	case ec2types.InstanceStateNameRunning:
		return instance.Running
	case ec2types.InstanceStateNameStopping, ec2types.InstanceStateNameStopped:
		return instance.Off
	default:
		return instance.Gone
	}
}

// describe is the machine of an instance.
func (w *watch) describe(ctx context.Context, i ec2types.Instance) (instance.Instance, error) {
	info, err := w.typeOf(ctx, i.InstanceType)
	if err != nil {
		return instance.Instance{}, err
	}
	text, err := w.userData(ctx, i)
	if err != nil {
		return instance.Instance{}, err
	}
	out := machine(info)
	out.ID, out.Type, out.Region = awssdk.ToString(i.InstanceId), string(i.InstanceType), w.cfg.Region
	out.PrivateIP, out.PrivateDNSName = awssdk.ToString(i.PrivateIpAddress), awssdk.ToString(i.PrivateDnsName)
	out.ImageID, out.Launched, out.UserData = awssdk.ToString(i.ImageId), awssdk.ToTime(i.LaunchTime), text
	out.Spot, out.Windows = i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot, i.Platform == ec2types.PlatformValuesWindows
	if i.Placement != nil {
		out.Zone, out.ZoneID = awssdk.ToString(i.Placement.AvailabilityZone), awssdk.ToString(i.Placement.AvailabilityZoneId)
	}
	for _, tag := range i.Tags {
		if awssdk.ToString(tag.Key) == "eks:nodegroup-name" {
			out.NodeGroup = awssdk.ToString(tag.Value)
		}
	}
	return out, nil
}

func (w *watch) typeOf(ctx context.Context, name ec2types.InstanceType) (ec2types.InstanceTypeInfo, error) {
	if known, ok := w.types[string(name)]; ok {
		return known, nil
	}
	answer, err := w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{name}})
	if err != nil {
		return ec2types.InstanceTypeInfo{}, fmt.Errorf("describing instance type %s: %w", name, err)
	}
	for _, info := range answer.InstanceTypes {
		if info.InstanceType == name && info.VCpuInfo != nil && info.MemoryInfo != nil {
			w.types[string(name)] = info
			return info, nil
		}
	}
	return ec2types.InstanceTypeInfo{}, fmt.Errorf("reading the size of instance type %s: EC2 does not list it", name)
}

// userData returns the user data of the instance; empty where it has none.
func (w *watch) userData(ctx context.Context, i ec2types.Instance) (string, error) {
	answer, err := w.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: i.InstanceId, Attribute: ec2types.InstanceAttributeNameUserData,
	})
	if err != nil {
		return "", fmt.Errorf("reading user data: %w", err)
	}
	if answer.UserData == nil {
		return "", nil
	}
	text := awssdk.ToString(answer.UserData.Value)
	if decoded, wrong := base64.StdEncoding.DecodeString(text); wrong == nil {
		return string(decoded), nil
	}
	// Some stand-ins return it decoded.
	return text, nil
}

// machine returns the hardware of an instance type.
func machine(info ec2types.InstanceTypeInfo) instance.Instance {
	out := instance.Instance{
		Arch: "amd64", CPUs: int64(awssdk.ToInt32(info.VCpuInfo.DefaultVCpus)), MemoryMiB: awssdk.ToInt64(info.MemoryInfo.SizeInMiB),
	}
	if info.ProcessorInfo != nil && slices.Contains(info.ProcessorInfo.SupportedArchitectures, ec2types.ArchitectureTypeArm64) {
		out.Arch = "arm64"
	}
	if info.InstanceStorageInfo != nil {
		out.InstanceStoreGiB = awssdk.ToInt64(info.InstanceStorageInfo.TotalSizeInGB) * 1e9 >> 30
	}
	if info.NetworkInfo != nil {
		interfaces, addresses := awssdk.ToInt32(info.NetworkInfo.MaximumNetworkInterfaces), awssdk.ToInt32(info.NetworkInfo.Ipv4AddressesPerInterface)
		if i := int(awssdk.ToInt32(info.NetworkInfo.DefaultNetworkCardIndex)); i < len(info.NetworkInfo.NetworkCards) {
			interfaces = awssdk.ToInt32(info.NetworkInfo.NetworkCards[i].MaximumNetworkInterfaces)
		}
		out.PodLimit, out.InterfaceAddresses = int64(interfaces*(addresses-1)+2), int64(addresses)
	}
	out.GPUs, out.GPUResource = accelerators(info)
	return out
}

// accelerators are what a device plugin will offer.
func accelerators(info ec2types.InstanceTypeInfo) (count int64, resource string) {
	if info.GpuInfo != nil {
		for _, g := range info.GpuInfo.Gpus {
			count += int64(awssdk.ToInt32(g.Count))
			switch awssdk.ToString(g.Manufacturer) {
			case "NVIDIA":
				resource = "nvidia.com/gpu"
			case "AMD":
				resource = "amd.com/gpu"
			case "Habana":
				resource = "habana.ai/gaudi"
			}
		}
	}
	if info.NeuronInfo != nil {
		for _, d := range info.NeuronInfo.NeuronDevices {
			count, resource = count+int64(awssdk.ToInt32(d.Count)), "aws.amazon.com/neuron"
		}
	}
	if resource == "" {
		return 0, ""
	}
	return count, resource
}

// Package delay states how long the steps of a machine take, as distributions, and draws from them so that the same seed
// and the same instance always give the same machine. It is pure: no clock, no goroutine.
package delay

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Distribution is a triangular distribution: nothing below Min or above Max, most near Mode.
type Distribution struct {
	// Min, Mode and Max are its three corners.
	Min, Mode, Max time.Duration
}

// Mean is the expected value.
func (d Distribution) Mean() time.Duration { return (d.Min + d.Mode + d.Max) / 3 }

// Quantile is the value below which the share u (0 to 1) of all draws lie.
func (d Distribution) Quantile(u float64) time.Duration {
	a, c, b := float64(d.Min), float64(d.Mode), float64(d.Max)
	if b <= a {
		return d.Min
	}
	if u < (c-a)/(b-a) {
		return time.Duration(a + math.Sqrt(u*(b-a)*(c-a)))
	}
	return time.Duration(b - math.Sqrt((1-u)*(b-a)*(b-c)))
}

// Times are the steps of a machine and of its pods, before any speed-up.
type Times struct {
	// Kubelet is from EC2 accepting the launch to the start of the kubelet: placing, firmware, kernel, cloud-init, nodeadm.
	Kubelet Distribution
	// Restart is the same after a stop, from EC2 accepting the start.
	Restart Distribution
	// Resume is the same after hibernation: the memory is read, and nothing boots but the kubelet, which is restarted.
	Resume Distribution
	// Network is from the start of the kubelet to the network plugin being ready: the CNI's agent is a DaemonSet whose
	// image must be pulled and which then attaches addresses.
	Network Distribution
	// NetworkAgain is the same after a stop: the agent's image is on the disk, and its addresses are attached.
	NetworkAgain Distribution
	// NetworkResumed is the same after hibernation: the agent runs.
	NetworkResumed Distribution
	// Devices is from the node's readiness to the device plugin's registration, on machines with accelerators.
	Devices Distribution
	// PullSmall, PullMedium and PullLarge are image pulls of some 20 MB, 200 MB and 2 GB or more.
	PullSmall, PullMedium, PullLarge Distribution
	// Sandbox is the creation of a pod's sandbox with its address.
	Sandbox Distribution
	// Resync is how long a kubelet takes to come back to a pod that it could not start for want of a network.
	Resync Distribution
	// Container is from an image being present to its container running.
	Container Distribution
	// Init is how long an init container runs that says nothing of its own.
	Init Distribution
	// Stop is how long a container needs after SIGTERM that says nothing of its own.
	Stop Distribution
}

// EC2 are delays close to those of an EKS node on EC2: AL2023, VPC CNI, images from ECR.
func EC2() Times {
	return Times{
		Kubelet:        seconds(20, 25, 45),
		Network:        seconds(5, 8, 13),
		Restart:        seconds(10, 12, 15),
		Resume:         seconds(6, 8, 11),
		NetworkAgain:   seconds(2, 3, 5),
		NetworkResumed: seconds(0.5, 1, 2),
		Devices:        seconds(5, 10, 25),
		PullSmall:      seconds(0.5, 0.9, 2),
		PullMedium:     seconds(2, 3, 7),
		PullLarge:      seconds(15, 25, 60),
		Sandbox:        seconds(0.2, 0.4, 1),
		Resync:         seconds(0.1, 0.5, 1),
		Container:      seconds(0.3, 0.5, 1.5),
		Init:           seconds(0.2, 0.5, 2),
		Stop:           seconds(0.1, 0.3, 2),
	}
}

// Immediate is times with a machine that boots at once and finds its network there: a managed node that has been up
// for long when the story begins.
func (t Times) Immediate() Times {
	t.Kubelet, t.Network, t.Restart, t.NetworkAgain, t.Devices = Distribution{}, Distribution{}, Distribution{}, Distribution{}, Distribution{}
	t.Resume, t.NetworkResumed = Distribution{}, Distribution{}
	return t
}

func seconds(low, mode, high float64) Distribution {
	d := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return Distribution{Min: d(low), Mode: d(mode), Max: d(high)}
}

// Source draws for one machine. Every draw depends on the seed, the machine and the purpose alone, never on the order of
// draws, so that adding a pod changes nothing for the others. The zero value is usable.
type Source struct {
	// Seed is common to all machines of a run.
	Seed uint64
	// Machine is the instance id.
	Machine string
	// Speed divides every delay; 0 means 1.
	Speed float64
}

// Draw returns the delay for the purpose, for example ("pull", "nginx:1.29").
func (s Source) Draw(d Distribution, purpose ...string) time.Duration {
	return s.Scale(d.Quantile(s.uniform(purpose)))
}

// Scale is d at the source's speed.
func (s Source) Scale(d time.Duration) time.Duration {
	if s.Speed <= 0 {
		return d
	}
	return time.Duration(float64(d) / s.Speed)
}

func (s Source) uniform(purpose []string) float64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, s.Seed))
	_, _ = fmt.Fprintf(h, "%s%q", s.Machine, purpose)
	// FNV spreads its last bytes badly over the high bits; the finalizer of SplitMix64 repairs that.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

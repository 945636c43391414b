// Package nodes puts a node container of kind's image behind each instance of the AWS on the wire: a machine of package machines,
// as simulated kubelets are. The instance's user data says how its kubelet joins, as on EKS; kubeadm has no part in it.
//
// A Mode has no goroutines of its own. Docker is reached by its command line, so that it may be one that a test started by hand.
package nodes

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

// cleanUp bounds the time for removing a container.
const cleanUp = time.Minute

// Config is what a Mode depends on; all is required but MemoryBytes and CPUs.
type Config struct {
	// Image is kind's node image, Network the Docker network of the cluster. Instances have their addresses in it.
	Image, Network string
	// KindCluster is the name that kind knows the cluster by: `kind delete cluster` removes the containers too.
	KindCluster string
	// Cluster and Endpoint are the name of the cluster and its API server as user data must name them.
	Cluster, Endpoint string
	// Authority signs the kubelets' certificates, as EKS's authenticator vouches for a role.
	Authority Authority
	// MemoryBytes and CPUs are what this host has: every kubelet on it sees all of both. 0 means to look.
	MemoryBytes, CPUs int64
}

func (c *Config) complete() error {
	for name, value := range map[string]string{
		"Image": c.Image, "Network": c.Network, "KindCluster": c.KindCluster, "Cluster": c.Cluster, "Endpoint": c.Endpoint,
	} {
		if value == "" {
			return fmt.Errorf("nodes: Config.%s is empty", name)
		}
	}
	if c.Authority.key == nil {
		return errors.New("nodes: Config.Authority is empty")
	}
	if c.CPUs == 0 {
		c.CPUs = int64(runtime.NumCPU())
	}
	if c.MemoryBytes == 0 {
		data, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			return fmt.Errorf("nodes: %w", err)
		}
		var kib int64
		if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kib); err != nil {
			return fmt.Errorf("nodes: /proc/meminfo: %w", err)
		}
		c.MemoryBytes = kib << 10
	}
	return nil
}

// Mode runs machines as node containers.
type Mode struct{ cfg Config }

// New returns a Mode; nothing starts before Machine.
func New(cfg Config) (*Mode, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Mode{cfg: cfg}, nil
}

// Run waits until ctx ends: the containers have nothing in common but Docker.
func (m *Mode) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Machine runs the container of one instance until ctx ends, and removes it then. An error says why it does not join.
func (m *Mode) Machine(ctx context.Context, i instance.Instance) (err error) {
	if err := m.fits(i); err != nil {
		return err
	}
	files, err := m.firstBoot(i)
	if err != nil {
		return fmt.Errorf("instance %s: %w", i.ID, err)
	}
	archive, err := pack(files)
	if err != nil {
		return err
	}
	defer func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		err = errors.Join(err, m.docker(gone, nil, "rm", "--force", "--volumes", i.ID))
	}()
	for _, step := range []struct {
		input []byte
		args  []string
	}{
		{nil, m.create(i)},
		{archive, []string{"cp", "-", i.ID + ":/"}},
		{nil, []string{"start", i.ID}},
	} {
		if err := m.docker(ctx, step.input, step.args...); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("instance %s: %w", i.ID, err)
		}
	}
	<-ctx.Done()
	return nil
}

// Discard does nothing: Machine has removed the container. An instance that is started after a stop has a new one, without what was on its disks.
func (m *Mode) Discard(instance.Instance) {}

// fits returns an error for an instance that this host cannot run: a kubelet reports the host's cores and memory, of which
// some can be reserved and none added.
func (m *Mode) fits(i instance.Instance) error {
	switch {
	case i.Arch != runtime.GOARCH:
		return fmt.Errorf("instance %s is %s and this host %s: let the NodePool ask for kubernetes.io/arch %s", i.ID, i.Arch, runtime.GOARCH, runtime.GOARCH)
	case i.CPUs > m.cfg.CPUs:
		return fmt.Errorf("instance %s has %d cores and this host %d: let the NodePool ask for fewer", i.ID, i.CPUs, m.cfg.CPUs)
	case i.SeenMemory() > m.cfg.MemoryBytes:
		return fmt.Errorf("instance %s has more memory than this host: let the NodePool ask for less", i.ID)
	}
	return nil
}

// create is what kind's own docker provider runs, with an address instead of published ports.
func (m *Mode) create(i instance.Instance) []string {
	return []string{
		"create", "--name", i.ID, "--hostname", i.PrivateDNSName, "--tty", "--privileged",
		"--label", "io.x-k8s.kind.cluster=" + m.cfg.KindCluster, "--label", "io.x-k8s.kind.role=worker",
		"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--tmpfs", "/tmp", "--tmpfs", "/run", "--volume", "/var", "--volume", "/lib/modules:/lib/modules:ro",
		"--network", m.cfg.Network, "--ip", i.PrivateIP, "--init=false", "--cgroupns=private", m.cfg.Image,
	}
}

func (m *Mode) docker(ctx context.Context, input []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, "docker", args...)
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// firstBoot is what EKS's boot agent makes of the user data, for the places where kind's image has the kubelet's settings.
func (m *Mode) firstBoot(i instance.Instance) (map[string][]byte, error) {
	user, err := userdata.Parse(i.UserData)
	switch {
	case err != nil:
		return nil, err
	case user.Cluster != m.cfg.Cluster:
		return nil, fmt.Errorf("user data: cluster %q, want %q", user.Cluster, m.cfg.Cluster)
	case user.Endpoint != m.cfg.Endpoint:
		return nil, fmt.Errorf("user data: API server endpoint %q, want %q", user.Endpoint, m.cfg.Endpoint)
	}
	config, err := m.kubeletConfig(i, user)
	if err != nil {
		return nil, err
	}
	authority, err := base64.StdEncoding.DecodeString(user.CertificateAuthority)
	if err != nil {
		return nil, fmt.Errorf("user data: certificate authority: %w", err)
	}
	kubeconfig, err := m.kubeconfig(i, user.Endpoint, authority)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"etc/kubernetes/kubelet.conf": kubeconfig,
		"var/lib/kubelet/config.yaml": config,
		"etc/default/kubelet":         []byte("KUBELET_EXTRA_ARGS=" + strings.Join(arguments(i, user), " ") + "\n"),
		authorityFile[1:]:             authority,
	}, nil
}

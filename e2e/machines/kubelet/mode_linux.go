package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// cleanUp bounds the time for removing what a machine leaves.
const cleanUp = 20 * time.Second

// Mode runs machines with real kubelets.
type Mode struct {
	cfg Config
	api string
	// networks counts the pod ranges given out.
	networks atomic.Uint32
	limited  bool
}

// New checks that this host can run machines; nothing starts before Machine. The error says what the host lacks.
func New(cfg Config) (*Mode, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("machines of kind kubelet need root: this process runs as user %d", os.Geteuid())
	}
	for _, program := range []string{"containerd", "runc", "ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("machines of kind kubelet need %s (Debian: apt-get install containerd runc containernetworking-plugins iproute2 iptables busybox-static)", program)
		}
	}
	for _, path := range []string{cfg.Kubelet, "/usr/lib/cni/bridge"} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("machines of kind kubelet need %s: %w", path, err)
		}
	}
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("kubelet: Endpoint: %w", err)
	}
	return &Mode{cfg: cfg, api: endpoint.Host, limited: !mayRaiseLimits()}, nil
}

// mayRaiseLimits tells whether the process has CAP_SYS_RESOURCE.
func mayRaiseLimits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// Run waits until ctx ends: machines have nothing in common but the registry, which is the sandbox's.
func (m *Mode) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Machine runs one machine until ctx ends. An error says why it cannot boot.
func (m *Mode) Machine(ctx context.Context, i instance.Instance) (err error) {
	if i.FailJoin {
		return nil
	}
	if i.Arch != runtime.GOARCH {
		return fmt.Errorf("instance %s is %s and this host %s: let the NodePool ask for kubernetes.io/arch %s", i.ID, i.Arch, runtime.GOARCH, runtime.GOARCH)
	}
	d, err := m.describe(i)
	if err != nil {
		return err
	}
	defer func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		for _, left := range []error{removeCgroup(gone, d.CgroupRoot), os.RemoveAll(d.Folder)} {
			if left != nil {
				m.cfg.Notice(fmt.Sprintf("machine of %s leaves something behind: %v", i.ID, left))
			}
		}
	}()
	if err := makeCgroup(d.CgroupRoot); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return m.boot(ctx, d)
}

// describe makes the machine's folder with what its init reads.
func (m *Mode) describe(i instance.Instance) (description, error) {
	folder := filepath.Join(m.cfg.Folder, i.ID)
	n := m.networks.Add(1)
	d := description{
		Instance: i, Folder: folder, Kubelet: m.cfg.Kubelet, KubeConfig: filepath.Join(folder, "kubeconfig"),
		Cluster: m.cfg.Cluster, Endpoint: m.cfg.Endpoint, Registry: m.cfg.Registry,
		PodNetwork: fmt.Sprintf("100.%d.%d.0/24", 64+(n>>8)&63, n&255), CgroupRoot: "/slipway/" + i.ID, LimitedOOM: m.limited,
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return d, err
	}
	identity, err := m.cfg.KubeConfig(i.PrivateDNSName)
	if err != nil {
		return d, err
	}
	if err := os.WriteFile(d.KubeConfig, identity, 0o600); err != nil {
		return d, err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return d, err
	}
	return d, os.WriteFile(filepath.Join(folder, "machine.json"), data, 0o600)
}

// boot runs the machine's init until ctx ends.
func (m *Mode) boot(ctx context.Context, d description) error {
	log, err := os.Create(filepath.Join(d.Folder, "init.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// SIGKILL, the default when ctx ends, is what pulling the plug is: PID 1 takes all of its namespace along.
	cmd := exec.CommandContext(ctx, m.cfg.Self, append(append([]string{}, m.cfg.Command...), filepath.Join(d.Folder, "machine.json"))...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	// Pdeathsig is sent when the starting thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	for _, address := range []string{m.api, m.cfg.Registry} {
		listener, err := listenIn(ctx, cmd.Process.Pid, address)
		if err != nil {
			cancel()
			_ = cmd.Wait()
			return fmt.Errorf("bridge to %s: %w", address, err)
		}
		go bridge(ctx, listener, address)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil
	}
	tail, _ := os.ReadFile(log.Name())
	err = fmt.Errorf("the machine ended: %w: %s", err, strings.TrimSpace(string(tail)))
	m.cfg.Notice(fmt.Sprintf("instance %s does not join: %v", d.Instance.ID, err))
	return err
}

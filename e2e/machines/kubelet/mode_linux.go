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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

// cleanUp bounds the time for removing what a machine leaves.
const cleanUp = 20 * time.Second

// namespaces of a machine.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Mode runs machines with real kubelets.
type Mode struct {
	cfg Config
	api string
	// networks counts the pod ranges given out.
	networks atomic.Uint32
	limited  bool
	// cgroups is held while the sandbox's cgroup is made with a machine's in it, or removed after the last.
	cgroups sync.Mutex
	// snapshotter of containerd that the disk under Folder allows.
	snapshotter string
}

// New checks that this host can run machines; nothing starts before Machine. The error says what the host lacks.
func New(ctx context.Context, cfg Config) (*Mode, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := Check(ctx); err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.Kubelet); err != nil {
		return nil, fmt.Errorf("machines of kind kubelet need %s: %w", cfg.Kubelet, err)
	}
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("kubelet: Endpoint: %w", err)
	}
	if err := sweep(); err != nil {
		cfg.Notice(fmt.Sprintf("what another sandbox left behind stays: %v", err))
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, err
	}
	snapshotter, err := chooseSnapshotter(cfg.Folder)
	return &Mode{cfg: cfg, api: endpoint.Host, limited: !mayRaiseLimits(), snapshotter: snapshotter}, err
}

// chooseSnapshotter is overlayfs, or native where the disk does not take it, as the disk of a container.
func chooseSnapshotter(folder string) (string, error) {
	try, err := os.MkdirTemp(folder, "overlay-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(try) }()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(try, name), 0o700); err != nil {
			return "", err
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", try)
	if unix.Mount("overlay", filepath.Join(try, "merged"), "overlay", 0, options) == nil {
		return "overlayfs", unix.Unmount(filepath.Join(try, "merged"), 0)
	}
	return "native", nil
}

// mayRaiseLimits reports whether the process has CAP_SYS_RESOURCE.
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

// Machine runs one machine until ctx ends. An error says why it cannot boot. Its folder stays, as its disks do: it boots from them when its instance is started
// again, after hibernation as well.
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
		m.leaves(i, removeCgroup(gone, d.CgroupRoot))
		m.cgroups.Lock()
		defer m.cgroups.Unlock()
		removeEmpty(filepath.Dir(d.CgroupRoot))
	}()
	if err := m.makeCgroup(d.CgroupRoot); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := m.hold(ctx, d); err != nil {
		return err
	}
	return m.boot(ctx, d)
}

// Discard removes the folder of a machine that has ended.
func (m *Mode) Discard(i instance.Instance) { m.leaves(i, os.RemoveAll(m.folder(i))) }

// leaves reports why something of a machine could not be removed.
func (m *Mode) leaves(i instance.Instance, err error) {
	if err != nil {
		m.cfg.Notice(fmt.Sprintf("machine of %s leaves something behind: %v", i.ID, err))
	}
}

func (m *Mode) folder(i instance.Instance) string { return filepath.Join(m.cfg.Folder, i.ID) }

// poolOf reads a machine's NodePool from its user data; empty where they are wrong, which is its first boot's matter.
func poolOf(d description) string {
	user, err := userdata.Parse(d.Instance.UserData)
	if err != nil {
		return ""
	}
	return user.Labels[karpv1.NodePoolLabelKey]
}

// hold keeps a machine's kubelet from starting as long as its NodePool is held.
func (m *Mode) hold(ctx context.Context, d description) error {
	pool := poolOf(d)
	if m.cfg.Holds == nil || pool == "" {
		return nil
	}
	held := filepath.Join(d.Folder, heldFile)
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		return err
	}
	go func() {
		m.cfg.Holds.Wait(ctx, pool)
		_ = os.Remove(held)
	}()
	return nil
}

func (m *Mode) makeCgroup(name string) error {
	m.cgroups.Lock()
	defer m.cgroups.Unlock()
	return makeCgroup(name)
}

// describe makes the machine's folder with what its init reads.
func (m *Mode) describe(i instance.Instance) (description, error) {
	folder := m.folder(i)
	n := m.networks.Add(1)
	d := description{
		Instance: i, Folder: folder, Kubelet: m.cfg.Kubelet,
		Cluster: m.cfg.Cluster, Endpoint: m.cfg.Endpoint, Registry: m.cfg.Registry,
		PodNetwork: fmt.Sprintf("100.%d.%d.0/24", 64+(n>>8)&63, n&255), CgroupRoot: machineCgroup(i.ID), LimitedOOM: m.limited,
		NetworkByAgent: m.cfg.NetworkByAgent, DiskUsed: m.cfg.DiskUsed, Snapshotter: m.snapshotter,
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return d, err
	}
	var err error
	if d.Token, err = m.cfg.Token(i.PrivateDNSName); err != nil {
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
	log, err := os.OpenFile(filepath.Join(d.Folder, "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
		Cloneflags: namespaces,
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

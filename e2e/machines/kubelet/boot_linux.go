package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// restartAfter is RestartSec of kubelet.service on EKS's images.
const restartAfter = 5 * time.Second

// Boot is a machine's init: PID 1 of its namespaces. It returns only when the machine cannot boot, or when ctx ends. file
// describes the machine.
func Boot(ctx context.Context, file string) error {
	if os.Getpid() != 1 {
		return errors.New("a machine's init runs as PID 1 of namespaces of its own: slipway-sandbox up --machines kubelet starts it")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var d description
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	// A cgroup namespace is a thread's: all that runs in the machine is started from this one.
	runtime.LockOSThread()
	if err := prepare(ctx, d); err != nil {
		return err
	}
	written, args, err := firstBoot(d)
	if err != nil {
		return err
	}
	written["/run/containerd.toml"] = containerdConfig(d)
	written["/run/containerd-certs.d/_default/hosts.toml"] = registryHosts(d)
	network := NetworkFolder
	if d.NetworkByAgent {
		network = AgentFolder
	}
	written[network+"/10-pods.conflist"] = networkConfig(d)
	if err := write(written); err != nil {
		return err
	}
	units := newUnits(d.Folder)
	if err := units.start("containerd", "containerd", "--config", "/run/containerd.toml"); err != nil {
		return err
	}
	if err := awaitSocket(ctx, containerdSocket); err != nil {
		return err
	}
	if err := awaitRelease(ctx, d.Folder); err != nil {
		return err
	}
	// systemd starts nodeadm's two services, and the unit waits for them: here it begins when they have begun.
	if _, ok := written[prefetchFile]; ok {
		if err := units.once("prefetch", "/bin/bash", prefetchFile, "unit"); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(d.Folder, StartedFile), nil, 0o600); err != nil {
		return err
	}
	if err := units.start("kubelet", d.Kubelet, args...); err != nil {
		return err
	}
	return units.keep(ctx)
}

// awaitRelease returns once the machine is not held.
func awaitRelease(ctx context.Context, folder string) error {
	held := filepath.Join(folder, heldFile)
	if _, err := os.Stat(held); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.WriteFile(filepath.Join(folder, WaitingFile), nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(held); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write writes the files of the first boot; the programs among them may be run.
func write(written files) error {
	if err := os.MkdirAll(NetworkFolder, 0o755); err != nil {
		return err
	}
	for path, content := range written {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if filepath.Dir(path) == standInFolder {
			mode = 0o700
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			return err
		}
	}
	return nil
}

func awaitSocket(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("containerd did not start: %w", ctx.Err())
		}
	}
}

// prepare makes the namespaces look like a machine.
func prepare(ctx context.Context, d description) error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{d.Folder + "/lib", "/var/lib", "", unix.MS_BIND},
		{d.Folder + "/log", "/var/log", "", unix.MS_BIND},
	} {
		if m.flags == unix.MS_BIND {
			if err := os.MkdirAll(m.source, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := enterCgroup(d.CgroupRoot); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	if err := unix.Sethostname([]byte(d.Instance.PrivateDNSName)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	return network(ctx, d)
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// packages is what a Debian host has to install.
const packages = "apt-get install containerd runc containernetworking-plugins iproute2 iptables busybox-static curl jq"

// machineLike does in namespaces of its own what a machine's start does: if one of these steps is refused, machines do not start.
const machineLike = `mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add eth0 type veth peer name wire
ip link add cni0 type bridge
iptables -t nat -L -n >/dev/null`

// Check says what this host lacks to run machines; nil where it lacks nothing that is known.
func Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("machines of kind kubelet need root: this process runs as user %d", os.Geteuid())
	}
	for _, program := range []string{"containerd", "runc", "ip", "iptables", "bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("machines of kind kubelet need %s (Debian: %s)", program, packages)
		}
	}
	for _, path := range []string{"/usr/lib/cni/bridge", "/usr/lib/cni/portmap", "/bin/busybox"} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("machines of kind kubelet need %s (Debian: %s)", path, packages)
		}
	}
	if err := checkCgroups(); err != nil {
		return fmt.Errorf("machines of kind kubelet need cgroups: %w", err)
	}
	if err := checkDisk(os.TempDir()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", machineLike)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("machines of kind kubelet need namespaces, mounts, veth and bridge devices, and NAT: %w", errors.Join(err, errors.New(strings.TrimSpace(string(out)))))
	}
	return nil
}

// diskBytes have to be free: machines share the disk of the host, whatever sizes their kubelets see.
const diskBytes = 4 << 30

func checkDisk(folder string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("machines of kind kubelet need a disk: %s: %w", folder, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < diskBytes {
		return fmt.Errorf("machines of kind kubelet need %d MiB of the disk of %s free, and %d MiB are", diskBytes>>20, folder, free>>20)
	}
	return nil
}

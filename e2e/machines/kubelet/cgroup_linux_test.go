package kubelet

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// With cgroup v2 a new cgroup is handed the controllers that its parent has and has not handed on yet. A plain file stands for the
// kernel's: it keeps what was written last.
func TestControllersAreHandedOn(t *testing.T) {
	for _, c := range []struct{ name, has, handed, want string }{
		{"one is missing", "cpuset cpu memory pids", "cpuset cpu memory", "+pids"},
		{"all are there", "cpu memory", "memory cpu", "memory cpu"},
		{"there are none", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			control := filepath.Join(parent, "cgroup.subtree_control")
			for path, text := range map[string]string{filepath.Join(parent, "cgroup.controllers"): c.has, control: c.handed} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := hand(parent, filepath.Join(parent, "machine")); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(control)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("cgroup.subtree_control got %q, want %q", got, c.want)
			}
		})
	}
}

// A machine on a host with cgroup v2 mounts that anew where it is mounted already, in namespaces of its own.
func TestUnifiedIsMountedAnew(t *testing.T) {
	const point = "SLIPWAY_TEST_MOUNT_POINT"
	if there := os.Getenv(point); there != "" {
		for range 2 {
			if err := mountUnified(there); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(filepath.Join(there, "cgroup.controllers")); err != nil {
			t.Error(err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), point+"="+t.TempDir())
	// Whoever is not root is it in a namespace of his own.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// With cgroup v1 a machine mounts the hierarchies that its host has, by their controllers, and v2's beside them is none.
func TestHierarchiesOfTheHost(t *testing.T) {
	const mountinfo = `30 24 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:16 - cgroup cgroup rw,cpu,cpuacct
36 30 0:32 /x /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,release_agent=/lib/systemd/agent,name=systemd
broken
`
	want := []hierarchy{{"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"}, {"/sys/fs/cgroup/systemd", "name=systemd"}}
	if diff := cmp.Diff(want, cgroupMounts(mountinfo), cmp.AllowUnexported(hierarchy{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// enterCgroup moves the calling process into the machine's cgroup and makes that the root of all cgroups it sees: the
// kubelet then finds the machine's own use of memory where it looks for the host's.
func enterCgroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.WriteFile(filepath.Join(root, name, "cgroup.procs"), []byte("0"), 0o600); err != nil {
			return err
		}
	}
	seen, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	links, err := controllerLinks()
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return err
	}
	if _, err := os.Stat(cgroupMount + "/cgroup.controllers"); err == nil {
		return enterUnified()
	}
	if err := unix.Mount("tmpfs", cgroupMount, "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, m := range cgroupMounts(string(seen)) {
		if err := os.MkdirAll(m.point, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("cgroup", m.point, "cgroup", 0, m.controllers); err != nil {
			return fmt.Errorf("mount %s: %w", m.point, err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(cgroupMount, name)); err != nil {
			return err
		}
	}
	return nil
}

// enterUnified is the way with cgroup v2, where the root may hold no processes if its children have controllers.
func enterUnified() error {
	if err := mountUnified(cgroupMount); err != nil {
		return err
	}
	own := filepath.Join(cgroupMount, "init")
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0o600); err != nil {
		return err
	}
	return hand(cgroupMount, own)
}

// mountUnified mounts cgroup v2 again, so that its root is the namespace's. The kernel refuses to mount a file system where
// it is mounted already, so a tmpfs is mounted in between.
func mountUnified(point string) error {
	for _, kind := range []string{"tmpfs", "cgroup2"} {
		if err := unix.Mount(kind, point, kind, 0, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", kind, point, err)
		}
	}
	return nil
}

// controllerLinks are the names of controllers that share a hierarchy, such as cpu for cpu,cpuacct.
func controllerLinks() (map[string]string, error) {
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		if out[e.Name()], err = os.Readlink(filepath.Join(cgroupMount, e.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hierarchy is one of cgroup v1.
type hierarchy struct{ point, controllers string }

// cgroupMounts reads the hierarchies of cgroup v1 from mountinfo (proc_pid_mountinfo(5)).
func cgroupMounts(mountinfo string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 3 || rest[0] != "cgroup" {
			continue
		}
		options := slices.DeleteFunc(strings.Split(rest[2], ","), func(o string) bool {
			return o == "rw" || o == "ro" || o == "xattr" || o == "clone_children" || strings.HasPrefix(o, "release_agent")
		})
		out = append(out, hierarchy{fields[4], strings.Join(options, ",")})
	}
	return out
}

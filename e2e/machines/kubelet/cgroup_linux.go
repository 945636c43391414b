package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupMount = "/sys/fs/cgroup"

// hierarchies are the folders in which a cgroup has to be made: one for each controller with cgroup v1, one with v2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(cgroupMount + "/cgroup.controllers"); err == nil {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		// Links name a controller that shares its folder with another; unified is v2 beside v1.
		if e.IsDir() && e.Name() != "unified" {
			out = append(out, filepath.Join(cgroupMount, e.Name()))
		}
	}
	return out, nil
}

// sandboxes is the cgroup of all sandboxes' machines; in it each sandbox has one that is named by its process.
const sandboxes = "/slipway"

// machineCgroup is the cgroup of a machine of this process.
func machineCgroup(id string) string {
	return filepath.Join(sandboxes, strconv.Itoa(os.Getpid()), id)
}

// sweep removes the cgroups of sandboxes that were killed: their processes ended with them, and all else was in their
// namespaces and folders.
func sweep() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		entries, err := os.ReadDir(filepath.Join(root, sandboxes))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, err)
		for _, e := range entries {
			// What is no process's number is an older version's.
			pid, err := strconv.Atoi(e.Name())
			if e.IsDir() && (err != nil || pid != os.Getpid() && !alive(pid)) {
				errs = append(errs, removeTree(filepath.Join(root, sandboxes, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// checkCgroups says what this host lacks: the controllers that the kubelet cannot do without (pkg/kubelet/cm,
// validateSystemRequirements and the CPU manager's), and the right to make cgroups.
func checkCgroups() error {
	probe := machineCgroup("probe")
	if err := makeCgroup(probe); err != nil {
		return err
	}
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	have := map[string]bool{}
	var errs []error
	for _, root := range roots {
		folder := filepath.Join(root, probe)
		controllers, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
		if err != nil { // v1 shows a controller by its files.
			for file, controller := range map[string]string{
				"cpu.shares": "cpu", "cpuset.cpus": "cpuset", "memory.limit_in_bytes": "memory", "pids.max": "pids",
			} {
				if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
					have[controller] = true
				}
			}
		}
		for controller := range strings.FieldsSeq(string(controllers)) {
			have[controller] = true
		}
		errs = append(errs, removeTree(folder))
	}
	removeEmpty(filepath.Dir(probe))
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
		if !have[controller] {
			errs = append(errs, fmt.Errorf("there is no controller %s", controller))
		}
	}
	return errors.Join(errs...)
}

// makeCgroup makes the machine's cgroup.
func makeCgroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		folder := root
		for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
			parent := folder
			folder = filepath.Join(folder, part)
			if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := hand(parent, folder); err != nil {
				return err
			}
		}
	}
	return nil
}

// hand gives a new cgroup the use of what its parent has: CPUs and memory nodes with v1, controllers with v2.
func hand(parent, folder string) error {
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err == nil {
		return delegate(parent, strings.Fields(string(controllers)))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			continue // This is another controller's hierarchy.
		}
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// delegate enables controllers for a cgroup's children, one by one: of those that cannot be enabled checkCgroups knows
// which are needed. An empty cpuset of v2 is its parent's.
func delegate(parent string, controllers []string) error {
	file := filepath.Join(parent, "cgroup.subtree_control")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, name := range controllers {
		if slices.Contains(strings.Fields(string(before)), name) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+name), 0o600); errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("cgroup %s has processes, so that its children get no controllers (a container's root cgroup?): %w", parent, err)
		}
	}
	return nil
}

// removeCgroup removes the cgroup and all within, once the processes in it have ended.
func removeCgroup(ctx context.Context, name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for {
		err = nil
		for _, root := range roots {
			err = errors.Join(err, removeTree(filepath.Join(root, name)))
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// removeEmpty removes a cgroup that has none within.
func removeEmpty(name string) {
	roots, err := hierarchies()
	if err != nil {
		return
	}
	for _, root := range roots {
		_ = os.Remove(filepath.Join(root, name))
	}
}

// removeTree removes folders only, leaves first: a cgroup's files go with it.
func removeTree(folder string) error {
	var folders []string
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	for _, f := range slices.Backward(folders) {
		if rm := os.Remove(f); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	return err
}

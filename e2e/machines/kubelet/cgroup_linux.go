package kubelet

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o600); err != nil {
			return err
		}
	}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // So it is with cgroup v1.
	}
	if err != nil {
		return err
	}
	enable := strings.Join(strings.Fields(string(controllers)), " +")
	return os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+enable), 0o600)
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

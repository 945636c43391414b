package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packages of the node beside Debian's smallest set: those of kind's Dockerfile that Kubernetes needs, and Debian's containerd,
// runc and CNI plugins instead of kind's builds of them.
func packages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod", "socat",
		"libseccomp2", "bash", "ca-certificates", "curl", "jq", "procps", "hostname", "busybox-static",
		"containerd", "runc", "containernetworking-plugins",
	}
}

// rootfs makes Debian's part and kind's files in it.
func (b *build) rootfs(ctx context.Context) error {
	root := b.path("rootfs")
	if done := b.path("rootfs.done"); !exists(done) {
		if err := os.RemoveAll(root); err != nil {
			return err
		}
		if err := runVisibly(ctx, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages(), ","), b.suite, root); err != nil {
			return err
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			return err
		}
	}
	for _, edit := range []func(context.Context, string) error{slim, b.kindFiles, enable, runtimeSpec} {
		if err := edit(ctx, root); err != nil {
			return err
		}
	}
	return nil
}

// slim leaves out what kind's Dockerfile does: units that do not belong in a container, and the archive's caches.
func slim(_ context.Context, root string) error {
	for _, pattern := range []string{
		"lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service", "lib/systemd/system/multi-user.target.wants/*",
		"etc/systemd/system/*.wants/*", "lib/systemd/system/local-fs.target.wants/*", "lib/systemd/system/sockets.target.wants/*udev*",
		"lib/systemd/system/sockets.target.wants/*initctl*", "lib/systemd/system/basic.target.wants/*",
		"var/cache/apt/archives/*.deb", "var/cache/apt/*.bin", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(root, "etc/systemd/journald.conf"), []byte("[Journal]\nReadKMsg=no\n"), 0o644)
}

// kindFiles copies images/base/files of kind's module, and ours.
func (b *build) kindFiles(_ context.Context, root string) error {
	source := filepath.Join(b.kind, "images", "base", "files")
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if name == "etc/containerd/config.toml" {
			// A host that lacks CAP_SYS_RESOURCE lowers no OOM score.
			data = []byte(strings.Replace(string(data), "restrict_oom_score_adj = false", "restrict_oom_score_adj = true", 1))
		}
		return put(root, name, data)
	})
	if err != nil {
		return err
	}
	for _, f := range []struct{ name, path string }{
		{"default-cni.yaml", "kind/manifests/default-cni.yaml"},
		{"default-storage.yaml", "kind/manifests/default-storage.yaml"},
		{"images.service", "etc/systemd/system/slipway-images.service"},
		{"kubelet-images.conf", "etc/systemd/system/kubelet.service.d/12-images.conf"},
		{"load-images.sh", "kind/bin/load-images.sh"},
	} {
		data, err := files.ReadFile("files/" + f.name)
		if err != nil {
			return err
		}
		if err := put(root, f.path, data); err != nil {
			return err
		}
	}
	return put(root, "kind/version", []byte(b.version))
}

// put writes a file with the mode that kind's Dockerfile gives it.
func put(root, name string, data []byte) error {
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if folder := filepath.Dir(name); folder == "usr/local/bin" || folder == "kind/bin" || folder == "usr/bin" {
		mode = 0o755
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// enable links programs to where kind's files look for them, and the units to the target that starts them.
func enable(_ context.Context, root string) error {
	links := map[string]string{
		"usr/local/bin/containerd": "/usr/bin/containerd", "usr/local/bin/ctr": "/usr/bin/ctr", "usr/local/sbin/runc": "/usr/sbin/runc",
		"usr/local/bin/containerd-shim-runc-v2":     "/usr/bin/containerd-shim-runc-v2",
		"etc/systemd/system/systemd-binfmt.service": "/dev/null",
	}
	for _, unit := range []string{"kubelet.service", "containerd.service", "undo-mount-hacks.service", "slipway-images.service"} {
		links["etc/systemd/system/multi-user.target.wants/"+unit] = "/etc/systemd/system/" + unit
	}
	for _, plugin := range []string{"host-local", "loopback", "ptp", "portmap"} {
		links["opt/cni/bin/"+plugin] = "/usr/lib/cni/" + plugin
	}
	for name, target := range links {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(root, "etc/kubernetes/manifests"), 0o755)
}

// runtimeSpec is containerd's specification of a container, with kind's hook and without limits.
func runtimeSpec(ctx context.Context, root string) error {
	out, err := output(ctx, "chroot", root, "/usr/bin/ctr", "oci", "spec")
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal([]byte(out), &spec); err != nil {
		return err
	}
	spec["hooks"] = map[string]any{"createContainer": []any{map[string]any{"path": "/kind/bin/mount-product-files.sh"}}}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		return fmt.Errorf("ctr oci spec has no process: %s", out)
	}
	delete(process, "rlimits")
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return put(root, "etc/containerd/cri-base.json", data)
}

// install puts Kubernetes' programs and the images into the root file system.
func (b *build) install(_ context.Context) error {
	for _, name := range slices.Sorted(slices.Values([]string{"kubeadm", "kubelet", "kubectl"})) {
		data, err := os.ReadFile(b.path("bin", name))
		if err != nil {
			return err
		}
		if err := put(b.path("rootfs"), "usr/bin/"+name, data); err != nil {
			return err
		}
	}
	for _, name := range []string{"node.tar", "control-plane.tar"} {
		data, err := os.ReadFile(b.path("images", name))
		if err != nil {
			return err
		}
		if err := put(b.path("rootfs"), "kind/images/"+name, data); err != nil {
			return err
		}
	}
	return nil
}

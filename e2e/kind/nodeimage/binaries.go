package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubernetes are the programs of k8s.io/kubernetes/cmd.
func kubernetes() []string {
	return []string{"kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"}
}

// binaries builds what runs on the nodes, and kind. What is there already is kept.
func (b *build) binaries(ctx context.Context) error {
	parts := strings.Split(strings.TrimPrefix(b.version, "v"), ".")
	const stamp = " -X k8s.io/component-base/version."
	flags := "-s -w" + stamp + "gitVersion=" + b.version + stamp + "gitMajor=" + parts[0] + stamp + "gitMinor=" + parts[1] + stamp + "gitTreeState=clean"
	for _, name := range kubernetes() {
		if err := b.compile(ctx, name, "k8s.io/kubernetes/cmd/"+name, flags); err != nil {
			return err
		}
	}
	if err := b.compile(ctx, "etcd", "go.etcd.io/etcd/server/v3", "-s -w"); err != nil {
		return err
	}
	for _, module := range []string{kindModule, dnsModule} {
		if err := b.compileModule(ctx, module); err != nil {
			return err
		}
	}
	return b.pause(ctx)
}

// compile builds a package in the versions of e2e/kind/kind.mod.
func (b *build) compile(ctx context.Context, name, pkg, flags string) error {
	return b.goCommand(ctx, name, "", "build", "-modfile=e2e/kind/kind.mod", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", b.path("bin", name), pkg)
}

// compileModule builds the command of a module in the module's own versions.
func (b *build) compileModule(ctx context.Context, module string) error {
	path, _, _ := strings.Cut(module, "@")
	bin, err := filepath.Abs(b.path("bin"))
	if err != nil {
		return err
	}
	return b.goCommand(ctx, filepath.Base(path), "GOBIN="+bin, "install", "-trimpath", "-ldflags", "-s -w", module)
}

func (b *build) goCommand(ctx context.Context, name, env string, args ...string) error {
	if exists(b.path("bin", name)) {
		return nil
	}
	if err := os.MkdirAll(b.path("bin"), 0o755); err != nil {
		return err
	}
	fmt.Println(name)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// pause compiles what holds a pod's namespaces, which Kubernetes has in C.
func (b *build) pause(ctx context.Context) error {
	if exists(b.path("bin", "pause")) {
		return nil
	}
	folder, err := output(ctx, "go", "list", "-modfile=e2e/kind/kind.mod", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(folder), "build", "pause", "linux", "pause.c")
	return runVisibly(ctx, "cc", "-static", "-Os", "-DVERSION=3.10", "-o", b.path("bin", "pause"), source)
}

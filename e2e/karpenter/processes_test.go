package karpenter_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
)

// The processes beside slipway's, by the names of their programs.
const (
	karpenter      = "karpenter"
	stockScheduler = "kube-scheduler"
)

// startKarpenter runs Karpenter's controller with the defaults of its chart, and kube-scheduler with Kubernetes' own, until ctx ends. Both
// have the administrator's rights: the rules of Karpenter's chart are no part of the sandbox.
func (c *cluster) startKarpenter(ctx context.Context) {
	c.t.Helper()
	kubeconfig := c.KubeconfigPath()
	c.run(ctx, karpenter, append(c.AWSEnviron(), "KUBECONFIG="+kubeconfig),
		"--cluster-name="+sandbox.ClusterName, "--cluster-endpoint="+c.RESTConfig().Host, "--interruption-queue="+sandbox.ClusterName,
		"--leader-election-namespace=kube-system",
		fmt.Sprintf("--metrics-port=%d", freePort(c.t)), fmt.Sprintf("--health-probe-port=%d", freePort(c.t)))
	c.run(ctx, stockScheduler, os.Environ(),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", freePort(c.t)))
}

// run starts a program of the folder of binaries and restarts it when it ends, which fails the test.
func (c *cluster) run(ctx context.Context, name string, env []string, args ...string) {
	c.t.Helper()
	child, err := supervise.New(supervise.Config{
		Name: name, Path: filepath.Join(binaries(), name), Args: args, Env: env, LogFile: c.LogFile(name),
		Exited: func(e supervise.Exit) {
			c.t.Errorf("%s ended: %s; the end of its log:\n%s", name, e.State, c.Tail(name, 20))
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.children[name] = child
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- child.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
}

// pid returns the process id of one of the processes.
func (c *cluster) pid(name string) int {
	if child := c.children[name]; child != nil {
		return child.PID()
	}
	return c.PID(name)
}

// freePort returns a port that is free now.
func freePort(tb testing.TB) int {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !strings.HasPrefix(address.Network(), "tcp") {
		tb.Fatalf("listening on loopback: the address is %v", listener.Addr())
	}
	return address.Port
}

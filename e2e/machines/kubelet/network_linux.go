package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// network gives the machine its address. It leads nowhere: what is outside comes by loopback, through bridges.
func network(ctx context.Context, d description) error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "eth0", "type", "veth", "peer", "name", "wire"},
		{"addr", "add", d.Instance.PrivateIP + "/32", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"link", "set", "wire", "up"},
		{"route", "add", "default", "dev", "eth0"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// listenIn opens a listener in the network namespace of process pid.
func listenIn(ctx context.Context, pid int, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	out := make(chan result)
	go func() {
		// The thread is never unlocked, so that it ends with the goroutine: no other one may find itself in that namespace.
		runtime.LockOSThread()
		listener, err := listenThere(ctx, pid, address)
		out <- result{listener, err}
	}()
	r := <-out
	return r.listener, r.err
}

func listenThere(ctx context.Context, pid int, address string) (net.Listener, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// bridge hands what arrives at the listener to the same address outside, until ctx ends.
func bridge(ctx context.Context, listener net.Listener, address string) {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		inner, err := listener.Accept()
		if err != nil {
			return
		}
		go join(ctx, inner, address)
	}
}

func join(ctx context.Context, inner net.Conn, address string) {
	defer func() { _ = inner.Close() }()
	outer, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = outer.Close() }()
	stop := context.AfterFunc(ctx, func() {
		_ = inner.Close()
		_ = outer.Close()
	})
	defer stop()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{inner, outer}, {outer, inner}} {
		wg.Go(func() {
			// What one side ends, the other sees as the end of its stream.
			_, _ = io.Copy(way[0], way[1])
			if c, ok := way[0].(*net.TCPConn); ok {
				_ = c.CloseWrite()
			}
		})
	}
	wg.Wait()
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// socketMode lets the socket's own user connect.
const socketMode = 0o600

// listen opens the socket for this user only: a process that can write to it can spend money. A missing folder is made with mode 0700. In one
// that every user may write to, another user could put a socket in the place of this one: that is an error.
func listen(ctx context.Context, path string) (net.Listener, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of socket %s: %w", path, err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the mode of the folder of socket %s: %w", path, err)
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return nil, fmt.Errorf("opening socket %s: every user may write to folder %s (mode %04o), expected 0700: name a folder below it, which is then made",
			path, folder, mode)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the earlier socket %s: %w", path, err)
	}
	listener, err := bind(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("opening socket %s: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the mode of socket %s: %w", path, err), listener.Close())
	}
	return netutil.LimitListener(listener, api.MaxConnections), nil
}

// bind creates the socket. On Linux the socket has its mode from the beginning: bind(2) gives the file the mode of the socket's own inode, less
// the umask, which belongs to the whole process and so is not changed here (net/unix/af_unix.c, unix_bind_bsd).
func bind(ctx context.Context, path string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		if runtime.GOOS != "linux" {
			return nil
		}
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), socketMode) })
		return errors.Join(err, failed)
	}}
	return config.Listen(ctx, "unix", path)
}

// limits returns the limits of the contract as a server's options.
func limits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(api.MaxMessageBytes), grpc.MaxSendMsgSize(api.MaxMessageBytes), grpc.MaxConcurrentStreams(api.MaxStreams),
	}
}

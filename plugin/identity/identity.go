// Package identity hands the identity of leader election on to the next process of the same container. A process that was
// killed holds its Lease until the Lease expires. The next process takes the same identity, and so is the leader at once
// instead of 15 seconds later. It uses the same socket and the same launcher.
//
// The identity is in a file that its process keeps locked. The kernel releases the lock when the process ends and not before,
// so two live processes never have one identity. The package starts no goroutine.
package identity

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// maxIdentity is above any identity: a host name, an underscore and a UUID.
const maxIdentity = 1024

// Identity is the name under which this process takes part in leader election.
type Identity struct {
	file *os.File
	name string
}

// Take returns the identity that the last process left in the file, or own if there is none. A process leaves its identity
// unless it called Renounce. If a live process has the file locked, Take returns own and leaves nothing to a later process.
//
// A missing folder is made with mode 0700, as the launcher makes that of its socket: where they share one, either may be first.
func Take(path, own string) (*Identity, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("identity of leader election: making its folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("identity of leader election: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if closing := file.Close(); !errors.Is(err, syscall.EWOULDBLOCK) || closing != nil {
			return nil, fmt.Errorf("identity of leader election: locking %s: %w", path, errors.Join(err, closing))
		}
		return &Identity{name: own}, nil
	}
	left, err := io.ReadAll(io.LimitReader(file, maxIdentity))
	if err == nil && len(left) == 0 {
		left = []byte(own)
		_, err = file.WriteAt(left, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("identity of leader election: %s: %w", path, errors.Join(err, file.Close()))
	}
	return &Identity{file: file, name: string(left)}, nil
}

// Name returns the name for the Lease.
func (i *Identity) Name() string { return i.name }

// Renounce empties the file: the next process has an identity of its own. A process that releases its Lease calls it. The file
// stays locked until the process ends.
func (i *Identity) Renounce() error {
	if i.file == nil {
		return nil
	}
	if err := i.file.Truncate(0); err != nil {
		return fmt.Errorf("identity of leader election: %w", err)
	}
	return nil
}

// Package heir hands the identity of leader election on to the next process of the same container: one that was killed holds
// the Lease until it expires, and with it its successor, which stands at the same socket beside the same launcher, is the
// leader at once instead of 15 seconds later.
//
// The identity is in a file that its owner keeps locked. The kernel lets go of the lock with the process and not before, so
// that two never go under one identity. It starts no goroutine.
package heir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxIdentity is above any identity: a host name, an underscore and a UUID.
const maxIdentity = 1024

// Identity that this process goes under.
type Identity struct {
	file *os.File
	name string
}

// Take returns the identity that the file names where a process left it there without Renounce, and own otherwise. Where a
// process that lives has the file, own is the answer too, and nothing is left to anybody.
func Take(path, own string) (*Identity, error) {
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

// Name of the identity.
func (i *Identity) Name() string { return i.name }

// Renounce leaves nothing to the next process: this one gives the Lease back itself. The lock stays until the process ends.
func (i *Identity) Renounce() error {
	if i.file == nil {
		return nil
	}
	if err := i.file.Truncate(0); err != nil {
		return fmt.Errorf("identity of leader election: %w", err)
	}
	return nil
}

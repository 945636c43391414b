package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// namePattern matches the names of sandboxes. A name is part of a unix socket's path, whose length is limited.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?$`)

// DefaultName is the name of the first sandbox without a given name.
const DefaultName = "sandbox"

// Claim is the ownership of a sandbox's name and folder.
type Claim struct {
	// Name is the sandbox's.
	Name string
	// Folder is the sandbox's own, mode 0700.
	Folder string
	lock   *os.File
}

// InUseError reports that a sandbox of that name runs.
type InUseError struct {
	// Name is that of the running sandbox.
	Name string
}

// Error names the sandbox.
func (e *InUseError) Error() string { return fmt.Sprintf("a sandbox named %q runs already", e.Name) }

// Acquire claims a name and creates its folder, empty. An empty name means the first free one of sandbox, sandbox-2, and so
// on. Errors: *InUseError.
func Acquire(name string) (*Claim, error) {
	root, err := makeRoot()
	if err != nil {
		return nil, err
	}
	if name != "" {
		return acquire(root, name)
	}
	for i := 1; ; i++ {
		name = DefaultName
		if i > 1 {
			name = fmt.Sprintf("%s-%d", DefaultName, i)
		}
		claim, err := acquire(root, name)
		if _, inUse := errors.AsType[*InUseError](err); !inUse {
			return claim, err
		}
	}
}

func acquire(root, name string) (*Claim, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("validating sandbox name %q: want at most 24 of a-z, 0-9 and -, with no - at its ends", name)
	}
	lock, err := tryLock(lockPath(root, name))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, &InUseError{Name: name}
	}
	claim := &Claim{Name: name, Folder: filepath.Join(root, name), lock: lock}
	// The lock is held, so what exists was left by a sandbox that was killed.
	if err := os.RemoveAll(claim.Folder); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the folder of sandbox %s: %w", name, err), claim.Release())
	}
	if err := os.Mkdir(claim.Folder, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the folder of sandbox %s: %w", name, err), claim.Release())
	}
	return claim, nil
}

// Publish writes the state that Find reads.
func (c *Claim) Publish(state State) error {
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Folder, stateFile), data, 0o600)
}

// Release removes the folder and releases the name.
func (c *Claim) Release() error {
	root := filepath.Dir(c.Folder)
	err := errors.Join(os.RemoveAll(c.Folder), os.Remove(c.lock.Name()), c.lock.Close())
	// This removes the root with the last sandbox. The root is not empty while another one runs.
	_ = os.Remove(root)
	return err
}

// Find returns the state of the sandbox with that name, or of the only running one where name is empty.
func Find(name string) (State, error) {
	states, err := List()
	if err != nil {
		return State{}, err
	}
	names := make([]string, 0, len(states))
	for _, state := range states {
		if state.Name == name {
			return state, nil
		}
		names = append(names, state.Name)
	}
	switch {
	case len(states) == 0:
		return State{}, errors.New("no sandbox runs: start one with `slipway-sandbox up`")
	case name != "":
		return State{}, fmt.Errorf("no sandbox named %q runs; there are: %s", name, strings.Join(names, ", "))
	case len(states) > 1:
		return State{}, fmt.Errorf("several sandboxes run, say which one with --sandbox: %s", strings.Join(names, ", "))
	default:
		return states[0], nil
	}
}

// List returns the states of the running sandboxes, by name. A sandbox that is starting has none yet.
func List() ([]State, error) {
	root := rootPath()
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var states []State
	for _, entry := range entries {
		if !entry.IsDir() || !isLocked(lockPath(root, entry.Name())) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, entry.Name(), stateFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var state State
		if err := json.Unmarshal(data, &state); err != nil {
			return nil, fmt.Errorf("reading the state of sandbox %s: %s: %w", entry.Name(), stateFile, err)
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return states, nil
}

func rootPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-sandbox-%d", os.Getuid()))
}

// makeRoot creates the folder of all sandboxes of this user, and refuses one that another user created.
func makeRoot() (string, error) {
	root := rootPath()
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(root)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("checking %s: want a folder that only its owner can enter", root)
	}
	return root, nil
}

func lockPath(root, name string) string { return filepath.Join(root, name+".lock") }

// tryLock opens and locks a file; nil where another process holds the lock.
func tryLock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			// The last sandbox removed the folder.
			if _, err = makeRoot(); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, file.Close()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if same(file, path) {
			return file, nil
		}
		// The last holder removed the file between open and lock.
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

func same(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

func isLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	locked := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return file.Close() == nil && errors.Is(locked, unix.EWOULDBLOCK)
}

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

// namePattern is what a sandbox may be called: its name is part of a unix socket's path, which has little room.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?$`)

// DefaultName is the first sandbox's that is given none.
const DefaultName = "sandbox"

// Claim is a sandbox's right to its name, and its folder.
type Claim struct {
	// Name of the sandbox.
	Name string
	// Folder of its own, mode 0700.
	Folder string
	lock   *os.File
}

// InUseError says that a sandbox of that name runs.
type InUseError struct {
	// Name of the sandbox that runs.
	Name string
}

// Error names the sandbox.
func (e *InUseError) Error() string { return fmt.Sprintf("a sandbox named %q runs already", e.Name) }

// Acquire claims a name and makes its folder, empty. An empty name means the first free one of sandbox, sandbox-2, and so on.
// Errors: *InUseError.
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
		return nil, fmt.Errorf("sandbox name %q: want at most 24 of a-z, 0-9 and -, with no - at its ends", name)
	}
	lock, err := tryLock(lockPath(root, name))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, &InUseError{Name: name}
	}
	claim := &Claim{Name: name, Folder: filepath.Join(root, name), lock: lock}
	// Whatever is there was left by a sandbox that was killed: the lock is ours.
	if err := os.RemoveAll(claim.Folder); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", name, err), claim.Release())
	}
	if err := os.Mkdir(claim.Folder, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", name, err), claim.Release())
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

// Release removes the folder and gives the name up.
func (c *Claim) Release() error {
	root := filepath.Dir(c.Folder)
	err := errors.Join(os.RemoveAll(c.Folder), os.Remove(c.lock.Name()), c.lock.Close())
	// Gone with the last sandbox; it is not empty while another one runs.
	_ = os.Remove(root)
	return err
}

// Find returns the state of the sandbox with that name, or of the only one that runs if name is empty.
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

// List returns the states of the sandboxes that run, by name; one that is still starting has none yet.
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
			return nil, fmt.Errorf("sandbox %s: %s: %w", entry.Name(), stateFile, err)
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return states, nil
}

func rootPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-sandbox-%d", os.Getuid()))
}

// makeRoot makes the folder of all sandboxes of this user, and refuses one that somebody else put there.
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
		return "", fmt.Errorf("%s is not a folder that only you can enter", root)
	}
	return root, nil
}

func lockPath(root, name string) string { return filepath.Join(root, name+".lock") }

// tryLock opens and locks a file; nil if somebody else holds it.
func tryLock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			// The last sandbox took the folder with it.
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
		// Its last holder removed it between our opening and our locking.
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
